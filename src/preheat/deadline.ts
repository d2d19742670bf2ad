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

/** How fast pulls of one prewarm may grow. */
export interface Growth {
  /** Most nodes at once. */
  concurrency: number;
  /** Nodes of the first wave where growth is slow; each wave that succeeds doubles it. Absent: all at once. */
  first?: number | undefined;
}

/** Rounds of pulls until `nodes` nodes were through: those in which the window still grows, and then full ones. */
export function wavesOf(nodes: number, { concurrency, first }: Growth): number {
  const most = Math.max(1, concurrency);
  let [left, waves] = [nodes, 0];
  for (let window = Math.max(1, first ?? most); window < most && left > 0; window *= 2) {
    left -= window;
    waves += 1;
  }
  return waves + Math.max(0, Math.ceil(left / most));
}

/**
 * A Pod that still waits on a Ready node has a pull that is slow, not over: runtimes give up by themselves on one that makes no
 * progress. Where the registry is the bottleneck all pulls are late together, and more of them would only make it worse. After this
 * many deadlines it is a runtime that hangs for good, and others get its place.
 */
const HANGS_AFTER = 3;

/** How long a pull that is past its deadline keeps its place in the limits, ms from its beginning. */
export function hangsAfterMs(deadlineMs: number): number {
  return deadlineMs * HANGS_AFTER;
}

/**
 * How long a prewarm may take from its first pull on, ms: every node pulls all images one after the other, and nodes go in
 * waves. A window that has to grow first takes waves too: without them a slow start would be out of time by its own rules.
 */
export function prewarmDeadlineMs(demand: { bytesPerNode: number; nodes: number } & Growth, rates: Rates): number {
  const waves = Math.max(1, wavesOf(demand.nodes, demand));
  return Math.max(rates.minDeadlineSeconds * 1000, expectedPullMs(demand.bytesPerNode, rates) * SLACK * waves);
}

export interface Remaining extends Growth {
  /** Pulls under way, with the time each has run in ms. */
  runningMs: readonly number[];
  /** Pulls that have not begun. */
  waiting: number;
  bytes: number;
  /** How long finished pulls of this image took, ms; what was seen beats what is assumed. */
  seenMs: readonly number[];
}

/** Estimated ms until all are warm: what is left of the running wave, and the waves behind it. Never negative. */
export function remainingMs(left: Remaining, rates: Rates): number {
  if (left.runningMs.length + left.waiting === 0) return 0;
  const expected = median(left.seenMs) ?? Math.max(1000, expectedPullMs(left.bytes, rates));
  // A pull that runs longer than expected is assumed to need another tenth: an estimate that says "0s" for minutes is no help.
  const running = left.runningMs.map((ms) => Math.max(expected - ms, expected / 10));
  return Math.round(Math.max(0, ...running) + wavesOf(left.waiting, left) * expected);
}

/** The middle one of some numbers, the lower of two; undefined for none. */
export function median(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) / 2)];
}
