import type { ImagePrewarmSpec } from '../api/kinds/image-prewarm.js';
import { COMMON_FAILURES } from '../api/reasons.js';
import { FAILING_FREE } from './budgets.js';
import type { PullState } from './evidence.js';

export type RampUp = NonNullable<ImagePrewarmSpec['pull']>['rampUp'];

/** What became of one image on all nodes where it was tried. */
export interface Tally {
  warm: number;
  /** Pulls under way that do not stall. */
  live: number;
  /** Failures that every node would meet alike. */
  common: number;
  /** Nodes that failed and on which a pull may begin again by itself. */
  mayBegin: number;
  /** Nodes that get no Pod, for a reason that the others share. */
  overdue: number;
}

export function tallyOf(states: Iterable<PullState>): Tally {
  const tally = { warm: 0, live: 0, common: 0, mayBegin: 0, overdue: 0 };
  for (const { state, reason, inFlight, stalled, mayBegin, overdue } of states) {
    if (overdue === true) tally.overdue += 1;
    if (mayBegin === true) tally.mayBegin += 1;
    if (state === 'warm') tally.warm += 1;
    if (state === 'pulling' && inFlight && stalled === undefined) tally.live += 1;
    if (state === 'failed' && reason !== undefined && COMMON_FAILURES.has(reason)) tally.common += 1;
  }
  return tally;
}

/** Whether an image fails in a way that every node would meet alike: such failures are not outnumbered by successes. */
export function failsEverywhere({ warm, common }: Tally): boolean {
  return common > 0 && common >= warm;
}

/**
 * How many nodes may pull one image at once, judged by what became of it elsewhere.
 * SlowStart: one node first; each success widens the window by one, so it doubles per round and never waits for a whole round.
 * SeedThenAll: one node first, and all others once it can serve them (mirrors between nodes).
 * A failure that every node would meet alike (no such image, no right to it, wrong platform) closes the window as long as such
 * failures are not outnumbered by successes; any other failure is one bad node's own and changes nothing, until FAILING_FREE more
 * nodes fail than succeed: that is no matter of nodes any more, and each further one would only come back by itself with the
 * others. The first success opens the window again. While a node gets no Pod of the image none would elsewhere: a quota is used
 * up, or nobody makes Pods.
 */
export function pullWindow(rampUp: RampUp, tally: Tally): number {
  if (tally.overdue > 0 || failsEverywhere(tally) || tally.mayBegin >= tally.warm + FAILING_FREE) return 0;
  if (rampUp === 'SlowStart') return 1 + tally.warm;
  return rampUp === 'SeedThenAll' && tally.warm === 0 ? 1 : Number.POSITIVE_INFINITY;
}
