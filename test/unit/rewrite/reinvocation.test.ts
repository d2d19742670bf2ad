import { describe, expect, test } from '@jest/globals';
import { ANNOTATION, LABEL } from '../../../src/api/names.js';
import type { Answer } from '../../../src/rewrite/decide.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { buildPatch } from '../../../src/rewrite/patch.js';
import { skipPod } from '../../../src/rewrite/skip.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord, makeSituation, variantOf } from './builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const policies = [makePolicy('p')];
const none = new Map<string, Answer>();
const found = new Map([variantOf(SOURCE, VARIANT)]);
const said = (outcome: Exclude<Answer['outcome'], 'accelerated'>): Map<string, Answer> =>
  new Map([[`p/1 ${SOURCE}  -`, { outcome }]]);

interface Second {
  image?: string;
  source?: string;
  outcome?: string;
  annotations?: Record<string, string>;
  labels?: Record<string, string>;
}
/** The Pod as a second call gets it: an earlier one is said to have written `image` for `source`. */
function second({ image = VARIANT, source = SOURCE, outcome = 'accelerated', annotations = {}, labels = {} }: Second = {}) {
  const claim = JSON.stringify([{ container: 'app', source, outcome, image, policy: 'p' }]);
  return makePod({ app: image }, { annotations: { [ANNOTATION.decisions]: claim, ...annotations }, labels });
}

type Parts = Parameters<typeof makeSituation>[1];
function call(pod: ReturnType<typeof makePod>, answers: ReadonlyMap<string, Answer>, parts: Parts = {}) {
  const bare = makeSituation(pod, { policies, ...parts });
  const situation = { ...bare, skip: skipPod(bare.pod, bare.namespace) };
  const verdicts = decide(situation, answers);
  return { verdicts, ops: buildPatch(situation.pod, verdicts), questions: questionsOf(situation).length };
}

const mine = { [LABEL.accelerated]: 'true' };
const putBack = { op: 'replace', path: '/spec/containers/0/image', value: SOURCE };
const unlabel = { op: 'remove', path: '/metadata/labels/harbinger.dev~1accelerated' };
const forget = { op: 'remove', path: '/metadata/annotations/harbinger.dev~1decisions' };

describe('a second call whose registry does not answer', () => {
  test.each<[string, Map<string, Answer>, string]>([
    ['in time', none, 'budget-exceeded'],
    ['but with an error', said('registry-error'), 'registry-error'],
    ['and is not asked any more', said('circuit-open'), 'circuit-open'],
    ['because it denies', said('auth-denied'), 'auth-denied'],
  ])('%s keeps source and image of the first, and says so', (_, answers, because) => {
    const { verdicts, ops } = call(second({ labels: mine }), answers);
    expect(verdicts).toMatchObject([
      {
        already: true,
        unconfirmed: because,
        decision: { source: SOURCE, image: VARIANT, outcome: 'accelerated', message: expect.stringContaining('not confirmed') },
      },
    ]);
    expect(verdicts[0]?.decision.message).toMatch(`(${because}): the image is left as it stands`);
    expect(ops.map((op) => op.path)).toEqual(['/metadata/annotations/harbinger.dev~1decisions']);
  });

  test("is not the one whose registry says no: then the image counts as the user's own", () => {
    const { verdicts } = call(second(), said('variant-missing'));
    expect(verdicts).toMatchObject([{ decision: { source: VARIANT, image: VARIANT } }]);
    expect(verdicts[0]?.unconfirmed).toBeUndefined();
  });

  test('asks about both images, so that a refuted claim is judged at once', () => {
    expect(call(second(), none).questions).toBe(2);
  });

  test('keeps what a third call would keep', () => {
    const first = call(second(), none).verdicts[0]?.decision;
    const pod = makePod({ app: VARIANT }, { annotations: { [ANNOTATION.decisions]: JSON.stringify([first]) } });
    expect(call(pod, none).ops).toEqual([]);
  });

  test.each<[string, Second]>([
    ['of an image in another registry', { image: `evil.example/app@${OTHER}` }],
    ['of an image by tag, which no policy has written', { image: 'r.example/app:evil' }],
    ['of an outcome that changes no image', { outcome: 'already-accelerated' }],
    ['of no outcome', { outcome: '' }],
    ['of a source that is none', { source: 'No Image' }],
    ['of a source that no policy is about', { source: 'r.example/other:v1' }],
  ])('does not keep a claim %s', (_, parts) => {
    const { verdicts } = call(second(parts), none, { policies: [makePolicy('p', { match: { images: ['r.example/app'] } })] });
    const image = parts.image ?? VARIANT;
    expect(verdicts).toMatchObject([{ decision: { source: image, image } }]);
    expect(verdicts[0]?.decision.outcome).not.toBe('accelerated');
  });

  test('keeps a tag where a policy has tags written', () => {
    const { verdicts } = call(second({ image: 'r.example/app:v1-esgz' }), none, {
      policies: [makePolicy('p', { output: 'Tag' })],
    });
    expect(verdicts).toMatchObject([{ decision: { source: SOURCE, image: 'r.example/app:v1-esgz' } }]);
  });

  test('a forged claim changes no image and earns no label', () => {
    const { ops, verdicts } = call(second({ image: `r.example/evil@${DIGEST}` }), none);
    expect(ops.map((op) => op.path)).toEqual(['/metadata/annotations/harbinger.dev~1decisions']);
    expect(verdicts[0]?.decision.message).toContain('claimed by the annotation');
    // Positive control: a confirmed one has the label, also where it was lost.
    expect(call(second(), found).ops.map((op) => op.path)).toContain('/metadata/labels/harbinger.dev~1accelerated');
  });

  test('a forged claim does not keep a member of a gang from its record', () => {
    const source = `r.example/app@${DIGEST}`;
    const records = [makeRecord(source, VARIANT, 'accelerated', { portable: true })];
    const { verdicts } = call(second({ image: source, source: 'r.example/slow:v1' }), none, { records });
    expect(verdicts).toMatchObject([{ decision: { source, image: VARIANT, prewarm: 'team/gang' } }]);
  });
});

