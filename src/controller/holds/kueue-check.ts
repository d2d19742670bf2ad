import { formatTime } from '../../api/duration.js';
import { ANNOTATION } from '../../api/names.js';
import { templateFacts } from '../../gangs/pod-templates.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { validDeadline } from '../../gangs/hold.js';
import { isConflict, isInvalid, isNotFound } from '../../kube/errors.js';
import type { PatchOp } from '../../kube/port.js';
import type { Result } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import type { GangViews } from '../gangs/views.js';
import type { WorkloadView } from '../gangs/sources/kueue.js';
import type { Guard } from '../gangs/guard.js';
import type { GangWarmth } from './gang-warmth.js';
import type { HoldCounts } from './hold-counts.js';
import { parametersOf } from './parameters.js';
import type { CheckSnapshot, CheckWrite } from './decide.js';
import { decideCheck } from './decide.js';
import { Flaps, hasLost } from './flaps.js';

export interface KueueCheckOptions {
  caches: Caches;
  views: GangViews;
  actuator: Actuator;
  guard: Guard;
  warmth: Pick<GangWarmth, 'of'>;
  counts: Pick<HoldCounts, 'ended'>;
  config: () => HarbingerConfig;
  clock: Clock;
}

/** Changes of the message alone are written this often at most, ms: each one wakes Kueue. */
const MESSAGE_INTERVAL_MS = 5_000;
/** Those that only count further, of a gang whose wait costs nothing. */
const COUNT_INTERVAL_MS = 20_000;
const COUNTS = /^\d+\/\d+ nodes warm/;
/** A write that met a newer object is tried again after this time if no event came, ms. */
const RETRY_MS = 1_000;

/** Answers our checks on one Workload. Key: that of the Workload. */
export class KueueCheckReconciler {
  readonly #options: KueueCheckOptions;
  readonly #told = new Map<string, number>();
  readonly #flaps = new Flaps();

  constructor(options: KueueCheckOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const { caches, clock } = this.#options;
    const workload = caches.workloads.get(key);
    if (workload === undefined) {
      this.#told.delete(key);
      this.#flaps.forget(key);
      this.#options.guard.forgetWorkload(key);
      return {};
    }
    try {
      return await this.#answer(workload, clock.now());
    } catch (error) {
      // Somebody wrote first; the cache brings the new object, and this is decided again on it.
      if (isConflict(error) || isInvalid(error)) return { after: RETRY_MS };
      if (isNotFound(error)) return {};
      throw error;
    }
  }

  async #answer(workload: WorkloadView, now: number): Promise<Result> {
    const decision = decideCheck(this.#snapshot(workload), now);
    const result: Result = decision.after === undefined ? {} : { after: decision.after };
    // The stamp comes first and alone: it makes a new version of the object, and what is left to write is decided on that one.
    if (decision.stamp !== undefined) {
      await this.#stamp(workload, decision.stamp);
      return result;
    }
    const { due, after } = this.#due(workload, decision.writes, now);
    if (due.length > 0) await this.#write(workload, due, now);
    return after === undefined ? result : { after: Math.min(after, decision.after ?? after) };
  }

