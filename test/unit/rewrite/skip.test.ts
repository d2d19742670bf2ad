import { describe, expect, test } from '@jest/globals';
import { skipContainer, skippedNames, skipPod } from '../../../src/rewrite/skip.js';
import { makePod, mustView } from './builders.js';

const ns = (annotations: Record<string, string> = {}) => ({ name: 'team', labels: {}, annotations });

describe('skipPod', () => {
  test.each<[string, Record<string, unknown>, Record<string, string>, string | undefined]>([
    ['an ordinary Pod is not skipped', {}, {}, undefined],
    ['the Pod opts out', { annotations: { 'harbinger.dev/accelerate': 'false' } }, {}, 'skipped-opt-out'],
    ['the namespace opts out', {}, { 'harbinger.dev/accelerate': 'false' }, 'skipped-opt-out'],
    [
      'the Pod opts in again',
      { annotations: { 'harbinger.dev/accelerate': 'true' } },
      { 'harbinger.dev/accelerate': 'false' },
      undefined,
    ],
    ['another word is no opt-out', { annotations: { 'harbinger.dev/accelerate': 'maybe' } }, {}, undefined],
    ['a mirror Pod', { annotations: { 'kubernetes.io/config.mirror': 'x' } }, {}, 'skipped-mirror-pod'],
    ['a puller', { labels: { 'harbinger.dev/puller': 'abc' } }, {}, 'skipped-own-pod'],
    ['null maps', { annotations: null, labels: null }, {}, undefined],
  ])('%s', (_, metadata, annotations, want) => {
    expect(skipPod(mustView(makePod({ app: 'a' }, metadata)), ns(annotations))?.outcome).toBe(want);
  });

  test('mirror Pods and pullers must not even lose an annotation; an opt-out may', () => {
    expect(
      skipPod(mustView(makePod({ app: 'a' }, { annotations: { 'kubernetes.io/config.mirror': 'x' } })), ns())?.untouchable,
    ).toBe(true);
    expect(
      skipPod(mustView(makePod({ app: 'a' }, { annotations: { 'harbinger.dev/accelerate': 'false' } })), ns())?.untouchable,
    ).toBeUndefined();
  });
});

describe('skipContainer', () => {
  test.each<[string, string, string, string, string | undefined]>([
    ['not named', 'IfNotPresent', 'other', '', undefined],
    ['named by the Pod', 'IfNotPresent', 'x, app ,y', '', 'skipped-container'],
    ['named by the namespace', 'IfNotPresent', '', 'app', 'skipped-container'],
    ['part of a name', 'IfNotPresent', 'application', '', undefined],
    ['pull policy Never', 'Never', '', '', 'skipped-pull-never'],
    ['pull policy Always', 'Always', '', '', undefined],
  ])('%s', (...[, imagePullPolicy, own, namespace, want]) => {
    const pod = mustView({
      metadata: { annotations: { 'harbinger.dev/skip-containers': own } },
      spec: { containers: [{ name: 'app', image: 'a', imagePullPolicy }] },
    });
    const container = pod.containers[0];
    expect(
      container && skipContainer(container, skippedNames(pod, ns({ 'harbinger.dev/skip-containers': namespace })))?.outcome,
    ).toBe(want);
  });
});
