import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { patchProblem } from '../../../src/rewrite/applies.js';
import type { PodView } from '../../../src/rewrite/pod-view.js';
import { viewPod } from '../../../src/rewrite/pod-view.js';
import type { Verdict } from '../../../src/rewrite/situation.js';
import { MAX_STEERED, recordedImages, steerOps } from '../../../src/rewrite/steer.js';

const view = (spec: object, labels: Record<string, string> = {}): PodView => {
  const pod = viewPod({ metadata: { labels }, spec });
  if (pod === undefined) throw new Error('no Pod');
  return pod;
};
const FIELD = 'preferredDuringSchedulingIgnoredDuringExecution';
const preferred = [
  { weight: 100, preference: { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['a', 'b'] }] } },
];
const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } };
const mine = { weight: 1, preference: { matchExpressions: [{ key: 'zone', operator: 'Exists' }] } };

describe('where a Pod is told which nodes to prefer', () => {
  const rows: [string, object, object[]][] = [
    [
      'a Pod without affinity gets one',
      {},
      [{ op: 'add', path: '/spec/affinity', value: { nodeAffinity: { [FIELD]: preferred } } }],
    ],
    [
      'null is none',
      { affinity: null },
      [{ op: 'add', path: '/spec/affinity', value: { nodeAffinity: { [FIELD]: preferred } } }],
    ],
    [
      'affinity to Pods stays',
      { affinity: { podAffinity: {} } },
      [{ op: 'add', path: '/spec/affinity/nodeAffinity', value: { [FIELD]: preferred } }],
    ],
    [
      'what is required stays',
      { affinity: { nodeAffinity: required } },
      [{ op: 'add', path: `/spec/affinity/nodeAffinity/${FIELD}`, value: preferred }],
    ],
    [
      'an empty list is none',
      { affinity: { nodeAffinity: { [FIELD]: [] } } },
      [{ op: 'add', path: `/spec/affinity/nodeAffinity/${FIELD}`, value: preferred }],
    ],
    ['a Pod that prefers nodes itself keeps that', { affinity: { nodeAffinity: { [FIELD]: [mine] } } }, []],
    ['what is no map is for the API server to refuse', { affinity: 'a' }, []],
    ['nor a list', { affinity: { nodeAffinity: [] } }, []],
  ];
  test.each(rows)('%s', (_title, spec, ops) => expect(steerOps(view(spec), ['b', 'a'])).toEqual(ops));

  test('no node is no preference, and too many are none', () => {
    const names = Array.from({ length: MAX_STEERED + 1 }, (_, i) => `n${i}`);
    expect(steerOps(view({}), [])).toEqual([]);
    expect(steerOps(view({}), names)).toEqual([]);
    expect(steerOps(view({}), names.slice(1))).toHaveLength(1);
  });
  test.each(['kueue.x-k8s.io/managed', 'kueue.x-k8s.io/pod-group-name'])(
    'Pods that Kueue groups (%s) are left alike',
    (label) => {
      expect(steerOps(view({}, { [label]: 'x' }), ['a'])).toEqual([]);
    },
  );
});

test('images count that the record gave, by digest', () => {
  const verdict = (image: string, prewarm?: string): Verdict =>
    ({ decision: { image, ...(prewarm === undefined ? {} : { prewarm }) } }) as unknown as Verdict;
  expect(recordedImages([verdict('r/a@sha256:1', 'team/p'), verdict('r/a@sha256:1', 'team/p'), verdict('r/b@sha256:2')])).toEqual(
    ['r/a@sha256:1'],
  );
});

test('property: whatever stands in a Pod, the patch applies', () => {
  const junk = fc.oneof(fc.constant(undefined), fc.constant(null), fc.jsonValue());
  const affinity = fc.oneof(
    junk,
    fc.record({ nodeAffinity: fc.oneof(junk, fc.record({ [FIELD]: junk })) }, { requiredKeys: [] }),
  );
  fc.assert(
    fc.property(affinity, (value) => {
      const pod = view(value === undefined ? {} : { affinity: value });
      expect(patchProblem(pod.raw, steerOps(pod, ['a']))).toBeUndefined();
    }),
  );
});
