import { describe, expect, test } from '@jest/globals';
import { ANNOTATION } from '../../../src/api/names.js';
import type { Answer } from '../../../src/rewrite/decide.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord, makeSituation, variantOf } from './builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const PINNED = `r.example/app@${DIGEST}`;
const policies = [makePolicy('p')];
const none = new Map<string, Answer>();
const found = new Map([variantOf(SOURCE, VARIANT)]);

function one(image: string, parts: Parameters<typeof makeSituation>[1], answers: ReadonlyMap<string, Answer>, metadata = {}) {
  return decide(makeSituation(makePod({ app: image }, metadata), parts), answers)[0];
}

describe('decide', () => {
  test('a variant is written', () => {
    expect(one(SOURCE, { policies }, found)).toEqual({
      already: false,
      container: expect.objectContaining({ pointer: '/spec/containers/0/image' }),
      decision: {
        container: 'app',
        source: SOURCE,
        outcome: 'accelerated',
        image: VARIANT,
        policy: 'p',
        format: 'estargz',
        sourceDigest: DIGEST,
      },
    });
  });

  test.each<[string, Answer | undefined, Record<string, unknown>, string]>([
    ['no answer within the budget', undefined, {}, 'budget-exceeded'],
    ['no record of the source', { outcome: 'freshness-unknown', message: 'why' }, {}, 'freshness-unknown'],
    ['no variant', { outcome: 'variant-missing' }, {}, 'variant-missing'],
    ['a registry that is down', { outcome: 'registry-error' }, {}, 'registry-error'],
    ['a variant that the user wrote', { outcome: 'accelerated', image: SOURCE }, {}, 'already-accelerated'],
    ['a policy that only audits', { outcome: 'accelerated', image: VARIANT }, { mode: 'Audit' }, 'skipped-audit'],
  ])('%s leaves the image alone', (_, answer, spec, want) => {
    const answers = new Map(answer === undefined ? [] : [[`p/1 ${SOURCE}  -`, answer] as const]);
    const verdict = one(SOURCE, { policies: [makePolicy('p', spec)] }, answers);
    expect(verdict?.decision).toMatchObject({ outcome: want, image: SOURCE, source: SOURCE });
  });

  test('Audit names the image that would have been', () => {
    expect(one(SOURCE, { policies: [makePolicy('p', { mode: 'Audit' })] }, found)?.decision.message).toContain(VARIANT);
  });

  test('no policy, no question, no change', () => {
    const situation = makeSituation(makePod({ app: SOURCE }));
    expect(questionsOf(situation)).toEqual([]);
    expect(decide(situation, none)[0]?.decision).toEqual({
      container: 'app',
      source: SOURCE,
      outcome: 'no-policy',
      image: SOURCE,
    });
  });

  test.each(['docker.io/Foo/bar', 'a b', 'x'.repeat(64).replaceAll('x', 'a'), ''])(
    'an unparsable image "%s" is left alone and asked nothing about',
    (image) => {
      const situation = makeSituation(makePod({ app: image, other: 'r.example/ok:v1' }), { policies });
      expect(questionsOf(situation)).toHaveLength(1);
      const decision = decide(situation, none).find((v) => v.decision.container === 'app')?.decision;
      // A container without an image is left to the API server, which has a message for it.
      expect(decision?.outcome).toBe(image === '' ? undefined : 'unparsable');
    },
  );

  test('equal images are one question', () => {
    const pod = makePod({ a: SOURCE, b: SOURCE, c: 'docker.io/library/nginx:latest', d: 'nginx' });
    expect(questionsOf(makeSituation(pod, { policies })).map((q) => q.key)).toEqual([
      `p/1 ${SOURCE}  -`,
      'p/1 docker.io/library/nginx:latest  -',
    ]);
  });

  test('init containers are asked about too', () => {
    const pod = makePod(
      { app: 'r.example/other:v1' },
      {},
      { initContainers: [{ name: 'init', image: SOURCE, restartPolicy: 'Always' }] },
    );
    const verdicts = decide(makeSituation(pod, { policies }), found);
    expect(verdicts.map((v) => [v.container.pointer, v.decision.outcome])).toEqual([
      ['/spec/initContainers/0/image', 'accelerated'],
      ['/spec/containers/0/image', 'budget-exceeded'],
    ]);
  });

  describe('records of a gang', () => {
    test('pin the digest, before any policy', () => {
      const situation = makeSituation(makePod({ app: 'r.example/app:v1' }), { policies, records: [makeRecord(SOURCE, PINNED)] });
      expect(questionsOf(situation)).toEqual([]);
      expect(decide(situation, found)[0]?.decision).toEqual({
        container: 'app',
        source: SOURCE,
        outcome: 'pinned',
        image: PINNED,
        prewarm: 'team/gang',
        sourceDigest: DIGEST,
      });
    });

    test('compare normalised images', () => {
      const verdict = one(
        'nginx',
        { records: [makeRecord('docker.io/library/nginx:latest', `docker.io/library/nginx@${DIGEST}`)] },
        none,
      );
      expect(verdict?.decision).toMatchObject({ source: 'nginx', outcome: 'pinned', image: `docker.io/library/nginx@${DIGEST}` });
    });

    test('may name a variant', () => {
      const records = [makeRecord(SOURCE, VARIANT, 'accelerated', { portable: true })];
      expect(one(SOURCE, { records }, none)?.decision.outcome).toBe('accelerated');
    });

    test('of another image change nothing', () => {
      expect(one(SOURCE, { policies, records: [makeRecord('r.example/app:v2', PINNED)] }, found)?.decision.outcome).toBe(
        'accelerated',
      );
    });

    test('that name no digest are no records', () => {
      expect(one(SOURCE, { records: [makeRecord(SOURCE, 'r.example/app:v2')] }, none)?.decision.outcome).toBe('no-policy');
    });

    test('know their own image again', () => {
      const verdict = one(PINNED, { records: [makeRecord(SOURCE, PINNED)] }, none);
      expect(verdict).toMatchObject({
        already: true,
        decision: { outcome: 'already-accelerated', image: PINNED, source: PINNED },
      });
    });
  });

  describe('an incoming decisions annotation', () => {
    const claim = (source: string, image: string): Record<string, unknown> => ({
      annotations: { [ANNOTATION.decisions]: JSON.stringify([{ container: 'app', source, outcome: 'accelerated', image }]) },
    });

    test('is confirmed where resolving its source gives the image that stands there', () => {
      const verdict = one(VARIANT, { policies }, found, claim(SOURCE, VARIANT));
      expect(verdict).toMatchObject({ already: true, decision: { source: SOURCE, image: VARIANT, outcome: 'accelerated' } });
    });

    test('is ignored where it names another image as its source', () => {
      const forged = new Map([variantOf('r.example/evil:v1', `r.example/evil@${DIGEST}`)]);
      const verdict = one(VARIANT, { policies }, forged, claim('r.example/evil:v1', VARIANT));
      expect(verdict).toMatchObject({ already: false, decision: { source: VARIANT, image: VARIANT } });
    });

    test('never brings a source back', () => {
      const verdict = one(VARIANT, { policies }, none, claim('r.example/evil:v1', VARIANT));
      expect(verdict?.decision.image).toBe(VARIANT);
    });

    test('for another image than stands there is not even asked about', () => {
      const situation = makeSituation(makePod({ app: SOURCE }, claim('r.example/evil:v1', VARIANT)), { policies });
      expect(questionsOf(situation).map((q) => q.key)).toEqual([`p/1 ${SOURCE}  -`]);
    });

    test('is confirmed by the record of the gang too', () => {
      const verdict = one(PINNED, { records: [makeRecord(SOURCE, PINNED)] }, none, claim(SOURCE, PINNED));
      expect(verdict).toMatchObject({ already: true, decision: { source: SOURCE, image: PINNED, outcome: 'pinned' } });
    });

    test.each(['not json', '{}', '[null, 1, "x", {"container": 1}]', '[{"container":"app"}]'])(
      'that is garbage (%s) changes nothing',
      (text) => {
        expect(one(SOURCE, { policies }, found, { annotations: { [ANNOTATION.decisions]: text } })?.decision.outcome).toBe(
          'accelerated',
        );
      },
    );
  });

  test.each([
    [128, 'accelerated', 1],
    [129, 'budget-exceeded', 0],
  ])('a Pod of %i images is %s', (count, want, asked) => {
    const images = Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, SOURCE]));
    const situation = makeSituation(makePod(images), { policies });
    const verdicts = decide(situation, found);
    expect([verdicts.length, new Set(verdicts.map((v) => v.decision.outcome))]).toEqual([count, new Set([want])]);
    expect(questionsOf(situation)).toHaveLength(asked);
  });
});
