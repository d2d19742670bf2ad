import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { HarbingerConfig } from '../../config/schema.js';
import type { Gang } from '../../gangs/shape.js';
import { isConflict, isNotFound } from '../../kube/errors.js';
import type { EventRecorder } from '../../kube/events.js';
import { referenceOf } from '../../kube/events.js';
import type { Result } from '../../kube/work-queue.js';
import { Waiting } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import { platformText } from '../../images/platform.js';
import { candidates } from '../../placement/candidates.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import { canonical, leftOut } from '../gangs/decide.js';
import type { WorkloadView } from '../gangs/sources/kueue.js';
import type { GangViews } from '../gangs/views.js';
import { operatorImagesOf } from '../gangs/reconciler.js';
import type { Guard } from '../gangs/guard.js';
import type { Lookups } from '../images/lookups.js';
import type { RecordedVariants } from '../images/recorded-variants.js';
import type { PrewarmMetrics } from '../metrics.js';
import type { PlannerLoop } from '../pullers/planner-loop.js';
import type { PrewarmPlan } from '../pullers/planning.js';
import { signatureOf } from '../pullers/planning.js';
import type { PrewarmDecision } from './decide.js';
import { decidePrewarm } from './decide.js';
import { isFrozen, lookupsNeeded } from './record.js';
import { unpinnedBecause } from './unpinned.js';
import type { PrewarmSnapshot } from './snapshot.js';

export interface PrewarmReconcilerOptions {
  caches: Caches;
  views: GangViews;
  planner: PlannerLoop;
  lookups: Lookups;
  variants: RecordedVariants;
  actuator: Actuator;
  events: EventRecorder;
  guard: Guard;
  /** Reads what tells of a gang from the API server itself; undefined where there is no such object. */
  readWorkload: (gang: Gang) => Promise<WorkloadView | undefined>;
  metrics: PrewarmMetrics;
  config: () => HarbingerConfig;
  clock: Clock;
  log: Log;
}

/** Numbers alone may change this often in a status, ms; each write wakes every watcher. */
const WRITE_INTERVAL_MS = 1_000;
/** The same for one that may not pull, ms. */
const IDLE_INTERVAL_MS = 5_000;
/** After a write that met a newer object, ms. */
const CONFLICT_MS = 200;
/** An object with open questions is looked at again after this time even if nothing is heard, ms. */
const LOOK_MS = 15_000;
/** Longest time for which a look is put off, ms: timers of the platform end at 24 days. */
const LONGEST_MS = 86_400_000;

/** observe -> look up -> decide -> one status write -> events, for one ImagePrewarm. */
export class PrewarmReconciler {
  readonly #options: PrewarmReconcilerOptions;
  readonly #written = new Map<string, number>();

