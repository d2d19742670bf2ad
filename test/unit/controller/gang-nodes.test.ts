import { describe, expect, test } from '@jest/globals';
import type { Json } from '../../../src/api/json.js';
import { affinityOf } from '../../../src/controller/gangs/nodes.js';

const has = (key: string): Json => ({ matchExpressions: [{ key, operator: 'Exists' }] });
const POOL = { key: 'pool', operator: 'In', values: ['a'] };

describe('terms of a Pod template', () => {
  const rows: [string, Record<string, string>, Json[] | undefined, unknown][] = [
    ['nothing asked for is any node', {}, undefined, undefined],
    ['a term without requirements gains none of the node selector', { pool: 'a' }, [{}], []],
    [
      'and leaves the others as they are',
      { pool: 'a' },
      [{}, has('x')],
      [{ matchExpressions: [POOL, { key: 'x', operator: 'Exists' }] }],
    ],
    [
      'of too many terms none is dropped: all of them are',
      { pool: 'a' },
      Array.from({ length: 21 }, (_, i) => has(`k${i}`)),
      [{ matchExpressions: [POOL] }],
    ],
    [
      'of too many requirements the first are kept',
      {},
      [{ matchExpressions: Array.from({ length: 60 }, (_, i) => ({ key: `k${i}`, operator: 'Exists' })) }],
      [{ matchExpressions: Array.from({ length: 50 }, (_, i) => ({ key: `k${i}`, operator: 'Exists' })) }],
    ],
    [
      'a requirement of too many values is left out, and the others of its term stay',
      { pool: 'a' },
      [{ matchExpressions: [{ key: 'x', operator: 'NotIn', values: Array.from({ length: 1_001 }, (_, i) => `v${i}`) }] }],
      [{ matchExpressions: [POOL] }],
    ],
    [
      'terms that no plan could weigh are none',
      { pool: 'a' },
      Array.from({ length: 20 }, (_, t) => ({
        matchExpressions: Array.from({ length: 40 }, (_, i) => ({ key: `k${t}-${i}`, operator: 'Exists' })),
      })),
      undefined,
    ],
  ];
  test.each(rows)('%s', (_title, selector, terms, expected) => {
    expect(affinityOf({ selector, terms }, [], undefined)).toEqual(expected);
  });
});
