import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { Cluster } from '../../../test/cluster/cluster.js';
import type { HarbingerProcess } from '../../../test/cluster/harbinger.js';
import { installKueueTypes } from '../../../test/cluster/kueue.js';
import { queueObjects } from '../../../test/cluster/kueue-queue.js';
import { bundleProgram } from '../../../test/cluster/program.js';
import { notYet, sleep, until } from '../../../test/cluster/until.js';
import { cpuSeconds } from '../cpu.js';
import { p99 } from '../percentile.js';
import { MadeUpRegistry } from '../registry.js';
import type { GangPlan } from './gangs.js';
import { NAMESPACE, PREWARM, QUEUE, SYSTEM } from './gangs.js';
import type { Command } from './load.js';

const PUBLISHER = `${SYSTEM}:harbinger-controller`;
const WRITES: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);
/** The pause and puller programs are small; what gangs run takes seconds on the shared link. */
const LAYER_BYTES = { program: 1_000, gang: 100_000_000 };
const LINK_MBIT = 20_000;
/** Slower than this for something small, an API server is saturated, and all that was measured is its queue. */
const SATURATED_MS = 1_000;

/** One controller as it is installed on a cluster of fake nodes, with Kueue's kinds and no Kueue: its scheduler would take a core of two. */
export class ControllerGround {
  readonly cluster: Cluster;
  readonly controller: HarbingerProcess;
  readonly registry: MadeUpRegistry;
  readonly #load: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  #samples: number[] = [];

  private constructor(parts: Pick<ControllerGround, 'cluster' | 'controller' | 'registry'> & { load: ChildProcess }) {
    this.cluster = parts.cluster;
    this.controller = parts.controller;
    this.registry = parts.registry;
    this.#load = parts.load;
    if (parts.load.stdout === null) throw new Error('the load generator has no output');
    this.#answers = createInterface({ input: parts.load.stdout })[Symbol.asyncIterator]();
  }

  static async start(nodes: number, say: (line: string) => void): Promise<ControllerGround> {
    const registry = await MadeUpRegistry.start((repository) =>
      repository.startsWith('plain/gang') ? LAYER_BYTES.gang : LAYER_BYTES.program,
    );
    const cluster = await Cluster.start({
      name: 'bench-controller',
      registry: false,
      say,
      nodes: {
        fake: {
          count: nodes,
          heartbeatMs: 3_600_000,
          imageReportMs: 60_000,
          linkMbit: LINK_MBIT,
          registries: [registry.host],
          allocatable: { cpu: '8', memory: '32Gi', pods: '110', 'ephemeral-storage': '1000Gi' },
        },
      },
      flags: {
        'kube-controller-manager': ['--node-monitor-grace-period=2h', '--kube-api-qps=300', '--kube-api-burst=500'],
        'kube-scheduler': ['--kube-api-qps=300', '--kube-api-burst=500'],
      },
    });
    try {
      await installKueueTypes(cluster.client);
      await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } });
      await cluster.client.apply(queueObjects({ name: QUEUE, namespace: NAMESPACE, quota: { cpu: '8000', memory: '16000Gi' } }));
      const { controllers } = await cluster.installHarbinger({
        webhookReplicas: 0,
        pullerImage: registry.resolved('program/puller'),
        config: { registries: [{ host: registry.host, plainHTTP: true, allowLocalAddresses: true }] },
      });
      const [controller] = controllers;
      if (controller === undefined) throw new Error('no controller was started');
      const program = await bundleProgram('tools/bench/controller/load.ts');
      const load = spawn(process.execPath, [program, cluster.kubeconfig], { stdio: ['pipe', 'pipe', 'inherit'] });
      return new ControllerGround({ cluster, controller, registry, load });
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    this.#load.kill();
    this.registry.stop();
    await this.cluster.stop();
  }

  /** Gangs `PREFIX0`, ... whose images are `plain/gang-PREFIX0`, ..., of which there are `images`. */
  gangs(prefix: string, count: number, rest: { images: number; pods: number; priority: number }): GangPlan[] {
    return Array.from({ length: count }, (_, i) => ({
      name: `${prefix}${i}`,
      image: `${this.registry.host}/${this.repository(`${prefix}${i % rest.images}`)}:v1`,
      pods: rest.pods,
      priority: rest.priority,
    }));
  }

  repository(name: string): string {
    return `plain/gang-${name}`;
  }

  /** Has the second process do something, and answers when it is done. */
  async ask(command: Command): Promise<{ ms?: number }> {
    this.#load.stdin?.write(`${JSON.stringify(command)}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error('the load generator ended; its error stands above');
    const answer = JSON.parse(String(value)) as { ms?: number; error?: string; samples: number[] };
    this.#samples.push(...answer.samples);
    if (answer.error !== undefined) throw new Error(`the load generator: ${answer.error}`);
    return answer;
  }

  /** Throws when the API server was too busy for anything measured on it to say something of the controller. */
  mustNotBeSaturated(): number {
    const slowest = p99(this.#samples);
    if (slowest > SATURATED_MS)
      throw new Error(`void: the API server was saturated (a small GET took ${Math.round(slowest)} ms at the 99th percentile)`);
    return slowest;
  }

  /** Waits until `check` accepts all ImagePrewarms of the gangs. */
  async untilPrewarms(what: string, names: ReadonlySet<string>, check: (reason: string, warm: string) => boolean): Promise<void> {
    await until(
      what,
      async () => {
        const all = (await this.cluster.client.list(PREWARM, { namespace: NAMESPACE })).filter((p) =>
          names.has(String(p['spec'].gangRef?.name)),
        );
        const conditions = (status: { conditions?: { type: string; reason: string }[] } | undefined): string =>
          status?.conditions?.find((c) => c.type === 'Ready')?.reason ?? '';
        const good = all.filter((p) => check(conditions(p['status']), String(p['status']?.progress)));
        return good.length === names.size || notYet(`${good.length} of ${all.length} of ${names.size}`);
      },
      { timeoutMs: 240_000, everyMs: 1_000 },
    );
  }

  /** Waits until the controller has nothing to do; the last second of it belongs to no measurement. */
  async untilIdle(): Promise<void> {
    await until(
      'the controller to be idle',
      async () => {
        const before = cpuSeconds(this.controller.pid);
        await sleep(1_000);
        const used = cpuSeconds(this.controller.pid) - before;
        return used < 0.1 || notYet(`${used} s of processor time in the last second`);
      },
      { timeoutMs: 120_000 },
    );
  }

  /** Sum of the samples of a metric whose labels contain `labels`. */
  async metric(name: string, labels = ''): Promise<number> {
    const lines = (await this.controller.metrics()).split('\n').filter((l) => l.startsWith(name) && l.includes(labels));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  /** Writes of the controller since then, Events too; only the beat of its Lease is left out. */
  writesSince(since: number): number {
    return this.cluster.audit.query({ user: PUBLISHER, since }).filter((e) => WRITES.has(e.verb) && e.resource !== 'leases')
      .length;
  }

  /** Lists of the controller that asked for everything at once. */
  unpagedLists(): number {
    return this.cluster.audit.query({ user: PUBLISHER, verb: 'list' }).filter((e) => !/[?&]limit=\d/.test(e.uri)).length;
  }
}