  constructor(options: PrewarmReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const { caches, planner, lookups, variants, clock, config } = this.#options;
    const prewarm = caches.prewarms.get(key);
    if (prewarm === undefined) {
      lookups.forget(key);
      variants.forget(key);
      this.#options.guard.forgetPrewarm(key);
      this.#written.delete(key);
      return {};
    }
    const plan = planner.planOf(key);
    // The first plan comes within a moment, and the planner adds this key then.
    if (plan === undefined || prewarm.metadata.deletionTimestamp !== undefined) return {};
    // Nor is anything said of a new spec by a plan of the one before.
    if (plan.generation !== prewarm.metadata.generation) return {};
    if (plan.lifecycle.keep) await this.#look(key, prewarm, plan);
    // Looking takes time: what is decided must come from what is known now.
    if (caches.prewarms.get(key)?.metadata.resourceVersion !== prewarm.metadata.resourceVersion) return { after: 0 };
    const latest = planner.planOf(key) ?? plan;
    const decide: Decide = (workload) =>
      decidePrewarm(this.#snapshot(key, prewarm, latest, workload), {
        now: clock.now(),
        lifecycle: latest.lifecycle,
        rates: config().budgets,
      });
    return this.#apply(key, prewarm, decide);
  }

  /** Asks registries what has to be known: about variants on record first, since one that is gone calls for another. */
  async #look(key: string, prewarm: ImagePrewarm, plan: PrewarmPlan): Promise<void> {
    const { views, lookups, variants, clock, config } = this.#options;
    const recheckMs = config().budgets.tagRecheckSeconds * 1000;
    const seen = (): PrewarmSnapshot => this.#snapshot(key, prewarm, plan, views.workloadOf(prewarm));
    await variants.check(key, prewarm, {
      // What is final is not looked at time and again for its sake alone: it changes only where nodes fail or change.
      maxAgeMs: isFrozen(seen()) ? Number.POSITIVE_INFINITY : recheckMs,
      failed: new Set(plan.progress?.failures.map((f) => f.image)),
    });
    const { unpinned, ...snapshot } = seen();
    const needs = lookupsNeeded(snapshot, clock.now(), recheckMs);
    if (needs.length > 0) await lookups.look(key, prewarm, needs, { platforms: this.#platforms(prewarm), unpinned });
  }

  #snapshot(key: string, prewarm: ImagePrewarm, plan: PrewarmPlan, workload: WorkloadView | undefined): PrewarmSnapshot {
    const { caches, views, planner, lookups, variants, guard, config } = this.#options;
    const { namespace = '' } = prewarm.metadata;
    const { mode, scope, gangs } = config();
    return {
      prewarm,
      gang: workload === undefined ? undefined : views.viewOf(workload, planner.positions, guard.isLettingGo(workload)),
      progress: plan.signature === signatureOf(prewarm) ? plan.progress : undefined,
      candidates: plan.candidates,
      lookups: lookups.of(key),
      unusable: variants.problems(key, prewarm),
      deadlineMs: plan.deadlineMs,
      concurrency: plan.concurrency,
      mode: mode === 'On' ? undefined : mode,
      leftOut: workload === undefined ? [] : leftOut(workload.gang, operatorImagesOf(workload.gang, { gangs })),
      unpinned:
        prewarm.spec.gangRef === undefined
          ? undefined
          : unpinnedBecause(namespace, caches.namespaces.get(namespace)?.labels ?? {}, scope),
    };
  }

  /** The platform of the candidates, if they have one: an image for another one cannot run there. Mixed nodes decide nothing. */
  #platforms(prewarm: ImagePrewarm): string[] {
    const { caches, config } = this.#options;
    const { allow, exclude } = config().nodes;
    const nodes = prewarm.spec.targets.flatMap((t) => {
      const runtimeClass = caches.runtimeClasses.get(t.runtimeClassName ?? '');
      return candidates(t, caches.nodes.list(), { allow, exclude, runtimeClass }).nodes;
    });
    const platforms = [...new Set(nodes.map((n) => platformText(n.os, n.arch)))];
    return platforms.length === 1 ? platforms : [];
  }

  async #apply(key: string, prewarm: ImagePrewarm, decide: Decide): Promise<Result> {
    const { namespace = '', name, uid = '' } = prewarm.metadata;
    const decision = decide(this.#options.views.workloadOf(prewarm));
    const restMs = (decision.expiresAt ?? Number.POSITIVE_INFINITY) - this.#options.clock.now();
    if (restMs <= 0) {
      await this.#options.actuator.perform({ type: 'delete-prewarm', prewarm: { namespace, name, uid } });
      return {};
    }
    const result = this.#lookAgain(decision, restMs);
    if (canonical(decision.status) === canonical(prewarm.status ?? {})) return result;
    const wait = this.#pauseMs(key);
    if (wait > 0 && !isUrgent(prewarm, decision)) return { after: wait };
    await this.#write(key, prewarm, { decision, decide });
    return result;
  }

  /**
   * How long numbers alone have to wait for the next write. Those of a gang that may not pull change with the pulls of others
   * only: where many gangs have one image they would be most of all writes.
   */
  #pauseMs(key: string): number {
    const mayPull = this.#options.planner.planOf(key)?.lifecycle.mayPull === true;
    const interval = mayPull ? WRITE_INTERVAL_MS : IDLE_INTERVAL_MS;
    const wait = (this.#written.get(key) ?? 0) + interval - this.#options.clock.now();
    return wait > interval ? 0 : wait;
  }

  /** When to look again if nothing is heard: at the end of the object's time, and while there are questions every now and then. */
  #lookAgain(decision: PrewarmDecision, restMs: number): Result {
    const { tagRecheckSeconds } = this.#options.config().budgets;
    const after = reasonOf(decision) === 'Finished' ? restMs : Math.min(restMs, LOOK_MS, tagRecheckSeconds * 1000);
    return Number.isFinite(after) ? { after: Math.min(after, LONGEST_MS) } : {};
  }

  async #write(key: string, prewarm: ImagePrewarm, first: { decision: PrewarmDecision; decide: Decide }): Promise<void> {
    const { actuator, guard, clock } = this.#options;
    const { namespace = '', name, resourceVersion = '' } = prewarm.metadata;
    // Before the Workload is read: from here on none of our writes lets the gang go.
    if (!isReady(first.decision.status)) guard.changing({ key, resourceVersion });
    const { status, events } = await this.#confirmed(key, prewarm, first);
    this.#written.set(key, clock.now());
    try {
      const stored = await actuator.perform({
        type: 'write-prewarm-status',
        prewarm: { namespace, name, resourceVersion },
        status,
      });
      // The API server makes no new version of an object that already says so.
      if (stored?.metadata.resourceVersion === resourceVersion) guard.forgetPrewarm(key);
    } catch (error) {
      guard.notChanged(key, error);
      if (isNotFound(error)) return;
      // The spec or our own earlier write is newer than the cache; it brings this key back, and this look is only for the case it does not.
      if (isConflict(error)) throw new Waiting('a newer version of the object is on its way', CONFLICT_MS);
      throw error;
    }
    this.#options.metrics.wrote(prewarm.status, status);
    this.#tellPlan(key, prewarm.status, status);
    for (const event of events) {
      for (const regarding of regardingOf(prewarm)) this.#options.events.event({ regarding, action: 'Prewarm', ...event });
    }
  }

  /** A status has no room for names of nodes; a trial is about them. */
  #tellPlan(key: string, before: ImagePrewarm['status'], status: PrewarmDecision['status']): void {
    const nodes = this.#options.planner.planOf(key)?.would;
    if (nodes === undefined || before?.nodes?.desired === status.nodes?.desired) return;
    const { nodes: sums, size, estimatedCompletionTime: eta } = status;
    this.#options.log.info({ prewarm: key, mode: 'Observe', nodes, desired: sums?.desired, size, eta }, 'nodes would be warmed');
  }

  /**
   * Where the record of a gang would change, the decision is made again on the Workload as the API server has it: a cache may be
   * minutes old, and by then Kueue, the watchdog or an earlier write of ours may have let Pods come with the old record (P3).
   */
  async #confirmed(
    key: string,
    prewarm: ImagePrewarm,
    { decision, decide }: { decision: PrewarmDecision; decide: Decide },
  ): Promise<PrewarmDecision> {
    const { views, guard, readWorkload } = this.#options;
    const { gangRef } = prewarm.spec;
    const workload = views.workloadOf(prewarm);
    if (decision.record.moved.length === 0 || gangRef === undefined || workload === undefined) return decision;
    try {
      const live = await readWorkload(workload.gang);
      return decide(live?.gang.ref.uid === gangRef.uid ? live : undefined);
    } catch (error) {
      guard.forgetPrewarm(key);
      throw error;
    }
  }
}

