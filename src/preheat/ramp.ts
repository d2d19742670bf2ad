import type { ImagePrewarmSpec } from '../api/kinds/image-prewarm.js';
import { COMMON_FAILURES } from '../api/reasons.js';
import type { PullState } from './evidence.js';

export type RampUp = NonNullable<ImagePrewarmSpec['pull']>['rampUp'];

/**
 * How many nodes may pull one image at once, judged by what became of it elsewhere.
 * SlowStart: one node first; each success widens the window by one, so it doubles per round and never waits for a whole round.
 * A failure that every node would meet alike (no such image, no right to it, wrong platform) closes the window as long as such
 * failures are not outnumbered by successes; any other failure is one bad node's own and changes nothing.
 * @param states the image on all nodes where it was tried
 */
export function pullWindow(rampUp: RampUp, states: Iterable<PullState>): number {
  let warm = 0;
  let common = 0;
  for (const { state, reason } of states) {
    if (state === 'warm') warm += 1;
    if (state === 'failed' && reason !== undefined && COMMON_FAILURES.has(reason)) common += 1;
  }
  if (common > 0 && common >= warm) return 0;
  // SeedThenAll without a seed to wait for is Immediate.
  return rampUp === 'SlowStart' ? 1 + warm : Number.POSITIVE_INFINITY;
}
