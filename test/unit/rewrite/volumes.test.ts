import { describe, expect, test } from '@jest/globals';
import { ANNOTATION } from '../../../src/api/names.js';
import type { Answer } from '../../../src/rewrite/decide.js';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { buildPatch } from '../../../src/rewrite/patch.js';
import type { RawPod } from './builders.js';
import { DIGEST, OTHER, makePod, makePolicy, makeRecord, makeSituation } from './builders.js';

const APP = 'r.example/app:v1';
const DATA = 'r.example/data:v1';
const PINNED = `r.example/data@${DIGEST}`;
const records = [makeRecord(DATA, PINNED)];
const none = new Map<string, Answer>();

/** A Pod with one container, an ordinary volume and image volume `set`. */
function podOf(image: Record<string, unknown>, metadata: Record<string, unknown> = {}): RawPod {
  return makePod({ app: APP }, metadata, {
    volumes: [
      { name: 'tmp', emptyDir: {} },
      { name: 'set', image },
    ],
  });
}

const opsOf = (pod: RawPod, parts: Parameters<typeof makeSituation>[1]): unknown[] => {
  const situation = makeSituation(pod, parts);
  return buildPatch(situation.pod, decide(situation, none));
};

describe('image volumes', () => {
  test('one that was warmed for the gang gets the recorded digest, and nothing else of it changes', () => {
    const situation = makeSituation(podOf({ reference: DATA, pullPolicy: 'Always' }), { records });
    const verdicts = decide(situation, none);
    expect(verdicts.map((v) => v.decision)).toMatchObject([
      { container: 'app', outcome: 'no-policy' },
      { container: 'volume/set', source: DATA, outcome: 'pinned', image: PINNED, prewarm: 'team/gang' },
    ]);
    expect(buildPatch(situation.pod, verdicts)[0]).toEqual({
      op: 'replace',
      path: '/spec/volumes/1/image/reference',
      value: PINNED,
    });
  });

  test('one without a record is no matter of ours: no decision, and no policy is asked', () => {
    const situation = makeSituation(podOf({ reference: DATA }), { policies: [makePolicy('p')] });
    expect(questionsOf(situation).map((q) => q.key)).toEqual([`p/1 ${APP}  -`]);
    expect(decide(situation, none).map((v) => v.decision.container)).toEqual(['app']);
  });

  test('a second call of the rewritten Pod changes nothing', () => {
    const first = decide(makeSituation(podOf({ reference: DATA }), { records }), none);
    const annotations = { [ANNOTATION.decisions]: JSON.stringify(first.map((v) => v.decision)) };
    expect(opsOf(podOf({ reference: PINNED }, { annotations }), { records })).toEqual([]);
  });

  test.each<[string, Record<string, unknown>, Record<string, unknown>, string]>([
    ['pull policy Never', { reference: DATA, pullPolicy: 'Never' }, {}, 'skipped-pull-never'],
    ['an opt-out by name', { reference: DATA }, { [ANNOTATION.skipContainers]: 'volume/set' }, 'skipped-container'],
    ['the recorded digest, written by the user', { reference: PINNED }, {}, 'already-accelerated'],
  ])('%s leaves it alone', (_, image, annotations, outcome) => {
    const situation = makeSituation(podOf(image, { annotations }), { records });
    const verdict = decide(situation, none).find((v) => v.container.kind === 'volume');
    expect(verdict?.decision).toMatchObject({ outcome, image: image['reference'] });
  });

  test.each([
    ['another image', { reference: `r.example/other@${OTHER}` }],
    ['no reference', {}],
    ['an empty reference', { reference: '' }],
    ['a reference that is no name', { reference: 'A B' }],
    ['a reference that is no text', { reference: 7 }],
  ])('%s is left to the API server', (_, image) => {
    const situation = makeSituation(podOf(image), { records });
    expect(decide(situation, none).map((v) => v.decision.container)).toEqual(['app']);
  });
});
