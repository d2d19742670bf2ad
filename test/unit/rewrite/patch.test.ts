import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { applyPatch } from 'rfc6902';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import type { Answer } from '../../../src/rewrite/decide.js';
import { decide } from '../../../src/rewrite/decide.js';
import type { PatchOp } from '../../../src/rewrite/patch.js';
import { MAX_ANNOTATION_BYTES, buildPatch, pointer } from '../../../src/rewrite/patch.js';
import type { RawPod } from './builders.js';
import { DIGEST, OTHER, decisionsOf, makePod, makePolicy, makeRecord, makeSituation, mustView, variantOf } from './builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const PINNED = `r.example/tool@${DIGEST}`;
const answers = new Map<string, Answer>([variantOf(SOURCE, VARIANT)]);
const parts = {
  policies: [makePolicy('p', { match: { images: ['r.example/**'] } })],
  records: [makeRecord('r.example/tool:v1', PINNED)],
};

function opsFor(pod: RawPod): PatchOp[] {
  const situation = makeSituation(pod, parts);
  return buildPatch(situation.pod, decide(situation, answers));
}

/** What the API server makes of the patch; throws where an operation does not apply. */
function mutate(pod: RawPod): RawPod {
  const copy = structuredClone(pod);
  const errors = applyPatch(copy, opsFor(pod)).filter((e) => e !== null);
  if (errors.length > 0) throw errors[0] as Error;
  return copy;
}

function imageOf(pod: RawPod, i = 0): unknown {
  return (pod.spec['containers'] as { image: unknown }[])[i]?.image;
}

describe('buildPatch', () => {
  test('replaces the image, writes the decisions and labels the Pod', () => {
    const after = mutate(makePod({ app: SOURCE }, { labels: { a: 'b' }, annotations: { c: 'd' } }));
    expect(imageOf(after)).toBe(VARIANT);
    expect(after.metadata).toMatchObject({ labels: { a: 'b', [LABEL.accelerated]: 'true' }, annotations: { c: 'd' } });
    expect(decisionsOf(after)).toEqual([
      {
        container: 'app',
        source: SOURCE,
        outcome: 'accelerated',
        image: VARIANT,
        policy: 'p',
        sourceDigest: DIGEST,
        format: 'estargz',
      },
    ]);
  });

  test('a pinned Pod has no accelerated label', () => {
    const after = mutate(makePod({ app: 'r.example/tool:v1' }));
    expect(imageOf(after)).toBe(PINNED);
    expect(after.metadata['labels']).toBeUndefined();
  });

  test.each<[string, Record<string, unknown>]>([
    ['absent', {}],
    ['null', { annotations: null, labels: null }],
    ['empty', { annotations: {}, labels: {} }],
    ['there', { annotations: { 'a/b~c': '1' }, labels: { 'x/y': '2' } }],
  ])('works where annotations and labels are %s', (_, metadata) => {
    const after = mutate(makePod({ app: SOURCE }, metadata));
    expect(decisionsOf(after)).toHaveLength(1);
    expect(after.metadata['labels']).toMatchObject({ [LABEL.accelerated]: 'true' });
  });

  test('escapes ~ and / in pointers', () => {
    expect(pointer('metadata', 'annotations', 'a/b~c')).toBe('/metadata/annotations/a~1b~0c');
  });

  test('never uses test operations', () => {
    expect(opsFor(makePod({ app: SOURCE })).map((o) => o.op)).toEqual(['replace', 'add', 'add']);
  });

  test('has no operations when everything stands there already', () => {
    expect(opsFor(mutate(makePod({ app: SOURCE, tool: 'r.example/tool:v1' })))).toEqual([]);
  });

  test('keeps a label that is there, because an owner may select by it', () => {
    const after = mutate(makePod({ app: SOURCE }, { labels: { [LABEL.accelerated]: 'mine' } }));
    expect(after.metadata['labels']).toEqual({ [LABEL.accelerated]: 'mine' });
  });

  test('leaves the decisions out where annotations would become too large', () => {
    const big = 'x'.repeat(MAX_ANNOTATION_BYTES - 100);
    const after = mutate(makePod({ app: SOURCE }, { annotations: { big } }));
    expect(imageOf(after)).toBe(VARIANT);
    expect(after.metadata['annotations']).toEqual({ big });
    const small = mutate(makePod({ app: SOURCE }, { annotations: { big: big.slice(400) } }));
    expect(decisionsOf(small)).toHaveLength(1);
  });

  test('removes foreign decisions that it cannot replace', () => {
    const big = 'x'.repeat(MAX_ANNOTATION_BYTES);
    expect(
      mutate(makePod({ app: SOURCE }, { annotations: { big, [ANNOTATION.decisions]: '[]' } })).metadata['annotations'],
    ).toEqual({ big });
  });

  test('overwrites foreign decisions', () => {
    const forged = JSON.stringify([{ container: 'app', source: 'r.example/evil:v1', outcome: 'accelerated', image: SOURCE }]);
    expect(decisionsOf(mutate(makePod({ app: SOURCE }, { annotations: { [ANNOTATION.decisions]: forged } })))).toMatchObject([
      { source: SOURCE },
    ]);
  });

  test('of a Pod about which nothing is decided, only the foreign decisions go', () => {
    expect(buildPatch(mustView(makePod({ app: SOURCE })), [])).toEqual([]);
    expect(buildPatch(mustView(makePod({ app: SOURCE }, { annotations: { [ANNOTATION.decisions]: 'x' } })), [])).toEqual([
      { op: 'remove', path: '/metadata/annotations/harbinger.dev~1decisions' },
    ]);
  });
});

