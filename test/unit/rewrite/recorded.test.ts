import { describe, expect, test } from '@jest/globals';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import type { Landing } from '../../../src/placement/landing.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { buildPatch } from '../../../src/rewrite/patch.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord, makeSituation } from './builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const PLAIN = `r.example/app@${DIGEST}`;
const none = new Map<string, never>();
const nydus = { format: 'nydus', portable: false };

const everywhere: Landing = { platforms: ['linux/amd64'], now: {}, later: {}, key: 'all' };
const plainNodes: Landing = { ...everywhere, now: { nydus: '3 nodes are not known to run nydus' }, key: 'plain' };
const laterNodes: Landing = { ...everywhere, later: { nydus: 'a node that joins later may not run nydus' }, key: 'later' };

type Parts = Parameters<typeof makeSituation>[1];
const recordOf = (more: Record<string, unknown>) => [makeRecord(SOURCE, VARIANT, 'accelerated', more)];
const decided = (parts: Parts, pod = makePod({ app: SOURCE })) => decide(makeSituation(pod, parts), none)[0]?.decision;

describe('a variant that was recorded for a gang', () => {
  const closed = [makePolicy('p', { nodePoolClosed: true })];
  const failed = (image: string): string | undefined => (image === VARIANT ? 'nodes fail to pull it' : undefined);

  test.each<[string, Record<string, unknown>, Parts, string | RegExp]>([
    ['that any node runs, on any nodes', { format: 'estargz', portable: true }, { landing: plainNodes }, VARIANT],
    ['that any node runs, where nothing is known of nodes', { format: 'estargz', portable: true }, {}, VARIANT],
    ['that all nodes of the Pod run', nydus, { landing: everywhere }, VARIANT],
    ['that a node of now does not run', nydus, { landing: plainNodes }, /3 nodes are not known to run nydus/],
    ['that a node of later may not run', nydus, { landing: laterNodes }, /joins later may not run nydus/],
    ['that a node of later may not run, of a closed pool', nydus, { landing: laterNodes, policies: closed }, VARIANT],
    ['that a node of now does not run, of a closed pool', nydus, { landing: plainNodes, policies: closed }, /not known to run/],
    ['whose nodes are not known', nydus, {}, /nodes .* not known/],
    ['of which only the format is recorded', { format: 'nydus' }, { landing: plainNodes }, /not known to run nydus/],
    ['of which nothing is recorded', {}, { landing: everywhere }, /does not say which nodes run it/],
    ['of a format that this version does not know', { format: 'new', portable: 'yes' }, { landing: everywhere }, /does not say/],
    ['that nodes fail to pull', { portable: true }, { landing: everywhere, quarantined: failed }, /nodes fail to pull it/],
    ['while nodes fail to pull another', { portable: true }, { quarantined: (i) => (i === VARIANT ? undefined : 'x') }, VARIANT],
  ])('%s', (_, more, parts, want) => {
    const decision = decided({ records: recordOf(more), ...parts });
    const given = typeof want === 'string';
    expect(decision).toMatchObject({
      source: SOURCE,
      outcome: given ? 'accelerated' : 'pinned',
      image: given ? want : PLAIN,
      sourceDigest: DIGEST,
      prewarm: 'team/gang',
    });
    if (given) expect(decision?.message).toBeUndefined();
    else expect(decision?.message).toMatch(want);
  });

  test.each<[string, Parts, string]>([
    ['cannot run', { landing: plainNodes }, 'node-incapable'],
    ['cannot pull', { landing: everywhere, quarantined: () => 'failed' }, 'variant-missing'],
  ])('that nodes %s leaves the image where the record names no source digest', (_, parts, outcome) => {
    for (const digest of [undefined, 'no digest']) {
      const decision = decided({ records: recordOf({ ...nydus, digest }), ...parts });
      expect(decision).toMatchObject({ outcome, image: SOURCE, prewarm: 'team/gang' });
    }
  });

  test('keeps its format in the decision, by which failed pulls are counted', () => {
    expect(decided({ records: recordOf(nydus), landing: everywhere })?.format).toBe('nydus');
  });

  test('makes no question of its own, whatever becomes of it', () => {
    for (const landing of [everywhere, plainNodes])
      expect(questionsOf(makeSituation(makePod({ app: SOURCE }), { records: recordOf(nydus), landing }))).toEqual([]);
  });

  const volume = (records = recordOf(nydus)): string | undefined => {
    const pod = makePod({ app: 'r.example/x:v1' }, {}, { volumes: [{ name: 'data', image: { reference: SOURCE } }] });
    const situation = makeSituation(pod, { records, landing: everywhere });
    return decide(situation, none).find((v) => v.container.kind === 'volume')?.decision.image;
  };
  test('goes into image volumes only where any node runs it', () => {
    expect([volume(), volume(recordOf({ format: 'nydus', portable: true }))]).toEqual([PLAIN, VARIANT]);
  });

  describe('and written by an earlier call', () => {
    const earlier = (image: string, outcome: string, volumes?: unknown[]) => {
      const container = volumes === undefined ? 'app' : 'volume/data';
      const annotations = { [ANNOTATION.decisions]: JSON.stringify([{ container, source: SOURCE, image, outcome }]) };
      const labels = outcome === 'accelerated' ? { [LABEL.accelerated]: 'true' } : {};
      return makePod(
        { app: volumes === undefined ? image : 'r.example/x:v1' },
        { annotations, labels },
        volumes === undefined ? {} : { volumes },
      );
    };

    test('gives way to the source once it cannot be run, and the label goes with it', () => {
      const pod = earlier(VARIANT, 'accelerated');
      const gone = makeSituation(pod, { records: recordOf(nydus), landing: plainNodes });
      const ops = buildPatch(gone.pod, decide(gone, none));
      expect(ops).toContainEqual({ op: 'replace', path: '/spec/containers/0/image', value: PLAIN });
      expect(ops).toContainEqual({ op: 'remove', path: '/metadata/labels/harbinger.dev~1accelerated' });
      // Negative twin: where it still can be run, nothing of this happens.
      const same = makeSituation(pod, { records: recordOf(nydus), landing: everywhere });
      expect(buildPatch(same.pod, decide(same, none)).map((op) => op.op)).toEqual(['add']);
    });

    test('comes back under its source once it can be run again', () => {
      const situation = makeSituation(earlier(PLAIN, 'pinned'), { records: recordOf(nydus), landing: everywhere });
      expect(decide(situation, none)).toMatchObject([{ decision: { source: SOURCE, image: VARIANT }, already: false }]);
    });

    test('a volume that got the source keeps its decision', () => {
      const pod = earlier(PLAIN, 'pinned', [{ name: 'data', image: { reference: PLAIN } }]);
      const verdict = decide(makeSituation(pod, { records: recordOf(nydus) }), none).at(-1);
      expect(verdict).toMatchObject({ already: true, decision: { source: SOURCE, outcome: 'pinned', image: PLAIN } });
    });
  });
});

