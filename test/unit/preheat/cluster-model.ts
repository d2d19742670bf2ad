import type { Caches } from '../../../src/controller/caches.js';
import { FailingWrites } from '../../../src/controller/pullers/failing-writes.js';
import { OwnerlessPods } from '../../../src/controller/pullers/ownerless-pods.js';
import { PullerWorld } from '../../../src/controller/pullers/world.js';
import { WrittenSets } from '../../../src/controller/pullers/written-sets.js';
import { KubeError } from '../../../src/kube/errors.js';
import { candidates } from '../../../src/placement/candidates.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import type { DaemonSet } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import type { EngineStep } from '../../../src/preheat/backends/daemonset/steps.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import type { Plan, PlannedPrewarm } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { puller, T0, waiting } from './fixtures.js';

const SYSTEM = 'harbinger-system';
export const NODES = ['n1', 'n2', 'n3', 'n4', 'n5', 'n6'];
export const LETTERS = ['a', 'b', 'c'] as const;
const RATES = { assumedPullMiBPerSecond: 50, minDeadlineSeconds: 600 };
const STEP_OPTIONS = { namespace: SYSTEM, program: 'reg.example.com/puller@sha256:00' };
const pullers = new Map(LETTERS.map((l) => [puller(l).hash, puller(l)]));

/** Done, and not; or done after the controller has given up on it. */
export type Unanswered = 'done' | 'lost' | 'late';

export interface Limits {
  maxPullingNodes: number;
  maxPullingNodesPerRegistry: number;
}

/**
 * A cluster whose parts act in any order: the controller with its real pictures and plans behind caches that lag, a controller of
 * DaemonSets, kubelets whose pulls outlive their Pods, and people.
 */
export class Model {
  now = T0;
  /** What the API server has. */
  readonly sets = new Map<string, PullerSet>();
  readonly pods = new Map<string, PullerPod>();
  /** Pulls that run, `hash/node`, with when they began. */
  readonly pulls = new Map<string, number>();
  /** Those of them that nobody granted: a kubelet tries again what failed, or a new Pod does on a node that is still covered. */
  readonly retries = new Set<string>();
  /** Where the last pull failed since the node was granted. */
  readonly #failed = new Set<string>();
  readonly images = new Set<string>();
  readonly ready = new Map(NODES.map((n) => [n, true]));
  prewarms: PlannedPrewarm[] = [];
  last: Plan | undefined;
  most = 0;
  /** How far the clock of the controller's machine is ahead. */
  skewMs = 0;
  #version = 1;
  #count = 0;
  #cachedSets = new Map<string, PullerSet>();
  #cachedPods = new Map<string, PullerPod>();
  #events: (() => void)[] = [];
  #onPod: (now: PullerPod | undefined, before: PullerPod | undefined) => void = () => undefined;
  #world!: PullerWorld;
  #written!: WrittenSets;
  #failing!: FailingWrites;
  #ownerless!: OwnerlessPods;
  /** What becomes of the next write, which gets no answer. */
  unanswered: Unanswered | undefined;
  /** No write is done. */
  outage = false;
  /** Writes without an answer that the API server goes on with, with when it gives up. */
  #late: { object: DaemonSet; until: number }[] = [];

