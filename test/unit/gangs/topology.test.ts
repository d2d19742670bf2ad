import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { nodeAssignment } from '../../../src/gangs/topology.js';

const HOST = 'kubernetes.io/hostname';
const list = (...roots: string[]) => ({ individual: { roots } });

describe('a topology assignment', () => {
  test.each<[string, unknown, unknown]>([
    [
      'of v1beta1 is read as it stands',
      {
        levels: ['block', 'rack'],
        domains: [
          { values: ['b1', 'r1'], count: 4 },
          { values: ['b1', 'r2'], count: 2 },
        ],
      },
      {
        levels: ['block', 'rack'],
        domains: [
          { values: ['b1', 'r1'], count: 4 },
          { values: ['b1', 'r2'], count: 2 },
        ],
      },
    ],
    [
      'of v1beta2 as Kueue wrote it on a real cluster: six hosts with a prefix in common',
      {
        levels: [HOST],
        slices: [
          {
            domainCount: 3,
            podCounts: { universal: 1 },
            valuesPerLevel: [{ individual: { prefix: 'gpu-', roots: ['1', '2', '12'] } }],
          },
        ],
      },
      { levels: [HOST], domains: ['gpu-1', 'gpu-2', 'gpu-12'].map((v) => ({ values: [v], count: 1 })) },
    ],
    [
      'of several levels, one of them the same in all domains, with a suffix and counts of their own',
      {
        levels: ['block', 'rack'],
        slices: [
          {
            domainCount: 2,
            podCounts: { individual: [3, 5] },
            valuesPerLevel: [{ universal: 'b1' }, { individual: { roots: ['r1', 'r2'], suffix: '.dc' } }],
          },
        ],
      },
      {
        levels: ['block', 'rack'],
        domains: [
          { values: ['b1', 'r1.dc'], count: 3 },
          { values: ['b1', 'r2.dc'], count: 5 },
        ],
      },
    ],
    [
      'of several slices is that of all of them',
      {
        levels: [HOST],
        slices: [
          { domainCount: 1, podCounts: { universal: 2 }, valuesPerLevel: [list('a')] },
          { domainCount: 1, podCounts: { universal: 1 }, valuesPerLevel: [list('b')] },
        ],
      },
      {
        levels: [HOST],
        domains: [
          { values: ['a'], count: 2 },
          { values: ['b'], count: 1 },
        ],
      },
    ],
    [
      'whose root is empty names its domain by prefix and suffix',
      {
        levels: [HOST],
        slices: [
          { domainCount: 2, podCounts: { universal: 1 }, valuesPerLevel: [{ individual: { prefix: 'n', roots: ['', '1'] } }] },
        ],
      },
      {
        levels: [HOST],
        domains: [
          { values: ['n'], count: 1 },
          { values: ['n1'], count: 1 },
        ],
      },
    ],
    ['that is absent is none', undefined, undefined],
    ['without levels is none', { levels: [], domains: [{ values: [], count: 1 }] }, undefined],
    ['without domains is none', { levels: [HOST], domains: [] }, undefined],
    [
      'with more values than levels contradicts itself',
      { levels: [HOST], domains: [{ values: ['a', 'b'], count: 1 }] },
      undefined,
    ],
    [
      'with fewer roots than domains contradicts itself',
      { levels: [HOST], slices: [{ domainCount: 3, podCounts: { universal: 1 }, valuesPerLevel: [list('a', 'b')] }] },
      undefined,
    ],
    [
      'with fewer levels in a slice contradicts itself',
      { levels: ['block', HOST], slices: [{ domainCount: 1, podCounts: { universal: 1 }, valuesPerLevel: [list('a')] }] },
      undefined,
    ],
    [
      'whose value is longer than any label is none',
      { levels: [HOST], domains: [{ values: ['x'.repeat(254)], count: 1 }] },
      undefined,
    ],
    ['with levels that are no texts is none', { levels: [7], domains: [{ values: ['a'], count: 1 }] }, undefined],
  ])('%s', (_, raw, want) => {
    expect(nodeAssignment(raw)).toEqual(want);
  });

  test('that claims a thousand million domains in a few bytes is read to 5,000 and no further', () => {
    const slice = { domainCount: 1e9, podCounts: { universal: 1 }, valuesPerLevel: [{ universal: 'a' }] };
    const began = process.hrtime.bigint();
    const read = nodeAssignment({ levels: [HOST], slices: Array.from({ length: 1000 }, () => slice) });
    expect(read?.domains).toHaveLength(5_000);
    expect(Number(process.hrtime.bigint() - began) / 1e6).toBeLessThan(2_000);
  });

  test('is never an exception, whatever JSON stands there', () => {
    const shapes = fc.oneof(
      fc.jsonValue(),
      fc.record({
        levels: fc.array(fc.jsonValue(), { maxLength: 3 }),
        slices: fc.array(
          fc.record({ domainCount: fc.jsonValue(), podCounts: fc.jsonValue(), valuesPerLevel: fc.array(fc.jsonValue()) }),
        ),
      }),
    );
    fc.assert(fc.property(shapes, (raw) => void nodeAssignment(raw)));
  });
});
