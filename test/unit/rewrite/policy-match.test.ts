import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { inOrder, pickPolicy, readPolicy } from '../../../src/rewrite/policy-match.js';
import { makePolicy } from './builders.js';

const reference = { registry: 'r.example', repository: 'team/app', tag: 'v1' };

describe('pickPolicy', () => {
  test.each([
    ['a policy without match takes everything', {}, {}, 'p'],
    ['a namespace selector that matches', { match: { namespaceSelector: { matchLabels: { team: 'a' } } } }, { team: 'a' }, 'p'],
    [
      'a namespace selector that does not match',
      { match: { namespaceSelector: { matchLabels: { team: 'a' } } } },
      { team: 'b' },
      undefined,
    ],
    [
      'NotIn holds for an absent label',
      { match: { namespaceSelector: { matchExpressions: [{ key: 'x', operator: 'NotIn', values: ['1'] }] } } },
      {},
      'p',
    ],
    ['images that match', { match: { images: ['r.example/**'] } }, {}, 'p'],
    ['images that do not match', { match: { images: ['other.example/**'] } }, {}, undefined],
    [
      'an exclude wins over its images',
      { match: { images: ['r.example/**'], excludeImages: ['r.example/team/*'] } },
      {},
      undefined,
    ],
    ['an exclude of something else does not matter', { match: { excludeImages: ['r.example/other/*'] } }, {}, 'p'],
    ['an empty list of images takes nothing', { match: { images: [] } }, {}, undefined],
  ])('%s', (_, spec, labels, want) => {
    expect(pickPolicy([makePolicy('p', spec)], labels, reference)?.name).toBe(want);
  });

  test('the highest priority decides, ties go to the first name', () => {
    const policies = [
      makePolicy('c', { priority: 1 }),
      makePolicy('b', { priority: 5 }),
      makePolicy('a', { priority: 1 }),
      makePolicy('0', { priority: -1 }),
    ];
    expect(inOrder(policies).map((p) => p.name)).toEqual(['b', 'a', 'c', '0']);
    expect(pickPolicy(inOrder(policies), {}, reference)?.name).toBe('b');
  });

  const lists = fc
    .uniqueArray(fc.tuple(fc.string({ minLength: 1, maxLength: 3 }), fc.integer({ min: -2, max: 2 })), {
      selector: ([n]) => n,
      maxLength: 8,
    })
    .map((list) => list.map(([name, priority]) => makePolicy(name, { priority })));
  const twoOrders = lists.chain((list) =>
    fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length })),
  );

  test('the order is total: it does not depend on the order of arrival', () => {
    fc.assert(
      fc.property(twoOrders, ([list, shuffled]) =>
        expect(inOrder(shuffled).map((p) => p.name)).toEqual(inOrder(list).map((p) => p.name)),
      ),
    );
  });

  test('the order is stable: a policy that goes, or that does not match, leaves the order of the others', () => {
    fc.assert(
      fc.property(lists, fc.nat(), (list, n) => {
        const gone = list[n % Math.max(1, list.length)]?.name;
        const rest = inOrder(list.filter((p) => p.name !== gone)).map((p) => p.name);
        expect(rest).toEqual(
          inOrder(list)
            .map((p) => p.name)
            .filter((name) => name !== gone),
        );
        const [first] = inOrder(list);
        expect(pickPolicy(inOrder(list), {}, reference)?.name).toBe(first?.name);
      }),
    );
  });

  test('no policy of a lower priority, nor a later name of the same one, decides where another one matches', () => {
    fc.assert(
      fc.property(lists, (list) => {
        const picked = pickPolicy(inOrder(list), {}, reference);
        for (const other of list) {
          if (picked === undefined) throw new Error('none was picked');
          const before = other.spec.priority - picked.spec.priority || (other.name < picked.name ? 1 : 0);
          expect(before).toBeLessThanOrEqual(0);
        }
      }),
    );
  });
});

describe('readPolicy', () => {
  const variants = [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }];
  test.each([
    [
      'an operator that does not exist',
      { variants, match: { namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Contains' }] } } },
      /matchExpressions/,
    ],
    [
      'an operator without its values',
      { variants, match: { namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } } },
      /needs values/,
    ],
    [
      'values that Exists does not take',
      { variants, match: { namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['x'] }] } } },
      /takes no values/,
    ],
    ['a key that is none', { variants, match: { namespaceSelector: { matchLabels: { 'a b': 'c' } } } }, /not a label key/],
    ['a value that is none', { variants, match: { namespaceSelector: { matchLabels: { a: 'b c' } } } }, /not a label value/],
    ['a bad image pattern', { variants, match: { images: ['a b'] } }, /white space/],
    ['a bad exclude', { variants, match: { excludeImages: ['a***'] } }, /two stars/],
    ['no variants', { variants: [] }, /variants/],
    ['no spec', undefined, /spec/],
  ])('%s makes the policy ignored with a text that names it', (_, spec, want) => {
    const reading = readPolicy({ metadata: { name: 'bad' }, spec });
    expect(reading).toMatchObject({ ok: false, name: 'bad' });
    expect(reading.ok ? '' : reading.problem).toMatch(/^AccelerationPolicy bad is ignored: /);
    expect(reading.ok ? '' : reading.problem).toMatch(want);
  });

  test('a good one is read with its defaults', () => {
    expect(makePolicy('p').spec).toMatchObject({ mode: 'Enforce', priority: 0, freshness: 'Exact', output: 'Digest' });
  });
});
