import { at, records, string } from '../../../../src/api/json.js';
import type { BegunBy, PullTruth, Raw } from '../../invariants/history.js';
import { digestOf } from '../../invariants/read.js';
import type { World } from './world.js';
import { RESOURCE, SYSTEM, now, withConditions, writeStatus } from './world.js';

interface Pull {
  pod: Raw;
  reference: string;
  truth: PullTruth | undefined;
  done: boolean;
}

const RATE_BYTES_PER_MS = 50_000;
const BACKOFF_MS = { first: 10_000, longest: 300_000 };
const RUNS_MS = [30_000, 120_000] as const;

/** One machine with its kubelet: an image store, one pull at a time, and Pods that start once their image is there. */
export class Machine {
  readonly name: string;
  readonly #world: World;
  readonly #images = new Set<string>();
  readonly #known = new Map<string, Raw>();
  /** Since when each container runs, by UID of its Pod. */
  readonly #running = new Map<string, string>();
  readonly #failures = new Map<string, number>();
  #queue: Pull[] = [];
  #pulling: Pull | undefined;
  /** Counts lives of the machine: what was begun in an earlier one never ends. */
  #life = 0;
  #silent = false;
  #gone = false;

  constructor(name: string, world: World) {
    this.name = name;
    this.#world = world;
  }

  get silent(): boolean {
    return this.#silent;
  }

  get gone(): boolean {
    return this.#gone;
  }

