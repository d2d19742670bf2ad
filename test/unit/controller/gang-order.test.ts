import { describe, expect, test } from '@jest/globals';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import { GangViews } from '../../../src/controller/gangs/views.js';
import { lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { conditionOf, gang, iso, prewarm, T0 } from './fixtures.js';
import { cachesOf } from './known-caches.js';

type Raw = Parameters<typeof projectWorkload>[0];
interface Given {
  annotations?: Record<string, string>;
  owner?: { apiVersion: string; kind: string };
  spec?: object;
  status?: object;
}

const workload = (name: string, { annotations = {}, owner, spec = {}, status = {} }: Given = {}, at = T0): Raw => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    ...{ name, namespace: 'team', uid: name, annotations, creationTimestamp: iso(at) },
    ...(owner === undefined ? {} : { ownerReferences: [{ ...owner, name: 'train', uid: 'u', controller: true }] }),
  },
  spec: { queueName: 'gpu', podSets: [{ name: 'main', count: 3, template: {} }], ...spec },
  status,
});
const localQueue = (name: string, stopPolicy?: string) => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'LocalQueue',
  metadata: { name, namespace: 'team', uid: name },
  spec: { clusterQueue: 'cq', ...(stopPolicy === undefined ? {} : { stopPolicy }) },
});
const condition = (type: string, status: 'True' | 'False', reason = '') => ({ type, status, reason });
const gatedBy = (names: string): Given => ({ annotations: { 'kueue.x-k8s.io/admission-gated-by': names } });
const conditions = (...all: ReturnType<typeof condition>[]): Given => ({ status: { conditions: all } });

const ON = () => 'On' as const;

/** Places of a gang that was made first, and of two that Kueue queues. */
async function places(given: Given, gatedJobs: 'Off' | 'On' = 'On'): Promise<(number | undefined)[]> {
  const workloads = [workload('first', given), workload('second', {}, T0 + 1_000), workload('third', {}, T0 + 2_000)];
  const localqueues = [
    localQueue('gpu'),
    localQueue('held', 'Hold'),
    localQueue('drained', 'HoldAndDrain'),
    localQueue('on', 'None'),
  ];
  const positions = new GangViews(await cachesOf({ workloads, localqueues }), () => gatedJobs).positions();
  return ['first', 'second', 'third'].map((name) => positions.get(`team/${name}`));
}

describe('the place of the gang that was made first', () => {
  const [AHEAD, BEHIND, NOWHERE] = [
    [0, 1, 2],
    [2, 0, 1],
    [undefined, 0, 1],
  ];
  test.each<[string, Given, (number | undefined)[]]>([
    ['positive control: it waits for quota', {}, AHEAD],
    ['somebody else has to let it go', gatedBy('example.com/quota-approval'), BEHIND],
    ['we have to: it goes when its images are there', gatedBy('harbinger.dev/image-prewarm'), AHEAD],
    ['so have we and somebody else', gatedBy('example.com/quota-approval, harbinger.dev/image-prewarm'), AHEAD],
    ['nobody is on the list any more', gatedBy(''), AHEAD],
    ['it backs off', { status: { requeueState: { count: 1, requeueAt: iso(T0 + 60_000) } } }, BEHIND],
    ['negative twin: it did so before', { status: { requeueState: { count: 1 } } }, AHEAD],
    ['it was evicted and is not queued again', conditions(condition('Requeued', 'False', 'PodsReadyTimeout')), BEHIND],
    ['negative twin: it was', conditions(condition('Requeued', 'True', 'BackoffFinished')), AHEAD],
    ['its LocalQueue is held', { spec: { queueName: 'held' } }, BEHIND],
    ['its LocalQueue is drained', { spec: { queueName: 'drained' } }, BEHIND],
    ['negative twin: its LocalQueue says that it is not', { spec: { queueName: 'on' } }, AHEAD],
    ['its set is scaled to zero', conditions(condition('QuotaReserved', 'False', 'OnHold')), NOWHERE],
    ['negative twin: it is scaled up again', conditions(condition('QuotaReserved', 'False', 'Pending')), AHEAD],
    ['its group lacks Pods', conditions(condition('WaitingForReplacementPods', 'True')), NOWHERE],
    ['negative twin: it has them', conditions(condition('WaitingForReplacementPods', 'False')), AHEAD],
  ])('%s', async (_title, given, expected) => expect(await places(given)).toEqual(expected));

  test.each([
    ['On', 'batch/v1', 'Job', AHEAD],
    ['Off', 'batch/v1', 'Job', BEHIND],
    ['On', 'apps/v1', 'StatefulSet', BEHIND],
  ] as const)('with holds.gatedJobs %s and our gate on a %s %s, which goes or stays', async (mode, apiVersion, kind, expected) =>
    expect(await places({ ...gatedBy('harbinger.dev/image-prewarm'), owner: { apiVersion, kind } }, mode)).toEqual(expected),
  );

  test.each([
    ['held', true],
    ['gpu', undefined],
  ])('is told to the planner as well: LocalQueue %s', async (queueName, passedOver) => {
    const [raw, localqueues] = [workload('w', { spec: { queueName } }), [localQueue('gpu'), localQueue('held', 'Hold')]];
    const views = new GangViews(await cachesOf({ workloads: [raw], localqueues }), ON);
    expect(views.viewOf(projectWorkload(raw), new Map(), false).gang.state.passedOver).toBe(passedOver);
    const reserved = { ...raw, ...conditions({ ...condition('QuotaReserved', 'True') }) };
    expect(views.viewOf(projectWorkload(reserved), new Map(), false).gang.state.passedOver).toBeUndefined();
  });

  test('counts priority only among those that Kueue looks at', async () => {
    expect(await places({ ...gatedBy('example.com/quota-approval'), spec: { priority: 1_000 } })).toEqual(BEHIND);
    // The control.
    expect(await places({ spec: { priority: -1 } })).toEqual(BEHIND);
  });
});

describe('a gang that Kueue keeps out of its queues', () => {
  const life = (given: Given, ready = conditionOf('Ready', true, 'AllNodesWarm')) =>
    lifecycle({
      prewarm: prewarm({ conditions: [ready] }),
      gang: gang({ gang: projectWorkload(workload('w', given)).gang, position: 0 }),
      now: T0 + 900_000,
      gangsAheadPerQueue: 8,
      retainAfterAdmissionMs: 900_000,
      deadlineMs: 600_000,
    });
  const suspended = conditionOf('Ready', false, 'Suspended');
  const ON_HOLD = condition('QuotaReserved', 'False', 'OnHold');
  const LACKS_PODS = condition('WaitingForReplacementPods', 'True');
  const WAITS = { mayPull: false, keep: true, why: 'Inactive' };
  test.each<[string, Given, ReturnType<typeof conditionOf> | undefined, object]>([
    ['positive control: it stands at the head', {}, undefined, { mayPull: true, keep: true }],
    ['on hold: nothing is pulled, and what is there is held', conditions(ON_HOLD), undefined, WAITS],
    ['on hold for long: nothing is held any more', conditions(ON_HOLD), suspended, { ...WAITS, keep: false }],
    ['without some of its Pods', conditions(LACKS_PODS), undefined, WAITS],
    ['without them for long', conditions(LACKS_PODS), suspended, { ...WAITS, keep: false }],
    [
      'negative twin: with quota its other Pods go on',
      conditions(LACKS_PODS, condition('QuotaReserved', 'True')),
      suspended,
      { mayPull: true, keep: true },
    ],
  ])('%s', (_title, given, ready, expected) => expect(life(given, ready)).toEqual(expected));
});
