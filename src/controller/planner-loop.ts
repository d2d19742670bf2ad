import type { HarbingerConfig } from '../config/schema.js';
import type { Result } from '../kube/work-queue.js';
import { isConflict } from '../kube/errors.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { EnginePort } from '../preheat/backends/daemonset/engine.js';
import { Engine, engineSteps } from '../preheat/backends/daemonset/engine.js';
import { projectPullerSet } from '../preheat/backends/daemonset/project.js';
import { pullDeadlineMs } from '../preheat/deadline.js';
import type { PullerPod } from '../preheat/evidence.js';
import { pullState } from '../preheat/evidence.js';
import { pullerOf } from '../preheat/puller.js';
import type { World } from '../preheat/planner.js';
import type { Orphan } from '../preheat/world.js';
import { buildWorld } from '../preheat/world.js';
import type { KubeObject } from '../api/object.js';
import type { Actuator } from './actions.js';
import type { Caches } from './caches.js';
import { canonical } from './decide-gang.js';
import type { GangViews } from './gang-views.js';
import type { Guard } from './guard.js';
import type { PrewarmMetrics } from './metrics.js';
import type { PrewarmPlan } from './planning.js';
import { planAll } from './planning.js';
import { refusalOf } from './refusal.js';

export interface PlannerLoopOptions {
  caches: Caches;
  views: GangViews;
  actuator: Actuator;
  guard: Guard;
  metrics: PrewarmMetrics;
  config: () => HarbingerConfig;
  clock: Clock;
  log: Log;
  namespace: string;
  /** Image of the puller program. */
  program: string;
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
  #orphans: (Orphan & { seenAt: number })[] = [];
  readonly #missing = new Map<string, number>();

  constructor(options: PlannerLoopOptions) {
    this.#options = options;
    this.#engine = new Engine(this.#enginePort());
    options.caches.pods.onChange((_key, now, before) => {
      if (now === undefined && before !== undefined) this.#orphaned(before);
    });
  }

  /** The latest plan for an ImagePrewarm. */
  planOf(key: string): PrewarmPlan | undefined {
    return this.#plans.get(key);
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
    const world = this.#world(now);
    const ground = {
      nodes: caches.nodes.list(),
      usage: caches.nodeUsage,
      ...this.#busy(),
      runtimeClass: (name: string) => caches.runtimeClasses.get(name),
      config: config(),
      now,
    };
    const planWith = (seen: World): ReturnType<typeof planAll> => planAll({ ...ground, prewarms: this.#prewarms(), world: seen });
    const { grants, plans } = planWith(world);
    const options = {
      namespace,
      program,
      pullSecrets: config().pullers.pullSecrets,
      idle: (hash: string) => isIdle(world, hash),
    };
    const after = await this.#engine.run(engineSteps(grants, caches.sets.list(), options), now);
    // What was refused just now was planned as if it could be had, and must not be told so.
    const refused = this.#engine.refused(now);
    this.#publish(
      canonical([...refused]) === canonical([...(world.refused ?? [])]) ? plans : planWith({ ...world, refused }).plans,
    );
    this.#options.metrics.count(caches.prewarms.list());
    const busy = [...world.pulls.values()].some((states) => [...states.values()].some((s) => s.inFlight));
    return { after: Math.min(after ?? IDLE_MS, busy ? BUSY_MS : IDLE_MS) };
  }

  #publish(plans: Map<string, PrewarmPlan>): void {
    const before = this.#plans;
    this.#plans = plans;
    for (const [key, next] of plans) if (canonical(before.get(key)) !== canonical(next)) this.#options.onChange(key);
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
    const isGang = (uid: string): boolean => workloads.byIndex('job', uid).length > 0 || prewarms.byIndex('gang', uid).length > 0;
    return { busy: nodeUsage.busy(isGang) };
  }

  #world(now: number): ReturnType<typeof buildWorld> {
    const { caches, config } = this.#options;
    const records = caches.prewarms
      .list()
      .flatMap((p) => p.status?.targets ?? [])
      .flatMap((t) => t.images);
    const bytes = new Map(records.map((i) => [i.resolved ?? '', i.sizeBytes ?? 0]));
    const { namespace } = this.#options;
    // Those of the future are of a clock that was set back; kept, they would count until it has caught up.
    this.#orphans = this.#orphans.filter((o) => o.seenAt <= now && now < o.until);
    const sets = caches.sets.list();
    this.#noteMissing(now);
    return buildWorld({
      nodes: caches.nodes.list(),
      sets,
      pods: caches.pods.list(),
      orphans: this.#orphans,
      bytes,
      rates: config().budgets,
      now,
      missingForMs: (hash, node) => now - (this.#missing.get(`${namespace}/${hash}/${node}`) ?? now),
      refused: this.#engine.refused(now),
      rejections: new Map(
        sets
          .map((s) => [s.name, caches.rejections.byIndex('set', s.name).at(-1)?.note ?? ''])
          .filter((e): e is [string, string] => e[1] !== ''),
      ),
    });
  }

  /** Remembers since when a covered node has no Pod. Lost at a restart, after which the wait merely begins anew. */
  #noteMissing(now: number): void {
    const { caches, namespace } = this.#options;
    const present = new Set(caches.pods.list().map((p) => `${namespace}/${p.hash}/${p.node}`));
    const covered = new Set(caches.sets.list().flatMap((s) => s.nodes.map((n) => `${namespace}/${s.hash}/${n}`)));
    for (const [key, since] of this.#missing) if (present.has(key) || !covered.has(key) || since > now) this.#missing.delete(key);
    for (const key of covered) if (!present.has(key) && !this.#missing.has(key)) this.#missing.set(key, now);
  }

  /** A Pod that went in mid-pull leaves a pull behind (seen); ours are never deleted then, but others delete Pods too. */
  #orphaned(pod: PullerPod): void {
    const { caches, config, clock } = this.#options;
    const puller = pod.image === undefined ? undefined : pullerOf(pod.image);
    const node = caches.nodes.get(pod.node);
    if (puller === undefined || puller.hash !== pod.hash || node === undefined) return;
    const deadlineMs = pullDeadlineMs(puller.bytes, config().budgets);
    const now = clock.now();
    const state = pullState(puller, { ...pod, deleting: false }, node, { now, deadlineMs });
    if (state.inFlight)
      this.#orphans.push({ seenAt: now, hash: pod.hash, node: pod.node, puller, until: pod.createdAt + deadlineMs });
  }

  #enginePort(): EnginePort {
    const { actuator, namespace, log } = this.#options;
    return {
      create: (object) => actuator.perform({ type: 'create-pullers', object }),
      update: (object) => actuator.perform({ type: 'update-pullers', object }),
      delete: ({ name, uid }) => actuator.perform({ type: 'delete-pullers', set: { namespace, name, uid } }),
      storedImage: (object) => (object === undefined ? undefined : projectPullerSet(object as KubeObject).image),
      refusal: refusalOf,
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
    states.some((s) => s.state === 'failed') && states.every((s) => !s.inFlight && s.state !== 'warm' && s.state !== 'pulling')
  );
}