/** The decision about the object if this is its Workload. */
type Decide = (workload: WorkloadView | undefined) => PrewarmDecision;

function reasonOf({ status }: PrewarmDecision): string | undefined {
  return status.conditions?.find((c) => c.type === 'Ready')?.reason;
}

/** Changes that others wait for: conditions and the record; sums and estimates can wait a moment. */
function isUrgent({ status = {} }: ImagePrewarm, decision: PrewarmDecision): boolean {
  const essence = (s: PrewarmDecision['status']): unknown => [
    s.observedGeneration,
    s.conditions?.map((c) => [c.type, c.status, c.reason]),
    s.targets,
  ];
  return canonical(essence(status)) !== canonical(essence(decision.status));
}

function isReady({ conditions }: PrewarmDecision['status']): boolean {
  return conditions?.some((c) => c.type === 'Ready' && c.status === 'True') === true;
}

/** Events stand on the object, and on the job where its owner looks. */
function regardingOf(prewarm: ImagePrewarm): ReturnType<typeof referenceOf>[] {
  const { gangRef } = prewarm.spec;
  const owner = prewarm.metadata.ownerReferences?.find((o) => o.uid === gangRef?.uid);
  const own = referenceOf(prewarm);
  if (owner === undefined) return [own];
  const { apiVersion, kind, name, uid } = owner;
  return [own, { apiVersion, kind, name, uid, namespace: prewarm.metadata.namespace ?? '' }];
}
