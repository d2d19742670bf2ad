import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { p50, p99, percentile } from '../../../../tools/bench/percentile.js';

describe('a percentile', () => {
  test.each([
    ['of one sample is that sample', [7], 0.01, 7],
    ['of half is the lower middle', [4, 1, 3, 2], 0.5, 2],
    ['of all is the largest', [4, 1, 3, 2], 1, 4],
    ['of 99 in 100 is the last but one', Array.from({ length: 100 }, (_, i) => i + 1), 0.99, 99],
    ['of 99 in 100 of 99 samples is the largest', Array.from({ length: 99 }, (_, i) => i + 1), 0.99, 99],
    ['sorts as numbers', [10, 9, 100], 1, 100],
  ])('%s', (_, samples, share, want) => {
    expect(percentile(samples, share)).toBe(want);
  });

  test.each([
    ['no samples', [], 0.5],
    ['a share of nothing', [1], 0],
    ['percent instead of a share', [1], 99],
  ])('of %s is an error, not a good number', (_, samples, share) => {
    expect(() => percentile(samples, share)).toThrow(/percentile/);
  });

  test('is a sample that at least the share of all does not exceed, and no smaller one is', () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { minLength: 1 }), fc.double({ min: 0.01, max: 1, noNaN: true }), (samples, share) => {
        const value = percentile(samples, share);
        const atMost = (limit: number): number => samples.filter((s) => s <= limit).length;
        const smaller = samples.filter((s) => s < value);
        expect(samples).toContain(value);
        expect(atMost(value)).toBeGreaterThanOrEqual(share * samples.length);
        if (smaller.length > 0) expect(atMost(Math.max(...smaller))).toBeLessThan(share * samples.length);
      }),
    );
  });

  test('leaves its samples in their order', () => {
    const samples = [3, 1, 2];
    expect([p50(samples), p99(samples), samples]).toEqual([2, 3, [3, 1, 2]]);
  });
});