describe('an opt-out that came between two calls', () => {
  const out = { [ANNOTATION.accelerate]: 'false' };
  const named = { [ANNOTATION.skipContainers]: 'app' };

  test('of the Pod brings the source back, and takes label and annotation away', () => {
    expect(call(second({ annotations: out, labels: mine }), found).ops).toEqual([putBack, forget, unlabel]);
  });

  test('of the container brings the source back, takes the label away, and is told', () => {
    const { ops, verdicts } = call(second({ annotations: named, labels: mine }), found);
    expect([ops[0], ops[2]]).toEqual([putBack, unlabel]);
    expect(verdicts).toMatchObject([{ decision: { outcome: 'skipped-container', source: SOURCE, image: SOURCE } }]);
    const annotations = { ...named, [ANNOTATION.decisions]: JSON.stringify(verdicts.map((v) => v.decision)) };
    expect(call(makePod({ app: SOURCE }, { annotations, labels: {} }), found).ops).toEqual([]);
  });

  test('of one container leaves the label for the other', () => {
    const pod = second({ annotations: named, labels: mine });
    (pod.spec['containers'] as unknown[]).push({ name: 'other', image: SOURCE });
    const { ops } = call(pod, found);
    expect(ops).toContainEqual(putBack);
    expect(ops).not.toContainEqual(unlabel);
  });

  test('takes the pin of a gang back too, and no label that is not ours', () => {
    const pinned = `r.example/app@${DIGEST}`;
    const records = [makeRecord(SOURCE, pinned)];
    const pod = second({ image: pinned, outcome: 'pinned', annotations: out, labels: mine });
    expect(call(pod, none, { records }).ops).toEqual([putBack, forget]);
  });

  test('keeps a label of another value', () => {
    const labels = { [LABEL.accelerated]: 'mine' };
    expect(call(second({ annotations: out, labels }), found).ops).toEqual([putBack, forget]);
  });

  test.each([
    ['the Pod', out],
    ['the container', named],
  ])('of %s changes no image where the claim is refuted', (_, annotations) => {
    const { ops } = call(second({ annotations }), said('variant-missing'));
    expect(ops.filter((op) => op.path.startsWith('/spec'))).toEqual([]);
  });

  test.each([
    ['the Pod', out],
    ['the container', named],
  ])('of %s keeps image, source and label where nobody can confirm the claim', (_, annotations) => {
    const { ops, verdicts } = call(second({ annotations, labels: mine }), none);
    expect(ops.map((op) => op.path)).toEqual(['/metadata/annotations/harbinger.dev~1decisions']);
    expect(verdicts).toMatchObject([{ decision: { source: SOURCE, image: VARIANT, outcome: 'accelerated' } }]);
    expect(verdicts[0]?.decision.message).toMatch(/annotat.*; claimed by the annotation and not confirmed/);
  });

  test('without an earlier call is asked nothing about', () => {
    const { ops, questions, verdicts } = call(makePod({ app: SOURCE }, { annotations: out }), none);
    expect([ops, questions, verdicts]).toEqual([[], 0, []]);
  });
});
