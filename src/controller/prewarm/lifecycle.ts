import { isTrue } from '../../api/conditions.js';
import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { ImagePrewarmStatus } from '../../api/kinds/image-prewarm.js';
import { present } from '../../api/json.js';
import type { GangView } from './snapshot.js';

/** What the planner may do for a prewarm. */
export interface Lifecycle {
  mayPull: boolean;
  keep: boolean;
  /** Why no new pulls begin. */
  why?:
    | 'Suspended'
    | 'Inactive'
    | 'NotQueued'
    | 'QueuePosition'
    | 'DeadlineExceeded'
    | 'Finished'
    | 'OptedOut'
    | 'Observing'
    | 'SwitchedOff';
}

export interface LifecycleInput {
  prewarm: ImagePrewarm;
  /** Absent for an object made by hand, and for a gang whose Workload is gone. */
  gang?: GangView | undefined;
  now: number;
  gangsAheadPerQueue: number;
  retainAfterAdmissionMs: number;
  deadlineMs: number;
}

/** Whether the gang has what it was prewarmed for: its Pods run, it ended, or it was admitted so long ago that nobody waits. */
export function gangServed({ gang }: GangView, now: number, retainAfterAdmissionMs: number): boolean {
  const { state } = gang;
  if (state.finished) return true;
  if (!state.admitted || state.evicted) return false;
  return state.podsReady || now >= (state.admittedAt ?? 0) + retainAfterAdmissionMs;
}

/**
 * Start and end of what the present spec asks for. An edit begins another try with a deadline of its own, whatever became of the one
 * before: an object that had finished is worked on again.
 */
export function presentTry({
  metadata,
  status = {},
}: Pick<ImagePrewarm, 'metadata' | 'status'>): Pick<ImagePrewarmStatus, 'startTime' | 'completionTime'> {
  const { startTime, completionTime } = status;
  return isCurrent({ metadata, status }) ? present({ startTime, completionTime }) : {};
}

/** Whether the status speaks of the spec as it is now. */
export function isCurrent({ metadata, status }: Pick<ImagePrewarm, 'metadata' | 'status'>): boolean {
  return status?.observedGeneration === undefined || status.observedGeneration === metadata.generation;
}

/** Whether pullers hold images for a prewarm, by its `retain`. */
function retained({ prewarm, gang, now, retainAfterAdmissionMs }: LifecycleInput): boolean {
  if (isGone(prewarm, gang)) return prewarm.spec.retain === 'Always' || mayReturn(prewarm, now, retainAfterAdmissionMs);
  switch (prewarm.spec.retain) {
    case 'Always':
      return true;
    case 'Never':
      return presentTry(prewarm).completionTime === undefined;
    case 'WhileGangRuns':
      return gang === undefined || !gang.gang.state.finished;
    default:
      return gang === undefined || !(gangServed(gang, now, retainAfterAdmissionMs) || wasServedSince(prewarm, gang));
  }
}

/** A job without a Workload: its queue label was removed, or Kueue dropped the Workload of a job that has ended. */
function isGone({ spec }: ImagePrewarm, gang: GangView | undefined): boolean {
  return gang === undefined && spec.gangRef !== undefined;
}

/** Whether the status says that the gang was let go or needs nothing: all that is left to ask once its Workload is gone. */
function wasServed(prewarm: ImagePrewarm): boolean {
  return isTrue(prewarm.status?.conditions, 'Released') || isFinished(prewarm);
}

/**
 * Whether a gang had what it was prewarmed for since it was admitted: when it loses a Pod later there is no puller any more that could
 * be kept. One that is on its way back to its queue is told something else.
 */
function wasServedSince(prewarm: ImagePrewarm, { gang }: GangView): boolean {
  return gang.state.admitted && !gang.state.evicted && isFinished(prewarm);
}

function isFinished({ status }: ImagePrewarm): boolean {
  return status?.conditions?.find((c) => c.type === 'Ready')?.reason === 'Finished';
}

/**
 * Whether images are still held for a job without a Workload, which may get another one. Nobody tells when the old one went, and
 * the release of a gang that ran unseen was never written, so the time counts from when its images were warm.
 */
function mayReturn(prewarm: ImagePrewarm, now: number, retainMs: number): boolean {
  const warmAt = Date.parse(prewarm.status?.completionTime ?? '');
  return prewarm.spec.retain !== 'Never' && !wasServed(prewarm) && !Number.isNaN(warmAt) && now < warmAt + retainMs;
}

