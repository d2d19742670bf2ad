import { describe, expect, test } from '@jest/globals';
import { decide, questionsOf } from '../../../src/rewrite/decide.js';
import { imageOps } from '../../../src/rewrite/patch.js';
import { claimsOf } from '../../../src/rewrite/claims.js';
import { viewEphemeral } from '../../../src/rewrite/pod-view.js';
import { obstacleTo } from '../../../src/placement/landing.js';
import { OTHER, makePod, makePolicy, makeSituation, mustView, variantOf } from './builders.js';

const SOURCE = 'r.example/app:v1';
const VARIANT = `r.example/app@${OTHER}`;
const withDebuggers = (...names: string[]) =>
  makePod({ app: SOURCE }, {}, { ephemeralContainers: names.map((name) => ({ name, image: SOURCE })) });

describe('containers that kubectl debug adds', () => {
  test.each<[string, unknown, unknown, string[] | undefined]>([
    ['the first', withDebuggers('a'), withDebuggers(), ['/spec/ephemeralContainers/0/image']],
    ['one more', withDebuggers('a', 'b'), withDebuggers('a'), ['/spec/ephemeralContainers/1/image']],
    ['none', withDebuggers('a'), withDebuggers('a'), undefined],
    ['to a Pod that is not told', withDebuggers('a'), null, ['/spec/ephemeralContainers/0/image']],
    ['to no Pod', 'x', null, undefined],
    ['as no list', makePod({}, {}, { ephemeralContainers: 'x' }), null, undefined],
  ])('%s', (_, now, old, pointers) => {
    expect(viewEphemeral(now, old)?.containers.map((c) => c.pointer)).toEqual(pointers);
  });

  test('are the only ones that are changed, and get portable formats only', () => {
    const pod = viewEphemeral(withDebuggers('a', 'b'), withDebuggers('a'));
    if (pod === undefined) throw new Error('nothing was added');
    const situation = { ...makeSituation(withDebuggers(), { policies: [makePolicy('p')] }), pod };
    const [question, ...others] = questionsOf(situation);
    expect(others).toEqual([]);
    expect(obstacleTo('nydus', question?.landing, true)).toMatch(/portable formats only/);
    const [, answer] = variantOf(SOURCE, VARIANT);
    expect(imageOps(decide(situation, new Map([[question?.key ?? '', answer]])))).toEqual([
      { op: 'replace', path: '/spec/ephemeralContainers/1/image', value: VARIANT },
    ]);
  });

  test('ask another question than containers of the same image, as those may get what the nodes can run', () => {
    const volume = makePod({ app: SOURCE }, {}, { volumes: [{ name: 'v', image: { reference: SOURCE } }] });
    const keys = questionsOf(
      makeSituation(volume, { policies: [makePolicy('p')], rewrite: { owners: ['*'], imageVolumes: true } }),
    ).map((q) => q.key);
    expect(new Set(keys).size).toBe(2);
  });
});

test('of two containers with one name neither can claim a source', () => {
  const claim = JSON.stringify([{ container: 'app', source: SOURCE, image: VARIANT }]);
  const annotations = { 'harbinger.dev/decisions': claim };
  const twins = makePod({ app: VARIANT }, { annotations });
  expect(claimsOf(mustView(twins)).get('app')?.source).toBe(SOURCE);
  (twins.spec['containers'] as unknown[]).push({ name: 'app', image: VARIANT });
  expect(claimsOf(mustView(twins)).size).toBe(0);
});
