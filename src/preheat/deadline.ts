/** Rates and floors from which times are derived; see `budgets` of the configuration. */
export interface Rates {
  assumedPullMiBPerSecond: number;
  minDeadlineSeconds: number;
}

/** Unpacking writes several times the compressed bytes; a pull that takes this many times the assumed time is not slow but stuck. */
const SLACK = 4;

/** How long one node is expected to take for one image, ms. */
export function expectedPullMs(bytes: number, rates: Rates): number {
  return Math.ceil((bytes / (rates.assumedPullMiBPerSecond * 2 ** 20)) * 1000);
}

/** How long one pull may take before it counts as stuck, ms; never below the floor, since size may be unknown. */
export function pullDeadlineMs(bytes: number, rates: Rates): number {
  return Math.max(rates.minDeadlineSeconds * 1000, expectedPullMs(bytes, rates) * SLACK);
}

/**
 * How long a prewarm may take from its first pull on, ms: every node pulls all images one after the other, and nodes go in
 * waves of `concurrency`.
 */
export function prewarmDeadlineMs(demand: { bytesPerNode: number; nodes: number; concurrency: number }, rates: Rates): number {
  const waves = Math.max(1, Math.ceil(demand.nodes / Math.max(1, demand.concurrency)));
  return Math.max(rates.minDeadlineSeconds * 1000, expectedPullMs(demand.bytesPerNode, rates) * SLACK * waves);
}

export interface Remaining {
  /** Pulls under way, with the time each has run in ms. */
  runningMs: readonly number[];
  /** Pulls that have not begun. */
  waiting: number;
  concurrency: number;
  bytes: number;
  /** How long finished pulls of this image took, ms; what was seen beats what is assumed. */
  seenMs: readonly number[];
}

/** Estimated ms until all are warm: what is left of the running wave, and the waves behind it. Never negative. */
export function remainingMs(left: Remaining, rates: Rates): number {
  if (left.runningMs.length + left.waiting === 0) return 0;
  const seen = [...left.seenMs].sort((a, b) => a - b);
  const expected = seen[Math.floor(seen.length / 2)] ?? Math.max(1000, expectedPullMs(left.bytes, rates));
  // A pull that runs longer than expected is assumed to need another tenth: an estimate that says "0s" for minutes is no help.
  const running = left.runningMs.map((ms) => Math.max(expected - ms, expected / 10));
  const waves = Math.ceil(left.waiting / Math.max(1, left.concurrency));
  return Math.round(Math.max(0, ...running) + waves * expected);
}