  /** Makes the Node object; a machine that was lost comes back as another one of the same name, with an empty disk. */
  join(): void {
    this.#gone = false;
    this.#silent = false;
    this.#heard();
    const labels = {
      'kubernetes.io/hostname': this.name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': 'amd64',
      pool: 'h100',
    };
    const { store } = this.#world;
    if (store.find(RESOURCE.nodes, { name: this.name }) === undefined)
      store.create(RESOURCE.nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: this.name, labels }, spec: {} });
    this.report(true);
  }

  /** The condition Ready, as the kubelet or, in its silence, the node controller says it. */
  report(ready: boolean): void {
    const { store } = this.#world;
    const node = store.find(RESOURCE.nodes, { name: this.name });
    if (node === undefined) return;
    const allocatable = { cpu: '8', memory: '64Gi', pods: '110', 'ephemeral-storage': '100Gi' };
    const status = ready ? ('True' as const) : ('Unknown' as const);
    const reason = ready ? 'KubeletReady' : 'NodeStatusUnknown';
    const conditions = withConditions(this.#world, node, { type: 'Ready', status, reason });
    writeStatus(this.#world, RESOURCE.nodes, node, {
      conditions,
      allocatable,
      nodeInfo: { operatingSystem: 'linux', architecture: 'amd64' },
    });
  }

  /** The kubelet is cut off: what runs goes on, and nobody is told. */
  silence(): void {
    this.#silent = true;
    this.#unheard();
  }

  speak(): void {
    if (!this.#silent) return;
    this.#silent = false;
    this.#heard();
    this.report(true);
    this.sync();
  }

  /** Pulls end unfinished and begin again; containers run on. */
  restartKubelet(): void {
    this.#stopPulls();
    for (const uid of this.#known.keys()) if (!this.#running.has(uid)) this.#known.delete(uid);
    this.sync();
  }

  /** Power is gone, and the disk with it. */
  lose(): void {
    this.#gone = true;
    this.#life += 1;
    this.#unheard();
    this.#stopPulls();
    for (const digest of this.#images) this.#truth(digest, false);
    for (const held of [this.#images, this.#known, this.#running, this.#failures]) held.clear();
  }

  /** Removes images that no container uses. */
  collectGarbage(): number {
    const used = new Set(
      [...this.#known].filter(([uid]) => this.#running.has(uid)).map(([, pod]) => this.#digestOf(imageOf(pod))),
    );
    const unused = [...this.#images].filter((digest) => !used.has(digest));
    for (const digest of unused) {
      this.#images.delete(digest);
      this.#truth(digest, false);
    }
    return unused.length;
  }

  /** Looks at the Pods that are bound here. */
  sync(): void {
    if (this.#silent || this.#gone) return;
    const { store } = this.#world;
    const here = store.list(RESOURCE.pods).filter((p) => at(p, 'spec')['nodeName'] === this.name);
    const uids = new Set(here.map((p) => p.metadata.uid ?? ''));
    for (const uid of this.#known.keys()) if (!uids.has(uid)) this.#forget(uid);
    for (const pod of here) {
      const uid = pod.metadata.uid ?? '';
      if (pod.metadata.deletionTimestamp !== undefined) this.#end(pod);
      else if (this.#running.has(uid)) this.#tellRunning(pod);
      else if (!this.#known.has(uid)) this.#begin(pod);
    }
  }

  /** Does something after a while, in this life of the machine. */
  #later(ms: number, fn: () => void): void {
    const life = this.#life;
    this.#world.timeline.after(ms, () => {
      if (life === this.#life) fn();
    });
  }

  #begin(pod: Raw): void {
    this.#known.set(pod.metadata.uid ?? '', pod);
    this.#waiting(pod, 'ContainerCreating', '');
    this.#later(this.#world.random.int(200, 800), () => this.#need(pod));
  }

  /** The image is there, or it is pulled: once for all who want it, one image after the other. */
  #need(pod: Raw): void {
    if (!this.#known.has(pod.metadata.uid ?? '')) return;
    if (this.#images.has(this.#digestOf(imageOf(pod)))) return this.#start(pod);
    this.#queue.push({ pod, reference: imageOf(pod), truth: undefined, done: false });
    this.#pullNext();
  }

  #pullNext(): void {
    if (this.#pulling !== undefined) return;
    const next = this.#queue.shift();
    if (next === undefined) return;
    if (this.#images.has(this.#digestOf(next.reference))) {
      this.#start(next.pod);
      return this.#pullNext();
    }
    this.#pulling = next;
    const found = this.#resolve(next.reference);
    const bytes = 'error' in found ? 0 : found.bytes;
    if (!('error' in found) && next.pod.metadata.namespace === SYSTEM) {
      const registry = next.reference.split('/')[0] ?? '';
      next.truth = {
        node: this.name,
        digest: found.digest,
        registry,
        from: this.#world.timeline.now,
        to: Number.POSITIVE_INFINITY,
        begunBy: this.#begunBy(next.pod),
      };
      this.#world.pulls.push(next.truth);
    }
    const ms = 300 + (bytes / RATE_BYTES_PER_MS) * (0.7 + 0.6 * this.#world.random.next());
    this.#later(ms, () => {
      if (!next.done) this.#pulled(next);
    });
  }

  #begunBy({ metadata: { uid = '' } }: Raw): BegunBy {
    if (this.#failures.has(uid)) return 'kubelet';
    return this.#world.byHand.pods.has(uid) ? 'person' : 'planner';
  }

  #pulled(pull: Pull): void {
    pull.done = true;
    this.#pulling = undefined;
    if (pull.truth !== undefined) pull.truth.to = this.#world.timeline.now;
    const found = this.#resolve(pull.reference);
    const uid = pull.pod.metadata.uid ?? '';
    if ('error' in found) this.#failed(pull.pod, found.error);
    else {
      if (!this.#images.has(found.digest)) this.#truth(found.digest, true);
      this.#images.add(found.digest);
      if (this.#known.has(uid)) this.#start(pull.pod);
    }
    this.#pullNext();
  }

  #failed(pod: Raw, error: string): void {
    const uid = pod.metadata.uid ?? '';
    if (!this.#known.has(uid)) return;
    const failures = this.#failures.get(uid) ?? 0;
    this.#failures.set(uid, failures + 1);
    this.#waiting(
      pod,
      failures === 0 ? 'ErrImagePull' : 'ImagePullBackOff',
      failures === 0 ? error : `Back-off pulling image: ErrImagePull: ${error}`,
    );
    this.#later(Math.min(BACKOFF_MS.longest, BACKOFF_MS.first * 2 ** failures), () => this.#need(pod));
  }

  #start(pod: Raw): void {
    const uid = pod.metadata.uid ?? '';
    if (!this.#known.has(uid) || this.#running.has(uid)) return;
    this.#running.set(uid, now(this.#world));
    this.#tellRunning(pod, false);
    this.#later(1_000, () => {
      if (this.#running.has(uid)) this.#tellRunning(pod);
    });
    if (pod.metadata.namespace !== SYSTEM) this.#later(this.#world.random.int(...RUNS_MS), () => this.#finish(pod));
  }

  /** A Pod of a gang has done its work. */
  #finish(pod: Raw): void {
    if (!this.#running.has(pod.metadata.uid ?? '')) return;
    // Told once the kubelet can speak again.
    if (this.#silent) return this.#later(5_000, () => this.#finish(pod));
    this.#forget(pod.metadata.uid ?? '', true);
    writeStatus(this.#world, RESOURCE.pods, pod, { phase: 'Succeeded' });
  }

  #end(pod: Raw): void {
    this.#forget(pod.metadata.uid ?? '');
    this.#world.store.remove(RESOURCE.pods, { namespace: pod.metadata.namespace ?? '', name: pod.metadata.name });
  }

  #forget(uid: string, keep = false): void {
    if (!keep) this.#known.delete(uid);
    this.#running.delete(uid);
    this.#failures.delete(uid);
    // A pull that runs goes on without its Pod (seen); one that waits does not.
    this.#queue = this.#queue.filter((p) => p.pod.metadata.uid !== uid);
  }

  #stopPulls(): void {
    const { now: end } = this.#world.timeline;
    if (this.#pulling !== undefined) this.#pulling.done = true;
    if (this.#pulling?.truth !== undefined) this.#pulling.truth.to = end;
    this.#pulling = undefined;
    this.#queue = [];
  }

  #resolve(reference: string): { digest: string; bytes: number } | { error: string } {
    const [, repository = '', tag] = /^([^@]+?)(?::([^:/@]+))?(?:@.*)?$/.exec(reference) ?? [];
    return this.#world.registry.pull(repository, { tag, digest: digestOf(reference) });
  }

  /** Of a reference by tag the digest that it has now: kubelets ask before they pull. */
  #digestOf(reference: string): string {
    const found = digestOf(reference);
    if (found !== undefined) return found;
    const resolved = this.#resolve(reference);
    return 'error' in resolved ? '' : resolved.digest;
  }

  #unheard(): void {
    const { silences, timeline } = this.#world;
    silences.push({ node: this.name, from: timeline.now, to: Number.POSITIVE_INFINITY });
  }

  #heard(): void {
    const { silences, timeline } = this.#world;
    for (const s of silences) if (s.node === this.name && s.to > timeline.now) s.to = timeline.now;
  }

  #truth(digest: string, there: boolean): void {
    this.#world.images.push({ at: this.#world.timeline.now, node: this.name, digest, there });
  }

  #waiting(pod: Raw, reason: string, message: string): void {
    this.#status(pod, 'Pending', { state: { waiting: { reason, message } }, started: false, restartCount: 0 });
  }

  #tellRunning(pod: Raw, started = true): void {
    const startedAt = this.#running.get(pod.metadata.uid ?? '');
    this.#status(pod, 'Running', { state: { running: { startedAt } }, started, restartCount: 0 });
  }

  #status(pod: Raw, phase: string, container: object): void {
    if (this.#silent) return;
    const [{ name = '' } = {}] = records(at(pod, 'spec')['containers']) as { name?: string }[];
    writeStatus(this.#world, RESOURCE.pods, pod, { phase, containerStatuses: [{ name, ...container }] });
  }
}

/** What a Pod needs on disk: its image volume for a puller, the image of its container otherwise. */
function imageOf(pod: Raw): string {
  const spec = at(pod, 'spec');
  const volume = records(spec['volumes'])
    .map((v) => string(at(v, 'image')['reference']))
    .find((r) => r !== undefined);
  return volume ?? string(records(spec['containers'])[0]?.['image']) ?? '';
}
