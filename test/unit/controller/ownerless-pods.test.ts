import { describe, expect, test } from '@jest/globals';
import { COLLECTED_WITHIN_MS, OwnerlessPods } from '../../../src/controller/pullers/ownerless-pods.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import { engineSteps } from '../../../src/preheat/backends/daemonset/steps.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import type { PullerSet } from '../../../src/preheat/world.js';
import { pod, puller } from '../preheat/fixtures.js';

const OPTIONS = { namespace: 'harbinger-system', program: 'p' };
const made = pullerManifest(puller(), ['n1'], OPTIONS);
const set = (uid: string): PullerSet => projectPullerSet({ ...made, metadata: { ...made.metadata, uid } });
const key = `${OPTIONS.namespace}/${puller().hash}`;
const uid = pod().ownerUid ?? '';

describe('Pods of a DaemonSet that is gone', () => {
  test.each<[string, PullerPod[], PullerSet[], string[]]>([
    ['none', [], [], []],
    ['their set is there', [pod()], [set(uid)], []],
    ['it is gone', [pod()], [], [key]],
    ['another has its name', [pod()], [set('new')], [key]],
    ['they go', [pod({ deleting: true })], [], []],
    ['nobody owns them', [{ ...pod(), ownerUid: undefined } as never], [], []],
  ])('are waited for: %s', (_, pods, sets, want) => {
    expect([...new OwnerlessPods(() => 0).look(pods, sets)]).toEqual(want);
  });

  test('are waited for no longer than a garbage collector may be away, each for itself', () => {
    let now = 0;
    const ownerless = new OwnerlessPods(() => now);
    expect(ownerless.look([pod()], []).size).toBe(1);
    now = COLLECTED_WITHIN_MS - 1;
    expect(ownerless.look([pod()], []).size).toBe(1);
    now = COLLECTED_WITHIN_MS;
    expect(ownerless.look([pod()], []).size).toBe(0);
    expect(ownerless.look([pod(), pod({ uid: 'later' })], []).size).toBe(1);
    // What is forgotten with the Pod begins anew.
    ownerless.look([], []);
    expect(ownerless.look([pod()], []).size).toBe(1);
  });

  test('keep a set from being made under its name, and from nothing else', () => {
    const wanted = new Map([[puller().hash, { puller: puller(), nodes: new Set(['n1', 'n2']) }]]);
    const steps = (sets: PullerSet[], ownerless: string[]): string[] =>
      engineSteps(wanted, sets, { ...OPTIONS, ownerless: new Set(ownerless) }).map((s) => s.do);
    expect(steps([], [])).toEqual(['create']);
    expect(steps([], [key])).toEqual([]);
    expect(steps([], [`team/${puller().hash}`])).toEqual(['create']);
    expect(steps([set('new')], [key])).toEqual(['update']);
  });
});
