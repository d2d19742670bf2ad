import { isTrue } from '../../api/conditions.js';
import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { GangView } from './snapshot.js';

/** What the planner may do for a prewarm. */
export interface Lifecycle {
  mayPull: boolean;
  keep: boolean;
  /** Why no new pulls begin. */
  why?: 'Suspended' | 'QueuePosition' | 'DeadlineExceeded' | 'Finished' | 'OptedOut';
}

export interface LifecycleInput {
  prewarm: ImagePrewarm;
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
  if (!state.admitted) return false;
  return state.podsReady || now >= (state.admittedAt ?? 0) + retainAfterAdmissionMs;
}

/** Whether pullers hold images for a prewarm, by its `retain`. */
function retained({ prewarm, gang, now, retainAfterAdmissionMs }: LifecycleInput): boolean {
  switch (prewarm.spec.retain) {
    case 'Always':
      return true;
    case 'Never':
      return prewarm.status?.completionTime === undefined;
    case 'WhileGangRuns':
      return gang === undefined || !gang.gang.state.finished;
    default:
      return gang === undefined || !gangServed(gang, now, retainAfterAdmissionMs);
  }
}

/** A pure function of objects and time: after a restart the same pullers are kept and none is pulled twice. */
export function lifecycle(input: LifecycleInput): Lifecycle {
  const { prewarm, gang } = input;
  if (prewarm.metadata.deletionTimestamp !== undefined) return { mayPull: false, keep: false, why: 'Finished' };
  if (gang !== undefined && !gang.optIn.optedIn) return { mayPull: false, keep: false, why: 'OptedOut' };
  if (!retained(input)) return { mayPull: false, keep: false, why: 'Finished' };
  const why = obstacle(input);
  return why === undefined ? { mayPull: true, keep: true } : { mayPull: false, keep: true, why };
}

/** What keeps new pulls from beginning while everything that is there is kept. */
function obstacle({ prewarm, gang, now, gangsAheadPerQueue, deadlineMs }: LifecycleInput): Lifecycle['why'] {
  const { suspend, retain } = prewarm.spec;
  if (suspend) return 'Suspended';
  // Pods of an admitted gang pull for themselves; a puller elsewhere would only compete with them.
  if (gang?.gang.state.admitted === true && retain !== 'WhileGangRuns' && retain !== 'Always') return 'Finished';
  if ((gang?.position ?? 0) >= gangsAheadPerQueue) return 'QueuePosition';
  return overdue(prewarm, now, deadlineMs) ? 'DeadlineExceeded' : undefined;
}

/** Whether a prewarm took longer than it may; one that is Ready once keeps its nodes warm without a limit. */
export function overdue(prewarm: ImagePrewarm, now: number, deadlineMs: number): boolean {
  const { spec, status } = prewarm;
  const start = Date.parse(status?.startTime ?? '');
  if (Number.isNaN(start) || status?.completionTime !== undefined || isTrue(status?.conditions, 'Ready')) return false;
  if (spec.retain === 'Always' && spec.activeDeadlineSeconds === undefined) return false;
  return now >= start + (spec.activeDeadlineSeconds === undefined ? deadlineMs : spec.activeDeadlineSeconds * 1000);
}
