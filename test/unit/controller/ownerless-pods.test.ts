import { describe, expect, test } from '@jest/globals';
import { COLLECTED_WITHIN_MS, OwnerlessPods } from '../../../src/controller/pullers/ownerless-pods.js';
import { pullerManifest } from '../../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../../src/preheat/backends/daemonset/project.js';
import { SHARD_NODES } from '../../../src/preheat/backends/daemonset/shards.js';
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
    expect([...new OwnerlessPods(() => 0, OPTIONS.namespace).look(pods, sets).keys]).toEqual(want);
  });

  test('are waited for no longer than a garbage collector may be away, each for itself', () => {
    let now = 0;
    const ownerless = new OwnerlessPods(() => now, OPTIONS.namespace);
    expect(ownerless.look([pod()], []).keys.size).toBe(1);
    now = COLLECTED_WITHIN_MS - 1;
    expect(ownerless.look([pod()], []).keys.size).toBe(1);
    now = COLLECTED_WITHIN_MS;
    expect(ownerless.look([pod()], []).keys.size).toBe(0);
    expect(ownerless.look([pod(), pod({ uid: 'later' })], []).keys.size).toBe(1);
    // What is forgotten with the Pod begins anew.
    ownerless.look([], []);
    expect(ownerless.look([pod()], []).keys.size).toBe(1);
  });

  const shard = (index: number, nodes: number): PullerSet => ({
    ...set(`shard-${index}`),
    shard: index,
    nodes: Array.from({ length: nodes }, (_, i) => `n${index}-${i}`),
  });

  test.each<[string, Partial<PullerPod>, PullerSet[], string[]]>([
    ['of the second set, and the first is full', {}, [shard(0, SHARD_NODES)], [`/${puller().hash}`]],
    ['of the second set, and the first has room', {}, [shard(0, SHARD_NODES - 1)], []],
    ['of the first set, which would be made before the second is filled', {}, [shard(1, 1)], [`/${puller().hash}`]],
    ['of the second of three', {}, [shard(2, 1), shard(0, SHARD_NODES)], [`/${puller().hash}`]],
    ['of the fourth of four', {}, [shard(2, 1), shard(1, SHARD_NODES), shard(0, SHARD_NODES)], []],
    ['with no set at all', {}, [], [`/${puller().hash}`]],
    ['with another set of the puller: its pulls go on', {}, [set('new')], []],
    ['those of a tenant hold up nobody else', { namespace: 'team' }, [], [`team/${puller().hash}`]],
    ['whatever set there is elsewhere', { namespace: 'team' }, [set('new')], [`team/${puller().hash}`]],
  ])('keep pulls of their puller from beginning: %s', (_, change, sets, want) =>
    expect([...new OwnerlessPods(() => 0, OPTIONS.namespace).look([pod(change)], sets).awaited]).toEqual(want),
  );

  test('say when the wait for the first of them ends', () => {
    let now = 0;
    const ownerless = new OwnerlessPods(() => now, OPTIONS.namespace);
    expect(ownerless.look([], []).leftMs).toBeUndefined();
    expect(ownerless.look([pod()], []).leftMs).toBe(COLLECTED_WITHIN_MS);
    now = 10_000;
    expect(ownerless.look([pod(), pod({ uid: 'later' })], []).leftMs).toBe(COLLECTED_WITHIN_MS - 10_000);
    now = COLLECTED_WITHIN_MS;
    expect(ownerless.look([pod(), pod({ uid: 'later' })], []).leftMs).toBe(10_000);
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
