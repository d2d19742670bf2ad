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

  test('the order does not depend on the order of arrival', () => {
    const names = fc.uniqueArray(fc.tuple(fc.string({ minLength: 1, maxLength: 3 }), fc.integer({ min: -2, max: 2 })), {
      selector: ([n]) => n,
      maxLength: 8,
    });
    fc.assert(
      fc.property(names, fc.nat(), (list, seed) => {
        const policies = list.map(([name, priority]) => makePolicy(name, { priority }));
        const turned = [...policies.slice(seed % (policies.length + 1)), ...policies.slice(0, seed % (policies.length + 1))];
        expect(inOrder(turned).map((p) => p.name)).toEqual(inOrder(policies).map((p) => p.name));
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
