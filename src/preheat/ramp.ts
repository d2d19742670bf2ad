import type { ImagePrewarmSpec } from '../api/kinds/image-prewarm.js';
import { COMMON_FAILURES } from '../api/reasons.js';
import type { PullState } from './evidence.js';

export type RampUp = NonNullable<ImagePrewarmSpec['pull']>['rampUp'];

/** What became of one image on all nodes where it was tried. */
export interface Tally {
  warm: number;
  /** Failures that every node would meet alike. */
  common: number;
  /** Nodes that get no Pod, for a reason that the others share. */
  overdue: number;
}

export function tallyOf(states: Iterable<PullState>): Tally {
  const tally = { warm: 0, common: 0, overdue: 0 };
  for (const { state, reason, overdue } of states) {
    if (overdue === true) tally.overdue += 1;

    if (state === 'warm') tally.warm += 1;
    if (state === 'failed' && reason !== undefined && COMMON_FAILURES.has(reason)) tally.common += 1;
  }
  return tally;
}

/**
 * How many nodes may pull one image at once, judged by what became of it elsewhere.
 * SlowStart: one node first; each success widens the window by one, so it doubles per round and never waits for a whole round.
 * A failure that every node would meet alike (no such image, no right to it, wrong platform) closes the window as long as such
 * failures are not outnumbered by successes; any other failure is one bad node's own and changes nothing. While a node gets no Pod
 * of the image none would elsewhere: a quota is used up, or nobody makes Pods.
 */
export function pullWindow(rampUp: RampUp, { warm, common, overdue }: Tally): number {
  if (overdue > 0) return 0;
  if (common > 0 && common >= warm) return 0;
  // SeedThenAll without a seed to wait for is Immediate.
  return rampUp === 'SlowStart' ? 1 + warm : Number.POSITIVE_INFINITY;
}
