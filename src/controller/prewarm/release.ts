import { isTrue } from '../../api/conditions.js';
import type { ReleaseReason } from '../../api/reasons.js';
import { isEnough } from '../holds/enough.js';
import type { Verdict } from './readiness.js';
import type { GangView, PrewarmSnapshot } from './snapshot.js';

const RELEASED: Record<ReleaseReason, string> = {
  WarmVerified: 'the gang was let go with its images proven warm',
  DeadlineExceeded: 'the hold on the gang reached its deadline',
  Hopeless: 'the images cannot become warm, so the gang was let go without them',
  OptedOut: 'the gang is not, or no longer, opted in',
  SwitchedOff: 'Harbinger is in a mode in which it holds nobody',
  QuotaReservedCold: 'quota was reserved before the images were warm and the gang does not wait with quota reserved',
};

const RELEASED_WITH_A_SHARE = 'the gang was let go with its images proven warm on as many nodes as its check asks for';

/** Whether Pods may come: the gang was admitted, or nothing of ours keeps it from being so. */
function isLetGo({ gang, checkReady }: GangView): boolean {
  const { admitted, reservedAt } = gang.state;
  return admitted || (reservedAt !== undefined && checkReady);
}

/** Whether the release on record is void: the gang opted out, and in again before any Pod could come. */
export function isTakenBack({ prewarm, gang }: Pick<PrewarmSnapshot, 'prewarm' | 'gang'>): boolean {
  if (gang === undefined || !gang.optIn.optedIn || isLetGo(gang)) return false;
  return prewarm.status?.conditions?.some((c) => c.type === 'Released' && c.reason === 'OptedOut') === true;
}

/** Why the gang was let go, undefined while it was not. Asked once: the first reason stays on record. */
export function releaseOf(
  snapshot: PrewarmSnapshot,
  verdict: Verdict,
  now: number,
): { reason: ReleaseReason; message: string } | undefined {
  const { gang } = snapshot;
  if (gang === undefined || !isLetGo(gang)) return undefined;
  const released = (reason: ReleaseReason, message = RELEASED[reason]) => ({ reason, message });
  // Of a Job that is gone nobody knows what it said.
  if (!gang.optIn.optedIn) return gang.jobGone === true ? undefined : released('OptedOut');
  if (verdict.ready || isTrue(snapshot.prewarm.status?.conditions, 'Ready')) return released('WarmVerified');
  if (hasShare(snapshot, verdict, gang.minWarmPercent)) return released('WarmVerified', RELEASED_WITH_A_SHARE);
  return released(coldBecause(snapshot, gang, { verdict, now }));
}

/** Why a gang goes on whose images are not warm. */
function coldBecause(
  { mode }: PrewarmSnapshot,
  { deadline }: GangView,
  { verdict, now }: { verdict: Verdict; now: number },
): ReleaseReason {
  if (mode !== undefined) return 'SwitchedOff';
  if (deadline !== undefined && now >= deadline) return 'DeadlineExceeded';
  return verdict.hopeless ? 'Hopeless' : 'QuotaReservedCold';
}

function hasShare({ progress }: PrewarmSnapshot, { reason }: Verdict, minWarmPercent = 100): boolean {
  return progress !== undefined && isEnough({ warm: progress.warm, desired: progress.desired, reason }, minWarmPercent);
}
