import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { GangState } from '../../gangs/shape.js';
import { present, time } from '../../api/json.js';
import { overdue } from '../prewarm/lifecycle.js';
import type { PrewarmPlan } from '../pullers/planning.js';
import { signatureOf } from '../pullers/planning.js';
import type { Warmth } from './decide.js';

/**
 * What the status of an ImagePrewarm says to the hold. Only words about the present generation count.
 * @param changing whether a newer status is being written, so that this one may not let the gang go any more
 */
export function warmthOf({ metadata, status = {} }: ImagePrewarm, changing: boolean): Warmth {
  const known = status.observedGeneration === metadata.generation;
  const current = known && !changing;
  const condition = (type: string) => status.conditions?.find((c) => c.type === type);
  const [ready, failed] = [condition('Ready'), condition('Failed')];
  return present<Warmth>({
    current,
    ready: current && ready?.status === 'True',
    ...countsOf(status),
    hopeless: known && failed?.status === 'True' ? failed.message : undefined,
    message: ready?.message ?? '',
    reason: ready?.reason ?? 'Pending',
    eta: time(status.estimatedCompletionTime),
  });
}

/**
 * Whether the latest plan sees at least the warm nodes that a status tells of. A status may be the last word of a process that died
 * long ago, and nobody has kept it true since (promise P4).
 */
export function isSeen(prewarm: ImagePrewarm, plan: PrewarmPlan | undefined): boolean {
  if (plan?.signature !== signatureOf(prewarm) || !plan.lifecycle.keep) return false;
  const { warm, desired } = plan.progress ?? { warm: 0, desired: plan.candidates.desired };
  const ready = prewarm.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True') === true;
  return warm >= (prewarm.status?.nodes?.warm ?? 0) && (!ready || warm >= desired);
}

/**
 * Whether a status that says Finished, or that the time was over, is of an earlier run of the gang: given quota again at once after
 * an eviction, a gang is asked about before the next plan says that it is pulled for again.
 * @param deadlineMs how long the present try may take by the latest plan; undefined while there is none
 */
export function isOfEarlierRun(
  prewarm: ImagePrewarm,
  { admitted, finished, reservedAt }: GangState,
  { now, deadlineMs }: { now: number; deadlineMs: number | undefined },
): boolean {
  const { metadata, spec, status } = prewarm;
  if (admitted || finished || metadata.deletionTimestamp !== undefined) return false;
  const reason = status?.conditions?.find((c) => c.type === 'Ready')?.reason;
  if (reason === 'Finished') return spec.retain !== 'Never';
  if (reason !== 'DeadlineExceeded') return false;
  // No time runs for a gang that waits in its queue.
  if (reservedAt === undefined || deadlineMs === undefined) return true;
  return !overdue(prewarm, now, { deadlineMs, notBefore: reservedAt });
}

/** Of a gang whose ImagePrewarm the API server refuses: nothing is pulled, and no wait changes that. */
export function refusedWarmth(refusal: string | undefined): Warmth | undefined {
  return refusal === undefined
    ? undefined
    : { ready: false, current: true, desired: 0, warm: 0, hopeless: refusal, message: refusal, reason: 'Invalid' };
}

function countsOf({ nodes }: NonNullable<ImagePrewarm['status']>): Pick<Warmth, 'desired' | 'warm'> {
  return nodes === undefined ? { desired: 0, warm: 0 } : { desired: nodes.desired, warm: nodes.warm };
}