  readonly #limits: Limits;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.restart();
  }

  nodes(): NodeFacts[] {
    return NODES.map((n) => node(n, { ready: this.ready.get(n) === true }));
  }

  /** All that was in memory is gone, and caches are read anew. */
  restart(): void {
    this.#events = [];
    this.#cachedSets = new Map(this.sets);
    this.#cachedPods = new Map(this.pods);
    this.#written = new WrittenSets(() => this.now);
    this.#failing = new FailingWrites({ now: () => this.now + this.skewMs, monotonic: () => this.now });
    this.#ownerless = new OwnerlessPods(() => this.now, SYSTEM);
    const caches = {
      nodes: { list: () => this.nodes(), get: (n: string) => this.nodes().find((f) => f.name === n) },
      prewarms: { list: () => [] },
      sets: { list: () => [...this.#cachedSets.values()] },
      pods: {
        list: () => [...this.#cachedPods.values()],
        onChange: (handler: (key: string, now?: PullerPod, before?: PullerPod) => void) => {
          this.#onPod = (now, before) => handler('', now, before);
        },
      },
      rejections: { byIndex: () => [] },
    };
    this.#world = new PullerWorld({
      caches: caches as unknown as Caches,
      config: () => ({ budgets: RATES }) as never,
      now: () => this.now + this.skewMs,
      monotonic: () => this.now,
      sets: () => this.#written.seen([...this.#cachedSets.values()]),
      namespace: SYSTEM,
      readRejection: () => Promise.resolve(undefined),
      failing: () => this.#failing.told(),
    });
  }

  /** Shows the controller so many of the events that it has not seen. */
  deliver(count: number): void {
    for (const event of this.#events.splice(0, count)) event();
  }

  async plan(): Promise<void> {
    const world = await this.#world.look(new Map());
    const sets = this.#written.known([...this.#cachedSets.values()]);
    const ownerless = this.#ownerless.look([...this.#cachedPods.values()], sets);
    this.last = plan(this.prewarms, { ...world, awaited: ownerless.awaited }, this.#limits);
    const steps = engineSteps(this.last.grants, sets, { ...STEP_OPTIONS, ownerless: ownerless.keys });
    for (const step of steps)
      await this.#do(step).catch((error: unknown) => {
        if (!(error instanceof KubeError)) throw error;
      });
    this.#failing.keep(steps.flatMap((s) => (s.do === 'delete' ? [] : [s.object])));
  }

  async #do(step: EngineStep): Promise<void> {
    if (step.do === 'delete') {
      await this.#written.remove(step.set, () => Promise.resolve(this.#delete(step.set.name, step.set.uid)));
      this.#collect(step.set.uid);
    } else await this.#failing.follow(step.object, () => this.#written.write(step.object, () => this.#apply(step.object)));
  }

  #apply(object: DaemonSet): Promise<DaemonSet> {
    const outcome = this.unanswered ?? (this.outage ? 'lost' : undefined);
    this.unanswered = undefined;
    if (outcome === 'late') this.#late.push({ object, until: this.now + 60_000 });
    if (outcome === 'lost' || outcome === 'late')
      return Promise.reject(new KubeError('no answer', { status: 0, reason: 'Unreachable' }));
    const stored = this.#store(object);
    if (stored === undefined) return Promise.reject(new KubeError('another UID', { status: 409, reason: 'Conflict' }));
    return outcome === 'done'
      ? Promise.reject(new KubeError('no answer', { status: 504, reason: 'Timeout' }))
      : Promise.resolve(stored);
  }

  /** The API server gets round to a write for whose answer nobody waits any more. */
  land(): void {
    const [first] = this.#late.splice(0, 1);
    if (first !== undefined && this.now < first.until) this.#store(first.object);
  }

  #store(object: DaemonSet): DaemonSet | undefined {
    const { name, uid } = object.metadata;
    const before = this.sets.get(name);
    if (uid !== undefined && uid !== before?.uid) return undefined;
    const metadata = {
      ...object.metadata,
      uid: before?.uid ?? `uid-${this.#count++}`,
      resourceVersion: String(this.#version++),
    };
    const stored = { ...object, metadata };
    const set = projectPullerSet(stored);
    for (const on of set.nodes.filter((n) => before?.nodes.includes(n) !== true)) this.#failed.delete(`${set.hash}/${on}`);
    this.sets.set(name, set);
    this.#later(() => this.#cachedSets.set(name, set));
    return stored;
  }

  #delete(name: string, uid: string | undefined): void {
    if (this.sets.get(name)?.uid !== uid || !this.sets.delete(name)) return;
    this.#later(() => {
      this.#cachedSets.delete(name);
      this.#written.gone(`${SYSTEM}/${name}`);
    });
  }

  /** A person deletes a set, or garbage collection one of a tenant; its Pods go some time after that. */
  deleteSet(index: number): void {
    const set = [...this.sets.values()][index % Math.max(1, this.sets.size)];
    if (set !== undefined) this.#delete(set.name, set.uid);
  }

  /** Garbage collection looks at all Pods. */
  collect(): void {
    const uids = new Set([...this.sets.values()].map((s) => s.uid));
    for (const { ownerUid = '' } of [...this.pods.values()]) if (!uids.has(ownerUid)) this.#collect(ownerUid);
  }

  #collect(uid: string): void {
    const own = [...this.pods.values()].filter((p) => p.ownerUid === uid);
    for (const pod of own) this.removePod(pod.name);
  }

  /** The controller of DaemonSets looks at one of them. */
  syncSet(index: number): void {
    const set = [...this.sets.values()][index % Math.max(1, this.sets.size)];
    if (set === undefined) return;
    const own = [...this.pods.values()].filter((p) => p.ownerUid === set.uid);
    for (const pod of own) if (!set.nodes.includes(pod.node)) this.removePod(pod.name);
    for (const name of set.nodes) if (!own.some((p) => p.node === name)) this.#makePod(set, name);
  }

  #makePod(set: PullerSet, on: string): void {
    const pull = `${set.hash}/${on}`;
    const name = `pod-${this.#count++}`;
    const has = this.images.has(pull);
    if (!has && !this.pulls.has(pull)) {
      this.pulls.set(pull, this.now);
      if (this.#failed.has(pull)) this.retries.add(pull);
    }
    const container = has ? { started: true, hasRun: true, restarts: 0, runningSince: this.now } : waiting('ContainerCreating');
    this.#setPod({
      namespace: SYSTEM,
      name,
      uid: name,
      hash: set.hash,
      ownerUid: set.uid,
      node: on,
      image: set.image,
      createdAt: this.now,
      deleting: false,
      phase: 'Pending',
      gates: [],
      container,
    });
    this.most = Math.max(this.most, this.pulls.size);
  }

  /** A Pod goes; what it pulls goes on. */
  removePod(name: string): void {
    if (!this.pods.delete(name)) return;
    this.#later(() => {
      const before = this.#cachedPods.get(name);
      this.#cachedPods.delete(name);
      if (before !== undefined) this.#onPod(undefined, before);
    });
  }

  /** The pull that runs longest ends. */
  finish(index: number, well: boolean): void {
    const pull = [...this.pulls.keys()][index % Math.max(1, this.pulls.size)];
    if (pull === undefined) return;
    this.pulls.delete(pull);
    this.retries.delete(pull);
    if (well) this.images.add(pull);
    else this.#failed.add(pull);
    const container = well
      ? { started: true, hasRun: true, restarts: 0, runningSince: this.now }
      : waiting('ErrImagePull', 'rpc error: i/o timeout');
    for (const pod of this.pods.values()) if (`${pod.hash}/${pod.node}` === pull) this.#setPod({ ...pod, container });
  }

  /** A kubelet tries again what failed; nobody is told before it ends. */
  retry(index: number): void {
    const failed = [...this.pods.values()].filter((p) => p.container?.waiting?.reason === 'ErrImagePull');
    const pod = failed[index % Math.max(1, failed.length)];
    const pull = `${pod?.hash ?? ''}/${pod?.node ?? ''}`;
    if (pod === undefined || this.pulls.has(pull)) return;
    this.pulls.set(pull, this.now);
    this.retries.add(pull);
  }

  /** Whether a granted pull runs without a Pod to show for it, of which a controller that starts anew cannot know (see ADR 0021). */
  get hasUnknowable(): boolean {
    const shown = new Set([...this.pods.values()].map((p) => `${p.hash}/${p.node}`));
    return [...this.pulls.keys()].some((p) => !shown.has(p) && !this.retries.has(p));
  }

  /** Pulls that run because a plan said so. */
  get granted(): string[] {
    return [...this.pulls.keys()].filter((p) => !this.retries.has(p));
  }

  /** Pulls of all kinds that have a Pod: what a kubelet tries again goes on unseen where its Pod is taken away. */
  get shown(): string[] {
    const shown = new Set([...this.pods.values()].map((p) => `${p.hash}/${p.node}`));
    return [...this.pulls.keys()].filter((p) => shown.has(p));
  }

  flap(index: number): void {
    const name = NODES[index % NODES.length] ?? '';
    this.ready.set(name, this.ready.get(name) !== true);
  }

  pass(seconds: number): void {
    this.now += seconds * 1_000;
    // Runtimes give up on a pull that does not move, long before the deadline that is derived for it.
    for (const [index, since] of [...this.pulls.values()].entries()) if (this.now - since > 500_000) this.finish(index, false);
  }

  #setPod(pod: PullerPod): void {
    this.pods.set(pod.name, pod);
    this.#later(() => {
      const before = this.#cachedPods.get(pod.name);
      this.#cachedPods.set(pod.name, pod);
      this.#onPod(pod, before);
    });
  }

  #later(event: () => void): void {
    this.#events.push(event);
  }
}

