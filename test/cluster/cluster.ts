import { join } from 'node:path';
import { startFakeNodes, type FakeNodes, type FakeNodesOptions } from '../doubles/fake-kubelet/index.js';
import { AuditLog } from './audit.js';
import { ClusterClient, isTrue } from './client.js';
import { linkTools, startControlPlane, untilApiServerReady, type ControlPlane, type ExtraFlags } from './control-plane.js';
import { run } from './exec.js';
import { installHarbinger, type Harbinger, type HarbingerOptions } from './harbinger.js';
import { writeKubeconfig } from './kubeconfig.js';
import { startKueue, type KueueOptions } from './kueue.js';
import { queueObjects, type QueueOptions } from './kueue-queue.js';
import { leasePorts, leaseSubnet } from './leases.js';
import { createNetwork, type Network } from './network/index.js';
import type { SpawnRequest } from './network/spawn.js';
import { startRealNodes, type RealNode, type RealNodesOptions, type Snapshotter } from './nodes/index.js';
import { statePath } from './paths.js';
import { startRegistry, type Registry } from './registry/index.js';
import { Supervisor } from './supervisor/client.js';
import { CONTROL_PLANE_TOOLS, ensureTools, REAL_NODE_TOOLS, SNAPSHOTTER_TOOLS } from './tools.js';
import { notYet, until } from './until.js';

export interface ClusterOptions {
  /** [a-z0-9-]; names the folder of logs and state below .out/cluster. One cluster of a name at a time. */
  name: string;
  nodes?: {
    /** Kubelets with containerd in network namespaces; needs root on Linux (see make doctor). */
    real?: number | (Partial<RealNodesOptions> & { count: number });
    /** Nodes played by one process; default 0. */
    fake?: number | (Partial<FakeNodesOptions> & { count: number });
  };
  /** Default off. */
  kueue?: boolean | KueueOptions;
  /** The registry: default on. `rateMbit` limits its egress, for real nodes only. */
  registry?: boolean | { rateMbit?: number };
  /** Ports of the host's address on the network at which a test has plain-HTTP registries of its own that real nodes pull from. */
  hostRegistryPorts?: readonly number[];
  flags?: ExtraFlags;
  /** Default true: the cluster ends with this process. */
  owned?: boolean;
  /** Gets progress lines; default console.log. */
  say?: (line: string) => void;
}

interface Parts {
  supervisor: Supervisor;
  controlPlane: ControlPlane;
  client: ClusterClient;
  tools: Readonly<Record<string, string>>;
  bin: string;
  network?: Network;
}

// Slots of the bridge's first /27: registries 2-9, nodes from 10 on.
const REGISTRY_SLOT = 2;
// A fake link that is no bottleneck unless a test makes it one.
const DEFAULT_LINK_MBIT = 1000;

/** A Kubernetes cluster of real processes on this machine, for tests, the demo and hands. */
export class Cluster {
  readonly name: string;
  readonly client: ClusterClient;
  readonly audit: AuditLog;
  readonly supervisor: Supervisor;
  readonly network: Network | undefined;
  #registry: Registry | undefined;
  #realNodes: RealNode[] = [];
  #fakeNodes: FakeNodes | undefined;
  readonly #parts: Parts;
  #stopped = false;

  private constructor(name: string, parts: Parts) {
    this.name = name;
    this.#parts = parts;
    this.client = parts.client;
    this.supervisor = parts.supervisor;
    this.network = parts.network;
    this.audit = new AuditLog(parts.controlPlane.auditLog);
  }

