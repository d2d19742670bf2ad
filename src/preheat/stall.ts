import { formatDuration, formatTime } from '../api/duration.js';
import type { Rates } from './deadline.js';
import { expectedPullMs, median } from './deadline.js';
import type { PullState } from './evidence.js';

/** Fewer finished pulls say nothing about how long one takes. */
const LEAST_SEEN = 3;
/** A pull that takes this many times the median has met something that the others did not. */
const FACTOR = 4;
/** Below this nothing is called stalled, ms: a start alone takes seconds on a busy node. */
const FLOOR_MS = 30_000;

/**
 * Marks the pulls of one image that run far longer than it took other nodes. No runtime tells bytes, so time is all there is to
 * judge by. A stalled pull stays a pull, because its bytes may flow: it keeps its share of the limits, and only its node is not
 * counted on any more.
 * @param states of one image by node; changed in place
 * @param bytes compressed bytes of the image, 0 where unknown
 */
export function markStalled(states: Map<string, PullState>, bytes: number, { rates, now }: { rates: Rates; now: number }): void {
  const seen = [...states.values()].flatMap((s) => (s.tookMs === undefined ? [] : [s.tookMs]));
  const usual = seen.length < LEAST_SEEN ? undefined : median(seen);
  if (usual === undefined) return;
  const mostMs = Math.max(FLOOR_MS, FACTOR * usual, expectedPullMs(bytes, rates));
  for (const [node, state] of states) {
    if (state.state !== 'pulling' || state.since === undefined || now - state.since <= mostMs) continue;
    // No running time in it: a text that changes by the second would be written by the second.
    const text = `has pulled since ${formatTime(state.since)}; ${seen.length} other nodes took about ${formatDuration(usual)}`;
    states.set(node, { ...state, stalled: text });
  }
}