export const prewarm = (model: Model, key: string, { letter, count, priority, rampUp }: Wish): PlannedPrewarm => ({
  key,
  mayPull: true,
  keep: true,
  rank: { reserved: false, priority, queuedAt: 0 },
  rampUp,
  occupies: true,
  targets: [
    {
      name: 'main',
      pullers: [...pullers.values()].filter((p) => p.hash === puller(letter).hash),
      complete: true,
      candidates: candidates({ name: 'main', images: [{ reference: 'x' }], nodes: { selector: {}, count } }, model.nodes()),
    },
  ],
});

export interface Wish {
  letter: (typeof LETTERS)[number];
  count: number;
  priority: number;
  rampUp: 'SlowStart' | 'Immediate';
}

export type Event =
  | { do: 'plan' }
  | { do: 'restart' }
  | { do: 'unwish'; at: number }
  | { do: 'deliver' | 'sync' | 'flap' | 'removePod' | 'retry' | 'deleteSet'; at: number }
  | { do: 'collect' }
  | { do: 'unanswered'; outcome: Unanswered }
  | { do: 'land' }
  | { do: 'outage'; on: boolean }
  | { do: 'finish'; at: number; well: boolean }
  | { do: 'pass'; seconds: number }
  | { do: 'jump'; hours: number }
  | { do: 'wish'; wish: Wish };