describe('properties of the patch', () => {
  const image = fc.constantFrom(
    SOURCE,
    VARIANT,
    PINNED,
    'r.example/tool:v1',
    'r.example/other:v2',
    'nginx',
    'Bad/Image',
    'a b',
    'other.example/x@y',
  );
  const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>;
  const key = fc.constantFrom('a', 'a/b', 'a~b', 'example.com/x~1', ANNOTATION.skipContainers, 'z', LABEL.accelerated);
  const text = fc.oneof(fc.string({ maxLength: 20 }), fc.constantFrom('c0', 'c1, i0', 'true'));
  const map = fc.option(fc.oneof(fc.constant(null), fc.dictionary(key, text)), { nil: undefined });
  const container = fc.constantFrom('c0', 'c1', 'i0');
  const decisions = fc.option(
    fc.oneof(
      fc.string({ maxLength: 30 }),
      fc
        .array(
          fc.oneof(
            fc.record({ container, source: image, image, outcome: fc.constantFrom('accelerated', 'pinned', 'x') }),
            fc.record({
              container,
              source: fc.constant(SOURCE),
              image: fc.constant(VARIANT),
              outcome: fc.constant('accelerated'),
            }),
          ),
          { maxLength: 3 },
        )
        .map((d) => JSON.stringify(d)),
    ),
    { nil: undefined },
  );
  const containers = (prefix: string): fc.Arbitrary<unknown[]> =>
    fc
      .array(fc.record({ image, future: json, policy: fc.constantFrom('Always', 'Never', undefined) }), { maxLength: 3 })
      .map((list) =>
        list.map(({ image, future, policy }, i) => ({
          name: `${prefix}${i}`,
          image,
          future,
          ...(policy === undefined ? {} : { imagePullPolicy: policy }),
        })),
      );
  const pods = fc
    .record({
      annotations: map,
      labels: map,
      claimed: decisions,
      main: containers('c'),
      init: containers('i'),
      future: json,
      huge: fc.boolean(),
    })
    .map(({ annotations, labels, claimed, main, init, future, huge }): RawPod => {
      const more = {
        ...(claimed === undefined ? {} : { [ANNOTATION.decisions]: claimed }),
        ...(huge ? { huge: 'x'.repeat(MAX_ANNOTATION_BYTES - 150) } : {}),
      };
      const all = Object.keys(more).length > 0 ? { ...annotations, ...more } : annotations;
      const metadata = {
        name: 'p',
        future,
        ...(all === undefined ? {} : { annotations: all }),
        ...(labels === undefined ? {} : { labels }),
      };
      return { apiVersion: 'v1', kind: 'Pod', metadata, spec: { containers: main, initContainers: init, future } };
    });

  test('it always applies, and a second call changes nothing', () => {
    fc.assert(
      fc.property(pods, (pod) => {
        const once = mutate(pod);
        expect(mutate(once)).toEqual(once);
      }),
      { numRuns: 200 },
    );
  });

  test('nothing but images, the decisions and the label changes', () => {
    const strip = (pod: RawPod): unknown => {
      const copy = structuredClone(pod) as {
        metadata: Record<string, Record<string, unknown> | null>;
        spec: Record<string, { image?: unknown }[]>;
      };
      for (const list of ['containers', 'initContainers']) for (const c of copy.spec[list] ?? []) delete c.image;
      for (const [field, own] of [
        ['annotations', ANNOTATION.decisions],
        ['labels', LABEL.accelerated],
      ] as const) {
        const rest = { ...copy.metadata[field] };
        delete rest[own];
        copy.metadata[field] = rest;
      }
      return copy;
    };
    fc.assert(
      fc.property(pods, (pod) => expect(strip(mutate(pod))).toEqual(strip(pod))),
      { numRuns: 200 },
    );
  });

  test('an image becomes only what a record or an answer gave for it, or goes back to the source of exactly that', () => {
    const pairs = [
      [SOURCE, VARIANT],
      ['r.example/tool:v1', PINNED],
    ] as const;
    const seen = { given: 0, back: 0 };
    fc.assert(
      fc.property(pods, (pod) => {
        const before = pod.spec['containers'] as { image: string }[];
        const after = mutate(pod).spec['containers'] as { image: string }[];
        after.forEach(({ image }, i) => {
          const was = before[i]?.image;
          if (image === was) return;
          const given = pairs.some(([source, to]) => was === source && image === to);
          const back = pairs.some(([source, to]) => was === to && image === source);
          seen[given ? 'given' : 'back']++;
          expect({ was, image, fine: given || back }).toEqual({ was, image, fine: true });
        });
      }),
      { numRuns: 1000 },
    );
    // Positive controls: both ways were taken.
    expect([seen.given > 0, seen.back > 0]).toEqual([true, true]);
  });
});
