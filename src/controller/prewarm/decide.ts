import { clip, isTrue, setCondition } from '../../api/conditions.js';
import type { Condition } from '../../api/conditions.js';
import { formatTime } from '../../api/duration.js';
import type { ImagePrewarmStatus } from '../../api/kinds/image-prewarm.js';
import { present } from '../../api/json.js';
import type { ReadyReason } from '../../api/reasons.js';
import { formatBytes } from '../../api/quantity.js';
import type { Rates } from '../../preheat/deadline.js';
import { estimate } from './estimate.js';
import type { Lifecycle } from './lifecycle.js';
import { isCurrent } from './lifecycle.js';
import { judgeReady, leftOutMessage } from './readiness.js';
import type { Verdict } from './readiness.js';
import { updateRecord } from './record.js';
import type { RecordUpdate } from './record.js';
import { isTakenBack, releaseOf } from './release.js';
import type { PrewarmSnapshot } from './snapshot.js';

export interface PrewarmEvent {
  type: 'Normal' | 'Warning';
  reason: string;
  note: string;
}

export interface PrewarmDecision {
  status: ImagePrewarmStatus;
  /** Sent only after the status was written, so that none speaks of what did not happen. */
  events: PrewarmEvent[];
  /** Records that were changed or have to be: the gang's check must not become Ready meanwhile. */
  record: RecordUpdate;
  /** Epoch ms from which on the object is to be deleted: its time to live is over then. */
  expiresAt?: number | undefined;
}

export interface DecideContext {
  now: number;
  lifecycle: Lifecycle;
  rates: Rates;
}

/** Failures listed in status; the counts say how many there are in all. */
const MAX_FAILURES = 50;

/** The status that an ImagePrewarm should have. Total and pure: equal snapshots give equal answers, whatever happened before. */
export function decidePrewarm(snapshot: PrewarmSnapshot, context: DecideContext): PrewarmDecision {
  const { prewarm } = snapshot;
  const before = prewarm.status ?? {};
  const record = updateRecord(snapshot);
  const verdict = judgeReady(snapshot, record, context);
  const at = formatTime(context.now);
  const status: ImagePrewarmStatus = {
    ...before,
    observedGeneration: prewarm.metadata.generation ?? 0,
    targets: record.targets,
    ...identity(snapshot),
    ...sums(snapshot, context),
  };
  setTimes(status, snapshot, { verdict, context });
  status.conditions = conditionsOf(snapshot, verdict, { record, at, context });
  const eta = estimate(status, snapshot, context);
  if (eta === undefined) delete status.estimatedCompletionTime;
  else status.estimatedCompletionTime = eta;
  return { status, events: eventsOf(before, status, snapshot.unpinned), record, expiresAt: expiryOf(snapshot, status) };
}

function identity({ prewarm, gang }: PrewarmSnapshot): Partial<ImagePrewarmStatus> {
  const { gangRef, targets } = prewarm.spec;
  return {
    placement: targets.every((t) => t.nodes.names !== undefined) ? 'Assigned' : 'Candidates',
    ...(gangRef === undefined ? {} : { gang: `${gangRef.kind}/${gangRef.name}` }),
    ...(gang === undefined ? {} : { queue: gang.gang.queue }),
    ...(gang?.deadline === undefined ? {} : { holdDeadline: formatTime(gang.deadline) }),
  };
}

/** Sums, size and failures; a gang that was served keeps its last ones, as pullers leave by then. */
function sums(snapshot: PrewarmSnapshot, { lifecycle }: DecideContext): Partial<ImagePrewarmStatus> {
  const { progress, prewarm } = snapshot;
  const served = !lifecycle.keep && lifecycle.why !== 'SwitchedOff';
  if (progress === undefined || (served && prewarm.status?.nodes !== undefined)) return {};
  const { desired, warm, pulling, pending, failed, failures } = progress;
  const bytes = Math.max(
    0,
    ...(prewarm.status?.targets ?? []).map((t) => t.images.reduce((sum, i) => sum + (i.sizeBytes ?? 0), 0)),
  );
  return {
    nodes: { desired, warm, pulling, pending, failed },
    progress: `${warm}/${desired}`,
    failures: failures.slice(0, MAX_FAILURES).map((f) => ({ ...f, message: clip(f.message) })),
    truncated: failures.length > MAX_FAILURES,
    ...(bytes > 0 ? { size: formatBytes(bytes) } : {}),
  };
}

/**
 * The time in which a prewarm may not pull is not its own: while it lasts there is no start, and what comes after it is another
 * try with a deadline of its own. The status alone remembers that, so a restart changes nothing.
 */
function setTimes(
  status: ImagePrewarmStatus,
  { prewarm, progress }: PrewarmSnapshot,
  { verdict, context }: { verdict: Verdict; context: DecideContext },
): void {
  const { now, lifecycle } = context;
  if (!isCurrent(prewarm)) {
    delete status.startTime;
    delete status.completionTime;
  }
  // Written by a clock that was ahead: counted from then on, its deadline and its end would come hours late.
  for (const field of ['startTime', 'completionTime'] as const)
    if (Date.parse(status[field] ?? '') > now + SKEW_MS) status[field] = formatTime(now);
  if (status.completionTime !== undefined) return;
  const begun = progress !== undefined && progress.warm + progress.pulling + progress.failures.length > 0;
  if (verdict.ready) status.completionTime = formatTime(now);
  else if (isPaused(lifecycle, progress)) {
    delete status.startTime;
    return;
  }
  if (begun) status.startTime ??= formatTime(now);
}