/** A pure function of objects and time: after a restart the same pullers are kept and none is pulled twice. */
export function lifecycle(input: LifecycleInput): Lifecycle {
  const { prewarm, gang } = input;
  if (prewarm.metadata.deletionTimestamp !== undefined) return { mayPull: false, keep: false, why: 'Finished' };
  if (gang !== undefined && !gang.optIn.optedIn) return { mayPull: false, keep: false, why: 'OptedOut' };
  if (!retained(input)) return { mayPull: false, keep: false, why: 'Finished' };
  // It stays so until somebody turns it on again, which is often soon: nodes keep for a while what they have.
  if (gang?.gang.state.active === false && prewarm.spec.retain !== 'Always')
    return { mayPull: false, keep: input.now < inactiveSince(input) + input.retainAfterAdmissionMs, why: 'Inactive' };
  const why = obstacle(input);
  return why === undefined ? { mayPull: true, keep: true } : { mayPull: false, keep: true, why };
}

/**
 * When a gang was first told to be inactive, epoch ms: conditions of its Workload do not say since when, so that of ours does. A gang
 * that was not Ready then has had that condition for longer, and little to lose.
 */
function inactiveSince({ prewarm, now }: LifecycleInput): number {
  const ready = prewarm.status?.conditions?.find((c) => c.type === 'Ready');
  return ready?.reason === 'Suspended' && ready.status === 'False' ? Date.parse(ready.lastTransitionTime ?? '') || 0 : now;
}

/** The same in a mode of the configuration that pulls nothing. Observe shows what would be done, and looks images up for that. */
export function inMode(life: Lifecycle, mode: 'On' | 'Observe' | 'Off'): Lifecycle {
  if (mode === 'On' || !life.keep) return life;
  if (mode === 'Off') return { mayPull: false, keep: false, why: 'SwitchedOff' };
  return life.mayPull ? { mayPull: false, keep: true, why: 'Observing' } : life;
}

/** What keeps new pulls from beginning while everything that is there is kept. */
function obstacle(input: LifecycleInput): Lifecycle['why'] {
  const { prewarm, gang } = input;
  const { suspend, retain } = prewarm.spec;
  if (suspend) return 'Suspended';
  // Pods of an admitted gang pull for themselves; a puller elsewhere would only compete with them.
  if (gang?.gang.state.admitted === true && retain !== 'WhileGangRuns' && retain !== 'Always') return 'Finished';
  return placeOf(input) ?? (outOfTime(input) ? 'DeadlineExceeded' : undefined);
}

/** A gang that has quota is past the line; one that has no place in any line would be warmed for nothing. */
function placeOf({ prewarm, gang, gangsAheadPerQueue }: LifecycleInput): Lifecycle['why'] {
  const unqueued = prewarm.spec.retain === 'Always' ? undefined : 'NotQueued';
  if (gang === undefined) return isGone(prewarm, gang) ? unqueued : undefined;
  if (!isWaiting(gang)) return undefined;
  if (gang.position === undefined) return unqueued;
  return gang.position >= gangsAheadPerQueue ? 'QueuePosition' : undefined;
}

/** Whether a gang merely stands in its queue: no quota is held for it. */
function isWaiting({ gang: { state } }: GangView): boolean {
  return state.reservedAt === undefined && !state.admitted && !state.finished;
}

/**
 * A gang that waits in its queue loses nothing by trying on: a registry that was away for an hour must not leave it cold for good,
 * and the back-off of kubelets and of the ramp bounds the cost. Once it holds quota it has a full deadline from then on.
 */
function outOfTime({ prewarm, gang, now, deadlineMs }: LifecycleInput): boolean {
  if (gang !== undefined && isWaiting(gang)) return false;
  return overdue(prewarm, now, { deadlineMs, notBefore: gang?.gang.state.reservedAt });
}

/**
 * Whether a prewarm took longer than it may, counted from `startTime`, which the status takes back whenever nothing may pull, or
 * from `notBefore` (epoch ms) if that is later. One that was Ready once keeps its nodes warm without a limit.
 */
export function overdue(
  prewarm: ImagePrewarm,
  now: number,
  { deadlineMs, notBefore = 0 }: { deadlineMs: number; notBefore?: number | undefined },
): boolean {
  const { spec, status } = prewarm;
  const { startTime, completionTime } = presentTry(prewarm);
  const start = Math.max(Date.parse(startTime ?? ''), notBefore);
  const ready = isTrue(status?.conditions, 'Ready') && isCurrent(prewarm);
  if (Number.isNaN(start) || completionTime !== undefined || ready) return false;
  if (spec.retain === 'Always' && spec.activeDeadlineSeconds === undefined) return false;
  return now >= start + (spec.activeDeadlineSeconds === undefined ? deadlineMs : spec.activeDeadlineSeconds * 1000);
}
