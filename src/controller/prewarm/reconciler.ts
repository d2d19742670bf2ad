import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { isConflict, isNotFound } from '../../kube/errors.js';
import type { EventRecorder } from '../../kube/events.js';
import { referenceOf } from '../../kube/events.js';
import type { Result } from '../../kube/work-queue.js';
import { Waiting } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import { platformText } from '../../images/platform.js';
import { candidates } from '../../placement/candidates.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import { canonical } from '../decide-gang.js';
import type { GangViews } from '../gang-views.js';
import type { Guard } from '../guard.js';
import type { Lookups } from '../lookups.js';
import type { PrewarmMetrics } from '../metrics.js';
import type { PlannerLoop } from '../planner-loop.js';
import type { PrewarmPlan } from '../planning.js';
import { signatureOf } from '../planning.js';
import type { PrewarmDecision } from './decide.js';
import { decidePrewarm } from './decide.js';
import { lookupsNeeded } from './record.js';
import type { PrewarmSnapshot } from './snapshot.js';

export interface PrewarmReconcilerOptions {
  caches: Caches;
  views: GangViews;
  planner: PlannerLoop;
  lookups: Lookups;
  actuator: Actuator;
  events: EventRecorder;
  guard: Guard;
  metrics: PrewarmMetrics;
  config: () => HarbingerConfig;
  clock: Clock;
}

/** Numbers alone may change this often in a status, ms; each write wakes every watcher. */
const WRITE_INTERVAL_MS = 1_000;
/** After a write that met a newer object, ms. */
const CONFLICT_MS = 200;
/** An object with open questions is looked at again after this time even if nothing is heard, ms. */
const LOOK_MS = 15_000;

/** observe -> look up -> decide -> one status write -> events, for one ImagePrewarm. */
export class PrewarmReconciler {
  readonly #options: PrewarmReconcilerOptions;
  readonly #written = new Map<string, number>();

  constructor(options: PrewarmReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const { caches, planner, lookups, clock, config } = this.#options;
    const prewarm = caches.prewarms.get(key);
    if (prewarm === undefined) {
      lookups.forget(key);
      this.#written.delete(key);
      return {};
    }
    const plan = planner.planOf(key);
    // The first plan comes within a moment, and the planner adds this key then.
    if (plan === undefined || prewarm.metadata.deletionTimestamp !== undefined) return {};
    const { budgets } = config();
    const needs = lookupsNeeded(this.#snapshot(key, prewarm, plan), clock.now(), budgets.tagRecheckSeconds * 1000);
    if (needs.length > 0 && plan.lifecycle.keep) await lookups.look(key, prewarm, needs, this.#platforms(prewarm));
    // Looking takes time: what is decided must come from what is known now.
    if (caches.prewarms.get(key)?.metadata.resourceVersion !== prewarm.metadata.resourceVersion) return { after: 0 };
    const snapshot = this.#snapshot(key, prewarm, planner.planOf(key) ?? plan);
    const decision = decidePrewarm(snapshot, { now: clock.now(), lifecycle: plan.lifecycle, rates: budgets });
    return this.#apply(key, prewarm, decision);
  }

  #snapshot(key: string, prewarm: ImagePrewarm, plan: PrewarmPlan): PrewarmSnapshot {
    const { views, planner, lookups, guard } = this.#options;
    const workload = views.workloadOf(prewarm);
    return {
      prewarm,
      gang: workload === undefined ? undefined : views.viewOf(workload, planner.positions, guard.isLettingGo(workload.gang.uid)),
      progress: plan.signature === signatureOf(prewarm) ? plan.progress : undefined,
      candidates: plan.candidates,
      lookups: lookups.of(key),
      deadlineMs: plan.deadlineMs,
      concurrency: plan.concurrency,
    };
  }

  /** The platform of the candidates, if they have one: an image for another one cannot run there. Mixed nodes decide nothing. */
  #platforms(prewarm: ImagePrewarm): string[] {
    const { caches, config } = this.#options;
    const { allow, exclude } = config().nodes;
    const nodes = prewarm.spec.targets.flatMap((t) => candidates(t, caches.nodes.list(), { allow, exclude }).nodes);
    const platforms = [...new Set(nodes.map((n) => platformText(n.os, n.arch)))];
    return platforms.length === 1 ? platforms : [];
  }

  async #apply(key: string, prewarm: ImagePrewarm, decision: PrewarmDecision): Promise<Result> {
    const { namespace = '', name, uid = '' } = prewarm.metadata;
    if (decision.expired) {
      await this.#options.actuator.perform({ type: 'delete-prewarm', prewarm: { namespace, name, uid } });
      return {};
    }
    const result: Result = reasonOf(decision) === 'Finished' ? {} : { after: this.#lookAgainMs() };
    if (canonical(decision.status) === canonical(prewarm.status ?? {})) return result;
    const wait = (this.#written.get(key) ?? 0) + WRITE_INTERVAL_MS - this.#options.clock.now();
    if (wait > 0 && wait <= WRITE_INTERVAL_MS && !isUrgent(prewarm, decision)) return { after: wait };
    await this.#write(key, prewarm, decision);
    return result;
  }

  #lookAgainMs(): number {
    return Math.min(LOOK_MS, this.#options.config().budgets.tagRecheckSeconds * 1000);
  }

  async #write(key: string, prewarm: ImagePrewarm, { status, events }: PrewarmDecision): Promise<void> {
    const { actuator, guard, clock } = this.#options;
    const { namespace = '', name, resourceVersion = '' } = prewarm.metadata;
    if (!isReady(status)) guard.changing(key, resourceVersion);
    this.#written.set(key, clock.now());
    try {
      await actuator.perform({ type: 'write-prewarm-status', prewarm: { namespace, name, resourceVersion }, status });
    } catch (error) {
      if (isNotFound(error)) return;
      // The spec or our own earlier write is newer than the cache; it brings this key back, and this look is only for the case it does not.
      if (isConflict(error)) throw new Waiting('a newer version of the object is on its way', CONFLICT_MS);
      throw error;
    }
    this.#options.metrics.wrote(prewarm.status, status);
    for (const event of events) {
      for (const regarding of regardingOf(prewarm)) this.#options.events.event({ regarding, action: 'Prewarm', ...event });
    }
  }
}

function reasonOf({ status }: PrewarmDecision): string | undefined {
  return status.conditions?.find((c) => c.type === 'Ready')?.reason;
}

/** Changes that others wait for: conditions and the record; sums and estimates can wait a moment. */
function isUrgent({ status = {} }: ImagePrewarm, decision: PrewarmDecision): boolean {
  const essence = (s: PrewarmDecision['status']): unknown => [s.conditions?.map((c) => [c.type, c.status, c.reason]), s.targets];
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