/** What a prewarm does to itself: these waits are its own time. All others are for what others take of nodes and budgets. */
const OWN_WAITS: ReadonlySet<string> = new Set(['ramp', 'failure']);

/** Whether nothing may pull now, by what the gang is allowed or by what others take of nodes and budgets. */
function isPaused({ why }: Lifecycle, progress: PrewarmSnapshot['progress']): boolean {
  if (why !== undefined) return why !== 'DeadlineExceeded';
  return progress?.pulling === 0 && progress.waitsFor !== undefined && !OWN_WAITS.has(progress.waitsFor);
}

function conditionsOf(
  snapshot: PrewarmSnapshot,
  verdict: Verdict,
  { record, at, context }: { record: RecordUpdate; at: string; context: DecideContext },
): Condition[] {
  const { prewarm } = snapshot;
  const observedGeneration = prewarm.metadata.generation ?? 0;
  let conditions: Condition[] = (prewarm.status?.conditions ?? []).map((c) => present<Condition>(c));
  const set = (type: string, status: boolean, reason: string, message: string): void => {
    conditions = setCondition(conditions, { type, status: status ? 'True' : 'False', reason, message, observedGeneration }, at);
  };
  set('Ready', verdict.ready, verdict.reason, verdict.message);
  set('TargetsResolved', ...resolvedCondition(record, verdict, snapshot));
  if (verdict.hopeless) set('Failed', true, verdict.reason, verdict.message);
  else set('Failed', false, 'NoFailure', 'nothing keeps the images from becoming warm');
  if (isTakenBack(snapshot)) conditions = conditions.filter((c) => c.type !== 'Released');
  const released = isTrue(conditions, 'Released') ? undefined : releaseOf(snapshot, verdict, context.now);
  if (released !== undefined) set('Released', true, released.reason, released.message);
  return conditions;
}

/** Reason and message of condition TargetsResolved; True if no image is open. */
function resolvedCondition(
  { targets }: RecordUpdate,
  { unresolvedReason }: Verdict,
  { unpinned, leftOut }: PrewarmSnapshot,
): [boolean, string, string] {
  const open = targets.flatMap((t) => t.images).filter((i) => i.resolved === undefined);
  const left = leftOutMessage({ leftOut });
  if (open.length === 0 && left !== undefined) return [false, 'ImagesLeftOut', left];
  if (open.length === 0) return [true, 'Resolved', ['every image has a recorded digest', unpinned].filter(Boolean).join('; ')];
  return [
    false,
    unresolvedReason,
    open.find((i) => i.message !== undefined)?.message ?? `${open.length} images are being looked up`,
  ];
}

/** One event per change of what a person wants to know: work began, warm, taken back, failed, let go. */
function eventsOf(before: ImagePrewarmStatus, after: ImagePrewarmStatus, unpinned: string | undefined): PrewarmEvent[] {
  const started = after.startTime !== undefined && after.startTime !== before.startTime;
  const size = after.size === undefined ? '' : `, ${after.size} each`;
  return [
    ...(started
      ? [{ type: 'Normal', reason: 'PrewarmStarted', note: `warming ${after.nodes?.desired ?? 0} nodes${size}` } as const]
      : []),
    ...(unpinned === undefined
      ? []
      : turnedTrue(before, after, 'TargetsResolved').map(
          () => ({ type: 'Warning', reason: 'NotPinned', note: unpinned }) as const,
        )),
    ...readyEvents(before, after),
    ...turnedTrue(before, after, 'Failed').map((c) => ({ type: 'Warning', reason: c.reason, note: c.message }) as const),
    ...turnedTrue(before, after, 'Released').map(
      (c) =>
        ({ type: c.reason === 'WarmVerified' ? 'Normal' : 'Warning', reason: `Released${c.reason}`, note: c.message }) as const,
    ),
  ];
}

/** The condition if it is True now and was not so for the same reason before. */
function turnedTrue(
  before: ImagePrewarmStatus,
  after: ImagePrewarmStatus,
  type: string,
): NonNullable<ImagePrewarmStatus['conditions']> {
  const was = before.conditions?.find((c) => c.type === type);
  return (after.conditions ?? []).filter(
    (c) => c.type === type && c.status === 'True' && (was?.status !== 'True' || was.reason !== c.reason),
  );
}

const QUIET: ReadonlySet<string> = new Set<ReadyReason>(['Finished', 'Observing', 'SwitchedOff']);

function readyEvents(before: ImagePrewarmStatus, after: ImagePrewarmStatus): PrewarmEvent[] {
  const was = before.conditions?.find((c) => c.type === 'Ready')?.status === 'True';
  const is = after.conditions?.find((c) => c.type === 'Ready');
  if (is === undefined || was === (is.status === 'True')) return [];
  if (is.status === 'True') return [{ type: 'Normal', reason: 'ImagesWarm', note: is.message }];
  // An edit asks for something else, and a mode is set by whoever runs Harbinger: nothing was lost then.
  const asked = before.observedGeneration !== after.observedGeneration || QUIET.has(is.reason);
  return asked ? [] : [{ type: 'Warning', reason: 'WarmthLost', note: is.message }];
}

/** Clocks of replicas differ by less, ms. */
const SKEW_MS = 60_000;

function expiryOf({ prewarm }: PrewarmSnapshot, status: ImagePrewarmStatus): number | undefined {
  const { gangRef, ttlSecondsAfterFinished: ttl } = prewarm.spec;
  const end = Date.parse(status.completionTime ?? '');
  return gangRef === undefined && ttl !== undefined && !Number.isNaN(end) ? end + ttl * 1000 : undefined;
}
