import { describe, expect, test } from '@jest/globals';
import type { Json } from '../../../src/api/json.js';
import { affinityOf } from '../../../src/controller/gang-nodes.js';

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
  ];
  test.each(rows)('%s', (_title, selector, terms, expected) => {
    expect(affinityOf({ selector, terms }, [], undefined)).toEqual(expected);
  });
});