  /** What may be written now, and when to look again at the rest. */
  #due({ key, hold }: WorkloadView, wanted: readonly CheckWrite[], now: number): { due: CheckWrite[]; after?: number } {
    const told = this.#told.get(key) ?? 0;
    const queued = hold.reservedAt === undefined;
    const messageOf = (name: string): string => hold.checks.find((c) => c.name === name)?.message ?? '';
    const flapMs = queued && wanted.some((w) => w.transition && w.state === 'Ready') ? this.#flaps.waitMs(key, now) : 0;
    const writes =
      flapMs === 0 ? wanted : wanted.map((w) => damped(w, now + flapMs)).filter((w) => w.message !== messageOf(w.name));
    const wait = (write: CheckWrite): number => {
      if (write.transition) return 0;
      const before = messageOf(write.name);
      const interval = queued && COUNTS.test(before) && COUNTS.test(write.message) ? COUNT_INTERVAL_MS : MESSAGE_INTERVAL_MS;
      // What was told in the future was told before the clock went back.
      return now < told ? 0 : Math.max(0, told + interval - now);
    };
    const waits = writes.map(wait);
    const later = [...waits, flapMs].filter((ms) => ms > 0);
    return {
      due: writes.filter((_write, i) => waits[i] === 0),
      ...(later.length === 0 ? {} : { after: Math.min(...later) }),
    };
  }

  #snapshot(workload: WorkloadView): CheckSnapshot {
    const { caches, views, config } = this.#options;
    const { gang, hold } = workload;
    const checks = caches.ownChecks().map((c) => [c.name, parametersOf(c, caches.checkConfigs).parameters] as const);
    return {
      view: hold,
      delayedTopology: gang.state.delayedTopology,
      optIn: views.optInOf(gang),
      jobGone: views.isJobGone(gang),
      hasImages: gang.podSets.some((p) => templateFacts(p.template).images.length > 0),
      grows: gang.replaces !== undefined,
      warmth: this.#options.warmth.of(gang),
      checks: new Map(checks),
      mode: config().mode,
    };
  }

  async #stamp(workload: WorkloadView, deadline: number): Promise<void> {
    const { reservedAt = deadline } = workload.hold;
    const annotate = (name: string, at: number): PatchOp => {
      const path = `/metadata/annotations/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      return { op: 'add', path, value: formatTime(at) };
    };
    const ops: PatchOp[] = [
      ...(workload.hasAnnotations ? [] : [{ op: 'add', path: '/metadata/annotations', value: {} } as const]),
      annotate(ANNOTATION.holdDeadline, deadline),
      annotate(ANNOTATION.holdSince, reservedAt),
    ];
    await this.#options.actuator.perform({ type: 'stamp-deadline', workload: this.#seen(workload), ops });
  }

  async #write(workload: WorkloadView, writes: readonly CheckWrite[], now: number): Promise<void> {
    const { actuator, guard } = this.#options;
    const ops = writes.flatMap((write) => opsOf(workload, write, formatTime(write.since ?? now)));
    if (writes.some((w) => w.state === 'Ready')) guard.lettingGo(workload);
    this.#told.set(workload.key, now);
    if (hasLost(this.#options.warmth.of(workload.gang)) && writes.some((w) => w.state === 'Pending' && w.transition))
      this.#flaps.takenBack(workload.key, now);
    try {
      await actuator.perform({ type: 'write-check', workload: this.#seen(workload), ops });
      // Only a hold that was stamped kept the gang from anything; all others are answered the moment they are seen.
      const ended = validDeadline(workload.hold) === undefined ? undefined : writes.find((w) => w.transition)?.reason;
      if (ended !== undefined) this.#options.counts.ended('Check', ended);
    } catch (error) {
      guard.notLetGo(workload.key, error);
      throw error;
    }
  }

  #seen({ gang, resourceVersion }: WorkloadView): { namespace: string; name: string; resourceVersion: string } {
    return { namespace: gang.namespace, name: gang.name, resourceVersion };
  }
}

/** Instead of Ready, for a gang whose nodes come and go. */
function damped(write: CheckWrite, until: number): CheckWrite {
  if (!write.transition || write.state !== 'Ready') return write;
  const message = `${write.message}, but warmth was lost a moment ago: this counts from ${formatTime(until)} on if it lasts`;
  return { name: write.name, state: 'Pending', message, transition: false };
}

/** The entry is addressed by its place; the test of the resource version makes the place safe. */
function opsOf({ hold }: WorkloadView, write: CheckWrite, at: string): PatchOp[] {
  const { name, state, message, transition, requeueAfterMs } = write;
  const path = `/status/admissionChecks/${hold.checks.findIndex((c) => c.name === name)}`;
  return [
    { op: 'replace', path: `${path}/state`, value: state },
    { op: 'replace', path: `${path}/message`, value: message },
    ...(transition ? [{ op: 'replace', path: `${path}/lastTransitionTime`, value: at } as const] : []),
    ...(requeueAfterMs === undefined
      ? []
      : [{ op: 'add', path: `${path}/requeueAfterSeconds`, value: Math.ceil(requeueAfterMs / 1000) } as const]),
  ];
}
