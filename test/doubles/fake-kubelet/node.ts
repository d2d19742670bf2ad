import { ApiError, type ClusterClient, type Raw } from '../../cluster/client.js';
import { readKnobs, type Knobs } from './knobs.js';
import { PodRunner, type Host, type Timing } from './pod.js';
import { credentialsFor } from './secrets.js';
import { timestamp } from './status.js';
import { ImageStore, type World } from './store.js';

export interface NodeSettings {
  labels: Readonly<Record<string, string>>;
  allocatable: Readonly<Record<string, string>>;
  diskBytes: number;
  timing: Timing;
  /** Between a change of the images and its showing up in Node.status.images. */
  imageReportMs: number;
  /** Between two renewals of the Lease; default 10 s, as a kubelet does. */
  heartbeatMs?: number;
}

const LEASE_SECONDS = 40;
const HEARTBEAT_MS = 10_000;
// The kubelet lists the biggest ones only.
const MAX_LISTED_IMAGES = 50;

/** One fake node: its Node object, its Lease, its images and its Pods. */
export class FakeNode {
  readonly name: string;
  readonly store: ImageStore;
  readonly #index: number;
  readonly #world: World;
  readonly #client: ClusterClient;
  readonly #settings: NodeSettings;
  readonly #pods = new Map<string, PodRunner>();
  #knobs: Knobs = readKnobs(undefined);
  #registered = false;
  #nextIp = 1;
  #imageReportDue = false;

  constructor(o: { name: string; index: number; world: World; client: ClusterClient; settings: NodeSettings }) {
    this.name = o.name;
    this.#index = o.index;
    this.#world = o.world;
    this.#client = o.client;
    this.#settings = o.settings;
    const { diskBytes } = o.settings;
    this.store = new ImageStore({
      node: o.name,
      world: o.world,
      diskBytes,
      knobs: () => this.#knobs,
      onChange: () => this.#imagesChanged(),
    });
  }

  async register(): Promise<void> {
    const labels = {
      'kubernetes.io/hostname': this.name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': 'amd64',
      ...this.#settings.labels,
    };
    await this.#client
      .create({ apiVersion: 'v1', kind: 'Node', metadata: { name: this.name, labels }, spec: {} })
      .catch(unless(409));
    await this.#renewLease();
    await this.#report();
    this.#registered = true;
    void this.#beat();
  }

  /** A version of the Node object; undefined: it is gone, and so is the machine. One that appears later under the name is a new machine. */
  onNode(node: Raw | undefined): void {
    if (!node) {
      this.#registered = false;
      for (const pod of this.#pods.values()) pod.vanish();
      this.#pods.clear();
      return;
    }
    const before = JSON.stringify(this.#knobs);
    this.#knobs = readKnobs(node.metadata.annotations);
    const isNew = !this.#registered && !node['status']?.nodeInfo?.kubeletVersion;
    if (isNew) {
      this.store.drop();
      this.#registered = true;
      this.#takeOver();
    }
    if (isNew || JSON.stringify(this.#knobs) !== before) this.#reportSoon();
  }

  /** A kubelet that starts runs whatever is bound to its name; the watch tells of those Pods again only when they change. */
  #takeOver(): void {
    void this.#persist(async () => {
      for (const pod of await this.#client.list('v1/Pod', { fieldSelector: `spec.nodeName=${this.name}` })) this.onPod(pod);
      return undefined;
    });
  }

  onPod(pod: Raw): void {
    // Nobody runs it; the next machine of this name will.
    if (!this.#registered) return;
    const running = this.#pods.get(pod.metadata.uid);
    if (running) return running.update(pod);
    // One that had ended before this program saw it needs nothing, unless it is to be removed.
    if (!pod.metadata.deletionTimestamp && ['Succeeded', 'Failed'].includes(pod['status']?.phase)) return;
    // A Pod that an earlier machine of this name had keeps its address: the API server refuses a second one.
    const runner = new PodRunner(pod, this.#host(), (pod['status']?.podIP as string | undefined) ?? this.#newIp());
    this.#pods.set(pod.metadata.uid, runner);
    runner
      .run()
      .catch((error: Error) => console.error(`${this.name}: Pod ${pod.metadata.namespace}/${pod.metadata.name}: ${error.stack}`));
  }

  #newIp(): string {
    const block = Math.floor(this.#nextIp / 250);
    return `10.${200 + block}.${this.#index % 250}.${(this.#nextIp++ % 250) + 1}`;
  }

  onPodGone(uid: string): void {
    this.#pods.get(uid)?.vanish();
    this.#pods.delete(uid);
  }

  podUids(): string[] {
    return [...this.#pods.keys()];
  }

  #host(): Host {
    return {
      address: this.#address,
      clock: this.#world.clock,
      store: this.store,
      timing: this.#settings.timing,
      knobs: () => this.#knobs,
      awake: () => this.#awake(),
      credentials: (pod, reference) => credentialsFor(this.#client, pod, reference),
      writeStatus: (pod, status) =>
        this.#persist(() =>
          this.#client.patch(
            'v1/Pod',
            keyOf(pod),
            { metadata: { uid: pod.metadata.uid }, status },
            { type: 'strategic', subresource: 'status' },
          ),
        ),
      remove: async (pod) => void (await this.#persist(() => this.#remove(pod))),
    };
  }

  get #address(): string {
    return `192.0.${2 + Math.floor(this.#index / 250)}.${(this.#index % 250) + 1}`;
  }

  // Conflict and absence both mean that the Pod of this uid is gone. Everything else passes by itself or by the API server's return.
  async #persist(call: () => Promise<Raw | undefined>): Promise<Raw | undefined> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (error instanceof ApiError && [404, 409].includes(error.status)) return undefined;
        console.error(`${this.name}: ${(error as Error).message}`);
        await this.#sleep(1_000);
      }
    }
  }