describe('Pods of more images than are looked at', () => {
  const many = (count: number, image: (i: number) => string) =>
    makePod(Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, image(i)])));
  const records = [makeRecord(SOURCE, PLAIN)];
  const policies = [makePolicy('p')];
  const outcomes = (pod: ReturnType<typeof many>): string[] =>
    decide(makeSituation(pod, { records, policies }), none).map((v) => v.decision.outcome);

  test('have those pinned that were recorded, and these do not count', () => {
    expect(new Set(outcomes(many(300, () => SOURCE)))).toEqual(new Set(['pinned']));
    const mixed = many(229, (i) => (i < 100 ? SOURCE : `r.example/other-${i}:v1`));
    expect([outcomes(mixed)[0], outcomes(mixed)[228]]).toEqual(['pinned', 'budget-exceeded']);
    expect(questionsOf(makeSituation(mixed, { records, policies }))).toEqual([]);
    const fewer = many(228, (i) => (i < 100 ? SOURCE : `r.example/other-${i}:v1`));
    expect(questionsOf(makeSituation(fewer, { records, policies }))).toHaveLength(128);
  });

  test('no claim gets around the limit', () => {
    const pod = many(300, (i) => `r.example/app-${i}@${OTHER}`);
    const claims = Array.from({ length: 300 }, (_, i) => ({
      container: `c${i}`,
      source: i % 2 === 0 ? SOURCE : `r.example/app-${i}:v1`,
      image: `r.example/app-${i}@${OTHER}`,
      outcome: 'pinned',
    }));
    pod.metadata['annotations'] = { [ANNOTATION.decisions]: JSON.stringify(claims) };
    expect(questionsOf(makeSituation(pod, { records, policies }))).toEqual([]);
  });
});