/** Lets one event happen. */
export async function happen(model: Model, what: Event, step: number): Promise<void> {
  if (what.do === 'plan') return model.plan();
  if (what.do === 'wish') model.prewarms.push(prewarm(model, `p${step}`, what.wish));
  else if (what.do === 'unwish') model.prewarms.splice(what.at % Math.max(1, model.prewarms.length), 1);
  else if (what.do === 'restart') return model.hasUnknowable ? undefined : model.restart();
  else befall(model, what);
}

/** What the parts of the cluster do by themselves. */
function befall(model: Model, what: Exclude<Event, { do: 'plan' | 'restart' | 'wish' | 'unwish' }>): void {
  switch (what.do) {
    case 'deliver':
      return model.deliver(what.at);
    case 'sync':
      return model.syncSet(what.at);
    case 'deleteSet':
      return model.deleteSet(what.at);
    case 'collect':
      return model.collect();
    case 'unanswered':
      model.unanswered = what.outcome;
      return;
    case 'finish':
      return model.finish(what.at, what.well);
    case 'outage':
      model.outage = what.on;
      return;
    case 'land':
      return model.land();
    case 'flap':
      return model.flap(what.at);
    case 'retry':
      return model.retry(what.at);
    case 'jump':
      model.skewMs = what.hours * 3_600_000;
      return;
    case 'pass':
      // Within the grace for Pods their events arrive; a longer silence of a watch ends in a list.
      model.deliver(Number.POSITIVE_INFINITY);
      return model.pass(what.seconds);
    case 'removePod': {
      const pod = [...model.pods.values()][what.at % Math.max(1, model.pods.size)];
      return pod === undefined ? undefined : model.removePod(pod.name);
    }
  }
}
