import { parseDuration } from '../api/duration.js';
import type { Json } from '../api/json.js';
import { at, number, records, string, stringMap, time } from '../api/json.js';
import { ANNOTATION } from '../api/names.js';
import type { KubeObject } from '../api/object.js';

/** What the rules of a hold need to know of a Kueue Workload; small enough to cache for every Workload of a cluster. */
export interface HoldView {
  /** Epoch ms of the QuotaReserved transition; absent while no quota is reserved. */
  reservedAt?: number;
  admitted: boolean;
  evicted: boolean;
  finished: boolean;
  /** `spec.active`; an inactive Workload is not queued. */
  active: boolean;
  /** `retries`: how often a check sent the gang back to its queue; absent for never. */
  checks: { name: string; state: string; message: string; retries?: number }[];
  /** Epoch ms of the stamped deadline, absent if the annotation is absent or is not a time. */
  deadline?: number;
  /** Epoch ms of the reservation that the deadline was stamped for, absent if nobody says. */
  deadlineSince?: number;
  /** What the Workload itself says in annotation prewarm-hold, ms: nothing is nearer. */
  holdMs?: number;
}

/** Longest hold that a stamp can ask for: the annotation is writable by whoever may edit the Workload. Equals the API's bound. */
export const MAX_HOLD_MS = 86_400_000;

export type HoldEnd = { release: 'DeadlineExceeded' | 'Unstamped' } | { waitUntil: number };

/** Projects a raw Workload (kueue.x-k8s.io/v1beta2); absent conditions count as False (they are absent on fresh Workloads). */
export function holdView(workload: KubeObject & Record<string, unknown>): HoldView {
  const status = at(workload, 'status');
  const conditions = records(status['conditions']);
  const condition = (type: string) => conditions.find((c) => c['type'] === type && c['status'] === 'True');
  const reserved = condition('QuotaReserved');
  const reservedAt = reserved === undefined ? undefined : (time(reserved['lastTransitionTime']) ?? 0);
  const annotations = stringMap(workload.metadata.annotations);
  const deadline = time(annotations[ANNOTATION.holdDeadline]);
  const deadlineSince = time(annotations[ANNOTATION.holdSince]);
  const holdMs = parseDuration(annotations[ANNOTATION.prewarmHold] ?? '');
  return {
    ...(reservedAt === undefined ? {} : { reservedAt }),
    admitted: condition('Admitted') !== undefined,
    evicted: condition('Evicted') !== undefined,
    finished: condition('Finished') !== undefined,
    active: at(workload, 'spec')['active'] !== false,
    checks: records(status['admissionChecks']).map((check) => checkView(check, sentBack(status))),
    ...(deadline === undefined ? {} : { deadline }),
    ...(deadlineSince === undefined ? {} : { deadlineSince }),
    ...(holdMs === undefined ? {} : { holdMs }),
  };
}

/**
 * Evictions by checks of this Workload, whichever they were. A check's own `retryCount` goes with its entry, which Kueue makes anew with
 * each reservation where the check is not for all flavors of its queue (AdmissionChecksForWorkload), and it would send back for ever.
 */
function sentBack(status: Json): number {
  const evictions = records(at(status, 'schedulingStats')['evictions']).filter((e) => e['reason'] === 'AdmissionCheck');
  return evictions.reduce((sum, { count }) => sum + (number(count) ?? 0), 0);
}

function checkView(check: Json, evictions: number): HoldView['checks'][number] {
  const counted = number(check['retryCount']);
  const retries = counted === undefined && evictions === 0 ? undefined : Math.max(counted ?? 0, evictions);
  return {
    name: string(check['name']) ?? '',
    state: string(check['state']) ?? '',
    message: string(check['message']) ?? '',
    ...(retries === undefined ? {} : { retries }),
  };
}

/** The names of our checks that keep quota from being used now: the hold. */
export function heldChecks(view: HoldView, checkNames: ReadonlySet<string>): string[] {
  if (view.reservedAt === undefined || view.admitted || view.evicted || view.finished || !view.active) return [];
  return view.checks.filter((c) => c.state === 'Pending' && checkNames.has(c.name)).map((c) => c.name);
}

/**
 * The stamped deadline that is valid for the present reservation, in epoch ms. A stamp for an earlier one (the gang was evicted
 * since) vouches for nothing, also where its time is still to come: each reservation has the whole hold. One that does not say for
 * which it is must at least not be over before this one began; `release` and people write such. Beyond MAX_HOLD_MS it is cut to that.
 */
export function validDeadline(view: HoldView): number | undefined {
  const { reservedAt, deadline, deadlineSince = reservedAt } = view;
  if (reservedAt === undefined || deadline === undefined || deadline < reservedAt || deadlineSince !== reservedAt)
    return undefined;
  return Math.min(deadline, reservedAt + MAX_HOLD_MS);
}

/**
 * When the hold on a Workload ends, as a function of the object alone: the rule of the watchdog, which has to work while the
 * controller is dead (promise P5). Undefined: there is no hold.
 * @param now epoch ms
 * @param options.unstampedHoldMs how long a hold may last for which nobody stamped a deadline
 * @param options.seenForMs how long the caller has seen this very hold, by a clock that is never set: a wall clock that goes back
 * must not lengthen it
 */
export function expireHold(
  view: HoldView,
  checkNames: ReadonlySet<string>,
  now: number,
  { unstampedHoldMs, seenForMs = 0 }: { unstampedHoldMs: number; seenForMs?: number },
): HoldEnd | undefined {
  if (heldChecks(view, checkNames).length === 0) return undefined;
  const reservedAt = view.reservedAt ?? 0;
  const stamped = validDeadline(view);
  const length = Math.min(
    stamped === undefined ? unstampedHoldMs : stamped - reservedAt,
    view.holdMs ?? Number.POSITIVE_INFINITY,
  );
  const left = Math.min(reservedAt + length - now, length - seenForMs);
  if (left > 0) return { waitUntil: now + left };
  return { release: stamped === undefined ? 'Unstamped' : 'DeadlineExceeded' };
}