  async #remove(pod: Raw): Promise<undefined> {
    const path = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}`;
    await this.#client.request('DELETE', path, { gracePeriodSeconds: 0, preconditions: { uid: pod.metadata.uid } });
    return undefined;
  }

  async #awake(): Promise<void> {
    while (this.#knobs.silent) await this.#sleep(200);
  }

  async #beat(): Promise<void> {
    for (;;) {
      await this.#sleep(this.#settings.heartbeatMs ?? HEARTBEAT_MS);
      if (!this.#registered || this.#knobs.silent) continue;
      await this.#renewLease().catch((error: Error) => console.error(`${this.name}: ${error.message}`));
    }
  }

  async #renewLease(): Promise<void> {
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: this.name, namespace: 'kube-node-lease' },
    };
    const spec = {
      holderIdentity: this.name,
      leaseDurationSeconds: LEASE_SECONDS,
      renewTime: new Date().toISOString().replace('Z', '000Z'),
    };
    await this.#client.apply({ ...lease, spec }, { fieldManager: 'fake-kubelet' });
  }

  #imagesChanged(): void {
    if (this.#imageReportDue) return;
    this.#imageReportDue = true;
    this.#world.clock.setTimeout(() => {
      this.#imageReportDue = false;
      this.#reportSoon();
    }, this.#settings.imageReportMs);
  }

  // A kubelet reports again in 10 s at most: what an API server that restarts does not take must not be lost.
  #reportSoon(): void {
    this.#report().catch((error: Error) => {
      console.error(`${this.name}: ${error.message}`);
      if (this.#registered) this.#world.clock.setTimeout(() => this.#reportSoon(), 1_000);
    });
  }

  async #report(): Promise<void> {
    await this.#awake();
    const now = timestamp();
    const ready = !this.#knobs.notReady;
    const condition = (type: string, status: boolean, reason: string, message: string): object => ({
      type,
      status: status ? 'True' : 'False',
      reason,
      message,
      lastHeartbeatTime: now,
      lastTransitionTime: now,
    });
    const sizeOf = (blobs: ReadonlyMap<string, number>): number => [...blobs.values()].reduce((a, b) => a + b, 0);
    const images = this.store.list().map(({ names, blobs }) => ({ names, sizeBytes: sizeOf(blobs) }));
    const status = {
      capacity: this.#settings.allocatable,
      allocatable: this.#settings.allocatable,
      conditions: [
        condition('MemoryPressure', false, 'KubeletHasSufficientMemory', 'kubelet has sufficient memory available'),
        condition('DiskPressure', false, 'KubeletHasNoDiskPressure', 'kubelet has no disk pressure'),
        condition('PIDPressure', false, 'KubeletHasSufficientPID', 'kubelet has sufficient PID available'),
        condition(
          'Ready',
          ready,
          ready ? 'KubeletReady' : 'KubeletNotReady',
          ready ? 'kubelet is posting ready status' : 'told to be not ready',
        ),
      ],
      addresses: [
        { type: 'InternalIP', address: this.#address },
        { type: 'Hostname', address: this.name },
      ],
      nodeInfo: NODE_INFO,
      images: images.sort((a, b) => b.sizeBytes - a.sizeBytes).slice(0, MAX_LISTED_IMAGES),
    };
    await this.#client.patch('v1/Node', this.name, { status }, { type: 'strategic', subresource: 'status' }).catch(unless(404));
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#world.clock.setTimeout(resolve, ms));
  }
}

const NODE_INFO = {
  architecture: 'amd64',
  operatingSystem: 'linux',
  osImage: 'fake-kubelet',
  kernelVersion: '6.12.0',
  kubeletVersion: 'v1.36.3',
  kubeProxyVersion: '',
  containerRuntimeVersion: 'containerd://2.4.2',
  bootID: '',
  machineID: '',
  systemUUID: '',
};

function keyOf(pod: Raw): string {
  return `${pod.metadata.namespace}/${pod.metadata.name}`;
}

function unless(status: number): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof ApiError && error.status === status) return undefined;
    throw error;
  };
}
