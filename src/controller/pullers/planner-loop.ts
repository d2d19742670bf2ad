import type { HarbingerConfig } from '../../config/schema.js';
import type { Result } from '../../kube/work-queue.js';
import { isDeepStrictEqual } from 'node:util';
import { isConflict } from '../../kube/errors.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { EnginePort } from '../../preheat/backends/daemonset/engine.js';
import { Engine } from '../../preheat/backends/daemonset/engine.js';
import { projectPullerSet } from '../../preheat/backends/daemonset/project.js';
import { engineSteps } from '../../preheat/backends/daemonset/steps.js';
import type { World } from '../../preheat/planner.js';
import type { PullerSet } from '../../preheat/world.js';
import type { KubeObject } from '../../api/object.js';
import type { PullMethod } from '../../api/puller-spec.js';
import { gangIndex, isNameKey } from '../../gangs/identity.js';
import type { Action, Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import { canonical } from '../gangs/decide.js';
import type { GangViews } from '../gangs/views.js';
import { FailingWrites } from './failing-writes.js';
import { tellGreedy } from './greedy.js';
import type { Guard } from '../gangs/guard.js';
import type { PrewarmMetrics } from '../metrics.js';
import { COLLECTED_WITHIN_MS, OwnerlessPods } from './ownerless-pods.js';
import type { PrewarmPlan } from './planning.js';
import { planAll } from './planning.js';
import type { ReadRejection } from './rejections.js';
import { PullerWorld } from './world.js';
import { refusalOfSet } from './refusal.js';
import { WrittenSets } from './written-sets.js';

export interface PlannerLoopOptions {
  caches: Caches;
  views: GangViews;
  actuator: Actuator;
  guard: Guard;
  metrics: PrewarmMetrics;
  config: () => HarbingerConfig;
  clock: Clock;
  /** Milliseconds that never jump. */
  monotonic: () => number;
  log: Log;
  namespace: string;
  /** Image of the puller program. */
  program: string;
  readRejection: ReadRejection;
  /** Called with the key of each ImagePrewarm about which the plan says something new. */
  onChange: (key: string) => void;
}

/** Pauses between plans, ms: while pulls run their deadlines have to be seen, else only what nobody told us. */
const BUSY_MS = 10_000;
const IDLE_MS = 60_000;

/** Runs the planner over everything that is known and has the engine carry out what it grants. There is one key. */
export class PlannerLoop {
  readonly #options: PlannerLoopOptions;
  readonly #engine: Engine;
  #plans = new Map<string, PrewarmPlan>();
  #positions: ReadonlyMap<string, number> = new Map();
  #lastMs = 0;
  readonly #written: WrittenSets;
  readonly #failing: FailingWrites;
  readonly #world: PullerWorld;
  readonly #ownerless: OwnerlessPods;
  /** Pullers, `namespace/hash`, that wait for Pods of a set that is gone. */
  #waiting: ReadonlySet<string> = new Set();

  constructor(options: PlannerLoopOptions) {
    this.#options = options;
    this.#engine = new Engine(this.#enginePort());
    const { caches, config, clock, monotonic, namespace, readRejection } = options;
    const now = (): number => clock.now();
    this.#written = new WrittenSets(monotonic);
    this.#failing = new FailingWrites({ now, monotonic });
    this.#ownerless = new OwnerlessPods(monotonic, namespace);
    caches.sets.onChange((key, set) => {
      if (set === undefined) this.#written.gone(key);
    });
    tellGreedy(caches, namespace, options.log);
    const [sets, failing] = [() => this.#sets(), () => this.#failing.told()];
    this.#world = new PullerWorld({ caches, config, now, monotonic, sets, namespace, readRejection, failing });
  }

  /** The latest plan for an ImagePrewarm. */
  planOf(key: string): PrewarmPlan | undefined {
    return this.#plans.get(key);
  }

  /** How long the latest plan took to make, ms. */
  get lastMs(): number {
    return this.#lastMs;
  }

  get positions(): ReadonlyMap<string, number> {
    return this.#positions;
  }

  /** Why no puller can be made on this cluster. */
  get problem(): string | undefined {
    return this.#engine.problem;
  }

  async reconcile(): Promise<Result> {
    const { caches, clock, config, namespace, program } = this.#options;
    const now = clock.now();
    this.#positions = this.#options.views.positions();
    const failing = this.#failing.told();
    const seen = await this.#world.look(this.#engine.refused(now));
    const sets = this.#written.known(caches.sets.list());
    const ownerless = this.#ownerless.look(caches.pods.list(), sets);
    // What tenants write on Pods is no news of ours.
    this.#tellWaits(new Set([...ownerless.keys].filter((key) => key.startsWith(`${namespace}/`))));
    const world = { ...seen, awaited: ownerless.awaited };
    const ground = {
      nodes: caches.nodes.list(),
      usage: caches.nodeUsage,
      ...this.#busy(),
      runtimeClass: (name: string) => caches.runtimeClasses.get(name),
      config: config(),
      now,
    };
    const planWith = (of: World): ReturnType<typeof planAll> => planAll({ ...ground, prewarms: this.#prewarms(), world: of });
    const { grants, plans, owners } = planWith(world);
    this.#lastMs = Math.max(0, clock.now() - now);
    const options = {
      namespace,
      program,
      pullSecrets: config().pullers.pullSecrets,
      method: this.#method(),
      keepMethod: config().pullers.method === 'Auto',
      owners,
      altered: (set: PullerSet) => this.#engine.altered(set),
      idle: (hash: string) => isIdle(world, hash),
      ownerless: ownerless.keys,
    };
    const steps = engineSteps(grants, sets, options);
    const after = await this.#engine.run(steps, now);
    this.#failing.keep(steps.flatMap((s) => (s.do === 'delete' ? [] : [s.object])));
    // What was planned as if it could be had, and was refused, must not be told so; nor that a write fails which has just been done.
    const refused = this.#engine.refused(now);
    const isNews = canonical([[...refused], this.#failing.told()]) !== canonical([[...(world.refused ?? [])], failing]);
    this.#publish(isNews ? planWith({ ...(await this.#world.look(refused)), awaited: ownerless.awaited }).plans : plans);
    const inFlight = [...world.pulls.values()].reduce(
      (n, states) => n + [...states.values()].filter((s) => s.inFlight).length,
      0,
    );
    this.#options.metrics.count(caches.prewarms.list(), inFlight);
    return { after: Math.min(after ?? IDLE_MS, ownerless.leftMs ?? IDLE_MS, inFlight > 0 ? BUSY_MS : IDLE_MS) };
  }

  /** Says once of each puller that it waits; the wait ends by itself. */
  #tellWaits(keys: ReadonlySet<string>): void {
    const before = this.#waiting;
    this.#waiting = keys;
    for (const key of keys)
      if (!before.has(key))
        this.#options.log.info(
          { puller: key, atMostMs: COLLECTED_WITHIN_MS },
          'Pods of a DaemonSet of pullers that is gone are still there; no other is made under its name until garbage collection deletes them',
        );
  }

  #sets(): PullerSet[] {
    return this.#written.seen(this.#options.caches.sets.list());
  }

  #method(): PullMethod {
    const { method } = this.#options.config().pullers;
    if (method !== 'Auto') return method;
    return this.#engine.dropsImageVolumes ? 'Container' : 'ImageVolume';
  }

  #publish(plans: Map<string, PrewarmPlan>): void {
    const before = this.#plans;
    this.#plans = plans;
    for (const [key, next] of plans) if (!isDeepStrictEqual(before.get(key), next)) this.#options.onChange(key);
  }

  #prewarms(): Parameters<typeof planAll>[0]['prewarms'] {
    const { caches, views, guard } = this.#options;
    return caches.prewarms.list().map((prewarm) => {
      const workload = views.workloadOf(prewarm);
      const gang = workload === undefined ? undefined : views.viewOf(workload, this.#positions, guard.isLettingGo(workload));
      return { prewarm, gang, gangUnknown: views.isUnknown(prewarm) };
    });
  }

  /** Looked at for those only who ask for it: it takes a walk over what runs on every node. */
  #busy(): { busy?: ReadonlySet<string> } {
    const { prewarms, workloads, nodeUsage } = this.#options.caches;
    if (!prewarms.list().some((p) => p.spec.pull?.busyNodes === 'Avoid')) return {};
    const isKnown = (key: string): boolean =>
      workloads.byIndex('job', key).length > 0 || prewarms.byIndex('gang', key).length > 0;
    const isGang = (namespace: string, key: string): boolean => !isNameKey(key) && isKnown(gangIndex(namespace, key));
    return { busy: nodeUsage.busy(isGang) };
  }

  #enginePort(): EnginePort {
    const { actuator, config, namespace, log } = this.#options;
    const write = (object: KubeObject, action: Action): Promise<unknown> =>
      this.#failing.follow(object, () => this.#written.write(object, () => actuator.perform(action)));
    return {
      create: (object) => write(object, { type: 'create-pullers', object, takeOver: object.metadata.namespace === namespace }),
      update: (object) => write(object, { type: 'update-pullers', object }),
      delete: ({ namespace: home, name, uid }) =>
        this.#written.remove({ namespace: home, name }, () =>
          actuator.perform({ type: 'delete-pullers', set: { namespace: home, name, uid } }),
        ),
      stored: (object) => (object === undefined ? undefined : projectPullerSet(object as KubeObject)),
      refusal: (error, { step, failures }) => {
        const inDoubt = step.do !== 'delete' && this.#written.inDoubt(step.object.metadata);
        return refusalOfSet(error, { step, failures, inDoubt, namespace });
      },
      fallsBack: () => config().pullers.method === 'Auto',
      dropped: (set) => log.warn({ set }, 'the API server does not keep image volumes'),
      altered: (set) =>
        log.warn(
          { set },
          'the API server keeps another Pod template than was sent for these pullers: a mutating webhook changes DaemonSets on the way, or somebody added fields by hand; see the managedFields of the DaemonSet',
        ),
      failed: ({ set, error, retryInMs }) => {
        if (isConflict(error))
          log.debug({ set, error: (error as Error).message }, 'somebody wrote a DaemonSet of pullers first; it is tried again');
        else
          log.warn(
            { set, error: (error as Error).message, retryInMs },
            'a DaemonSet of pullers cannot be written; other images are not affected',
          );
      },
    };
  }
}

/** Whether an image was tried and nothing came of it, nor is anything under way: making its Pods anew costs nothing. */
function isIdle(world: World, hash: string): boolean {
  const states = [...(world.pulls.get(hash)?.values() ?? [])];
  return (
    states.some((s) => s.state === 'failed') &&
    // A node that gets no Pod counts as in flight, and there is none to lose.
    states.every((s) => s.overdue === true || (!s.inFlight && s.state !== 'warm' && s.state !== 'pulling'))
  );
}