  /** Starts a cluster; resolves when API server, Kueue and all asked-for nodes are ready. Tools are built when missing. */
  static async start(options: ClusterOptions): Promise<Cluster> {
    const { name, nodes = {}, say = (line: string): void => console.log(line) } = options;
    const real = counted(nodes.real);
    const tools = await ensureTools(toolsFor(real), say);
    const begun = performance.now();
    const lap = (what: string): void =>
      say(`cluster ${name}: ${what} after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const supervisor = await Supervisor.launch(name, { owned: options.owned ?? true });
    try {
      const network = real.count > 0 ? await makeNetwork(supervisor) : undefined;
      const address = network?.hostAddress ?? '127.0.0.1';
      const controlPlane = await startControlPlane({
        supervisor,
        tools,
        address,
        ...(options.flags ? { flags: options.flags } : {}),
      });
      lap('API server ready');
      const client = new ClusterClient(controlPlane.kubeconfig);
      const bin = linkTools(supervisor.state.runDir, tools);
      const cluster = new Cluster(name, { supervisor, controlPlane, client, tools, bin, ...(network ? { network } : {}) });
      await cluster.#startRest(options, lap);
      return cluster;
    } catch (error) {
      // Without the cause of the failure the cleaning up is of no interest.
      await supervisor.shutdown().catch(() => []);
      throw error;
    }
  }

  async #startRest(options: ClusterOptions, lap: (what: string) => void): Promise<void> {
    const { supervisor, controlPlane, client, tools } = this.#parts;
    if (options.registry !== false) this.#registry = await this.#startRegistry(options.registry);
    const kueue = options.kueue === true ? {} : options.kueue;
    const withKueue = async (config: KueueOptions): Promise<void> => {
      await this.startKueue(config);
      lap('Kueue ready');
    };
    await Promise.all([
      kueue ? withKueue(kueue) : undefined,
      this.#startNodes(options, lap),
      // Pods need this account; the controller-manager makes it a moment after the API server is ready.
      client.watchUntil('v1/ServiceAccount', 'default/default', () => true, 60_000),
    ]);
    await supervisor.describe({
      kubeconfig: this.kubeconfig,
      apiServer: controlPlane.url,
      kubectl: tools['kubectl'],
      ...(this.#registry ? { registry: this.#registry.host } : {}),
    });
  }

  async #startRegistry(options: ClusterOptions['registry']): Promise<Registry> {
    const { supervisor, bin, network } = this.#parts;
    const [port = 0] = network ? [5000] : await leasePorts(1, supervisor.identity);
    const rate = typeof options === 'object' && options.rateMbit !== undefined ? { rateMbit: options.rateMbit } : {};
    return startRegistry({
      name: 'registry',
      spawn: this.spawn,
      bin,
      dir: join(supervisor.state.runDir, 'registry'),
      port,
      ...(network ? { network: { network, slot: REGISTRY_SLOT, ...rate } } : {}),
    });
  }

  async #startNodes({ nodes = {}, hostRegistryPorts = [] }: ClusterOptions, lap: (what: string) => void): Promise<void> {
    const { supervisor, controlPlane, bin, network } = this.#parts;
    const real = counted(nodes.real);
    const fake = counted(nodes.fake);
    const ofHost = network ? hostRegistryPorts.map((port) => `${network.hostAddress}:${port}`) : [];
    const registries = [...(this.#registry ? [this.#registry.host] : []), ...ofHost];
    if (real.count > 0 && network) {
      this.#realNodes = await startRealNodes({
        network,
        spawn: this.spawn,
        bin,
        dir: join(supervisor.state.runDir, 'nodes'),
        apiServer: { url: controlPlane.url, ca: controlPlane.pki.caCert },
        issue: (request) => controlPlane.pki.issue(request),
        registries,
        ...real,
      });
    }
    if (fake.count > 0) {
      const { kubeconfig } = this;
      this.#fakeNodes = await startFakeNodes({ kubeconfig, spawn: this.spawn, linkMbit: DEFAULT_LINK_MBIT, registries, ...fake });
    }
    if (real.count + fake.count === 0) return;
    await this.untilNodesReady(real.count + fake.count);
    lap(`${real.count + fake.count} nodes Ready`);
  }

  /** Path of the cluster-admin kubeconfig. */
  get kubeconfig(): string {
    return this.#parts.controlPlane.kubeconfig;
  }

  /** Path of the state file: with it another process can find and stop the cluster. */
  get stateFile(): string {
    return statePath(this.name);
  }

  get apiServer(): string {
    return this.#parts.controlPlane.url;
  }

  get pki(): ControlPlane['pki'] {
    return this.#parts.controlPlane.pki;
  }

  /** Paths of the built programs by name. */
  get tools(): Readonly<Record<string, string>> {
    return this.#parts.tools;
  }

  get logDir(): string {
    return this.supervisor.state.logDir;
  }

  /** A folder that lives as long as the cluster. */
  get runDir(): string {
    return this.supervisor.state.runDir;
  }

  get hasRegistry(): boolean {
    return this.#registry !== undefined;
  }

  get registry(): Registry {
    if (!this.#registry) throw new Error(`cluster ${this.name} was started with registry: false`);
    return this.#registry;
  }

  get realNodes(): readonly RealNode[] {
    return this.#realNodes;
  }

  get fakeNodes(): FakeNodes {
    if (!this.#fakeNodes) throw new Error(`cluster ${this.name} was started without fake nodes`);
    return this.#fakeNodes;
  }

  /** Starts a process that ends with the cluster; its output goes to `logs/NAME.log`. */
  readonly spawn = (request: SpawnRequest): ReturnType<Supervisor['spawn']> => this.#parts.supervisor.spawn(request);

  /** Leases loopback ports for as long as the cluster lives. */
  leasePorts(count: number): Promise<number[]> {
    return leasePorts(count, this.supervisor.identity);
  }

  /** Path of the kubectl that fits the cluster. */
  get kubectlPath(): string {
    return this.#parts.tools['kubectl'] ?? 'kubectl';
  }

  /** Runs kubectl as cluster-admin and returns what it prints; `input` is its standard input. */
  kubectl(args: readonly string[], input?: string): Promise<string> {
    return run(
      this.#parts.tools['kubectl'] ?? 'kubectl',
      ['--kubeconfig', this.kubeconfig, ...args],
      input === undefined ? {} : { input },
    );
  }

  /** Path of a kubeconfig with a token of this ServiceAccount, which has to exist. */
  async kubeconfigFor(serviceAccount: string, namespace: string): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${serviceAccount}/token`;
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 86_400 } };
    const answer = (await this.client.request('POST', path, request)) as { status: { token: string } };
    const server = { url: this.apiServer, ca: this.pki.caCert };
    return writeKubeconfig(join(this.runDir, `${namespace}-${serviceAccount}.kubeconfig`), server, {
      token: answer.status.token,
    });
  }

  /** Path of a kubeconfig with a certificate for this user: `admin` of tests may act as anybody. */
  kubeconfigForUser(user: string, groups: readonly string[] = []): string {
    return this.#parts.controlPlane.kubeconfigForUser(user, groups);
  }

  /** Installs Kueue in a cluster that was started without it; resolves when it reports ready. */
  async startKueue(options: KueueOptions = {}): Promise<void> {
    const { supervisor, controlPlane, client, tools } = this.#parts;
    await startKueue({ supervisor, controlPlane, client, program: tools['kueue'] ?? 'kueue' }, options);
  }

  /** Creates flavor, checks, ClusterQueue and LocalQueue, and waits until the ClusterQueue is active (unless checks keep it from that). */
  async kueueQueue(options: QueueOptions = {}): Promise<void> {
    await this.client.apply(queueObjects(options));
    if (options.checks?.length) return;
    await this.client.watchUntil(
      'kueue.x-k8s.io/v1beta2/ClusterQueue',
      options.name ?? 'gang',
      (queue) => isTrue(queue, 'Active'),
      60_000,
    );
  }

  /** Applies manifests/ and starts Harbinger's own processes; see HarbingerOptions. */
  installHarbinger(options: HarbingerOptions = {}): Promise<Harbinger> {
    return installHarbinger(this, options);
  }

  /** Waits until exactly so many Nodes are Ready. */
  async untilNodesReady(count: number): Promise<void> {
    await until(
      `${count} Nodes to be Ready`,
      async () => {
        const nodes = await this.client.list('v1/Node');
        const ready = nodes.filter((node) => isTrue(node, 'Ready'));
        return (
          ready.length === count ||
          notYet(
            `Ready: ${
              ready
                .map((n) => n.metadata.name)
                .join(', ')
                .slice(0, 500) || 'none'
            } of ${nodes.length} registered`,
          )
        );
      },
      { timeoutMs: 90_000 + 50 * count },
    );
  }

  /** Ends the API server, by default as a crash does. */
  async stopApiServer(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.supervisor.kill('kube-apiserver', signal);
  }

  /** Starts it again on the same port; resolves when it is ready. */
  async startApiServer(): Promise<void> {
    await this.supervisor.start('kube-apiserver');
    await untilApiServerReady(this.supervisor, this.kubeconfig);
  }

  async restartApiServer(): Promise<void> {
    await this.stopApiServer();
    await this.startApiServer();
  }

  /** Ends any process of the cluster by name (kueue, kube-scheduler, etcd, ...); resolves when it has exited. */
  async kill(name: string, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.supervisor.kill(name, signal);
  }

  /** Starts a process again after `kill`. */
  async restart(name: string): Promise<void> {
    await this.supervisor.start(name);
  }

  /** Freezes a process: connections stay open and nothing answers any more (a half-open peer). */
  async pause(name: string): Promise<void> {
    await this.supervisor.signal(name, 'SIGSTOP');
  }

  async resume(name: string): Promise<void> {
    await this.supervisor.signal(name, 'SIGCONT');
  }

  /** Leaves the cluster running when this process ends; `make cluster-down NAME=...` stops it. */
  async keep(): Promise<void> {
    await this.supervisor.disown();
    this.client.close();
    this.supervisor.detach();
  }

  /** Ends everything the cluster has started; a second call does nothing. Throws when something could not be removed. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    this.client.close();
    const leftovers = await this.supervisor.shutdown();
    if (leftovers.length > 0) throw new Error(`cluster ${this.name} left behind: ${leftovers.join(', ')}`);
  }
}

async function makeNetwork(supervisor: Supervisor): Promise<Network> {
  const subnet = await leaseSubnet(supervisor.identity);
  const cluster = `n${subnet.index}`;
  // Told before it exists: should we die in between, the supervisor cleans up by this name.
  await supervisor.describe({ network: cluster });
  return createNetwork({ cluster, subnet: subnet.cidr });
}

function toolsFor(real: { count: number; snapshotters?: readonly Snapshotter[] }): readonly string[] {
  if (real.count === 0) return CONTROL_PLANE_TOOLS;
  return [...REAL_NODE_TOOLS, ...(real.snapshotters ?? []).flatMap((name) => SNAPSHOTTER_TOOLS[name])];
}

const counted = <T extends { count: number }>(nodes: number | T | undefined): T | { count: number } =>
  typeof nodes === 'object' ? nodes : { count: nodes ?? 0 };
