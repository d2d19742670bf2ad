/**
 * The value that at least `share` (0 to 1] of the samples do not exceed: nearest rank, so always one that was measured and never
 * one between two. Throws without samples, because a percentile of nothing would pass for a good one.
 */
export function percentile(samples: readonly number[], share: number): number {
  if (!(share > 0 && share <= 1)) throw new Error(`a percentile is of a share in (0, 1], not of ${share}`);
  const sorted = [...samples].sort((a, b) => a - b);
  const value = sorted[Math.ceil(share * sorted.length) - 1];
  if (value === undefined) throw new Error('a percentile of no samples');
  return value;
}

export const p50 = (samples: readonly number[]): number => percentile(samples, 0.5);
export const p99 = (samples: readonly number[]): number => percentile(samples, 0.99);
