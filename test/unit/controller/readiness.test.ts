import { describe, expect, test } from '@jest/globals';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { Lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import type { PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import { unpinnedBecause } from '../../../src/controller/prewarm/unpinned.js';
import { condition, context, gang, GANG_REF, prewarm, progress, recorded, snapshot } from './fixtures.js';

const held = (why: NonNullable<Lifecycle['why']>, keep = true) => ({ lifecycle: { mayPull: false, keep, why } });
const ready = (change: Partial<PrewarmSnapshot>, more = {}) =>
  condition(decidePrewarm(snapshot(change), context(more)).status, 'Ready');
const cold = { progress: progress({ warm: 0, pending: 3 }) };

describe('a target without candidates', () => {
  const launcher = { name: 'launcher', images: [{ reference: 'reg.example.com/train:v1' }], nodes: { selector: {}, count: 1 } };
  const two = prewarm(
    { targets: [...recorded(), { ...recorded()[0], name: 'launcher' } as ReturnType<typeof recorded>[number]] },
    { targets: [...prewarm().spec.targets, launcher] },
  );

  test('is not hidden by another target that is warm', () => {
    const candidates = { reasons: { 'taint gpu': 3 }, desired: 3, empty: ['launcher'] };
    expect(ready({ prewarm: two, candidates })).toMatchObject({
      status: 'False',
      reason: 'NoCandidateNodes',
      message: 'no node can take Pods of target "launcher" (3 nodes: taint gpu)',
    });
  });
  test('negative twin: with nodes for both it is Ready', () => {
    expect(ready({ prewarm: two, candidates: { reasons: {}, desired: 3, empty: [] } })).toMatchObject({
      status: 'True',
      reason: 'AllNodesWarm',
    });
  });
});

describe('what a gang whose turn has not come reads', () => {
  const rows: [string, Partial<PrewarmSnapshot>, object, string, string][] = [
    [
      'too far back',
      { ...cold, gang: gang({ position: 9 }) },
      held('QueuePosition'),
      'QueuePosition',
      'at least 8 gangs of the queue are ahead',
    ],
    [
      'its LocalQueue is unknown',
      { ...cold, gang: gang() },
      held('NotQueued'),
      'QueuePosition',
      'its LocalQueue "gpu" leads to no ClusterQueue',
    ],
    [
      'its Workload is gone',
      { ...cold, prewarm: prewarm({ targets: recorded() }, { gangRef: GANG_REF }) },
      held('NotQueued'),
      'QueuePosition',
      'its job has no Workload',
    ],
    [
      'its Workload is gone for long',
      { ...cold, prewarm: prewarm({ targets: recorded() }, { gangRef: GANG_REF }) },
      { lifecycle: { mayPull: false, keep: false, why: 'Finished' } },
      'Finished',
      'the gang has no Workload any more; they are no longer held',
    ],
    [
      'its Workload is not active',
      { ...cold, gang: gang({}, { active: false }) },
      held('Inactive', false),
      'Suspended',
      'spec.active is false',
    ],
    [
      'Kueue has put its Workload on hold',
      { ...cold, gang: gang({}, { active: false, parked: 'OnHold' }) },
      held('Inactive', false),
      'Suspended',
      'scaled to zero',
    ],
    [
      'its group lacks Pods',
      { ...cold, gang: gang({}, { active: false, parked: 'WaitingForReplacementPods' }) },
      held('Inactive', false),
      'Suspended',
      'lacks Pods',
    ],
    ['negative twin: its turn has come', { ...cold, gang: gang({ position: 9 }) }, {}, 'PullingImages', '0/3 nodes warm'],
  ];
  test.each(rows)('%s', (...[, change, more, reason, message]) => {
    expect(ready(change, more)).toMatchObject({ reason, message: expect.stringContaining(message) });
  });

  test('changes a few times on the way through a long queue, not at each step', () => {
    const texts = new Set(
      Array.from({ length: 1000 }, (_, i) => ready({ ...cold, gang: gang({ position: 8 + i }) }, held('QueuePosition'))?.message),
    );
    expect(texts.size).toBe(7);
  });
});

describe('a gang whose Pods will not be pinned', () => {
  const labels = { 'harbinger.dev/accelerate': 'enabled' };
  const rows: [string, Record<string, string>, 'LabelledNamespaces' | 'AllNamespaces', string | undefined][] = [
    [
      'the namespace is not labelled',
      {},
      'LabelledNamespaces',
      'label it harbinger.dev/accelerate=enabled before the gang starts',
    ],
    ['the namespace is labelled', labels, 'LabelledNamespaces', undefined],
    ['all namespaces are in scope', {}, 'AllNamespaces', undefined],
    [
      'the namespace took itself out',
      { 'harbinger.dev/accelerate': 'disabled' },
      'AllNamespaces',
      'remove label harbinger.dev/accelerate=disabled',
    ],
  ];
  test.each(rows)('%s', (...[, given, scope, expected]) => {
    const why = unpinnedBecause('team', given, scope);
    if (expected === undefined) expect(why).toBeUndefined();
    else expect(why).toContain(expected);
  });

  test('reads so in TargetsResolved and in one event', () => {
    const unpinned = unpinnedBecause('team', {}, 'LabelledNamespaces');
    const first = decidePrewarm(snapshot({ unpinned }), context());
    expect(condition(first.status, 'TargetsResolved')?.message).toContain('label it');
    expect(first.events).toContainEqual({ type: 'Warning', reason: 'NotPinned', note: unpinned });
    expect(decidePrewarm(snapshot({ unpinned, prewarm: prewarm(first.status) }), context()).events).toEqual([]);
  });
  test('negative twin: nothing is said where Pods are pinned', () => {
    const { status, events } = decidePrewarm(snapshot(), context());
    expect(condition(status, 'TargetsResolved')?.message).toBe('every image has a recorded digest');
    expect(events.map((e) => e.reason)).not.toContain('NotPinned');
  });
});
