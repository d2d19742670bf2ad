import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { GangViews } from '../../../src/controller/gangs/views.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import { gangServed } from '../../../src/controller/prewarm/lifecycle.js';
import { prewarm, T0, iso } from './fixtures.js';
import { cachesOf } from './known-caches.js';

type Raw = KubeObject & Record<string, unknown>;

const condition = (type: string, status: boolean, since = iso(T0)) => ({
  type,
  status: status ? 'True' : 'False',
  lastTransitionTime: since,
});
const ADMITTED = [condition('QuotaReserved', true), condition('Admitted', true)];

interface Shape {
  owner?: { apiVersion: string; kind: string; name: string; uid: string };
  pods?: number;
  minCount?: number;
  assigned?: number;
  reclaimable?: number;
  conditions?: object[];
}

const JOB = { apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'train-uid' };
const MPI = { apiVersion: 'kubeflow.org/v2beta1', kind: 'MPIJob', name: 'train', uid: 'train-uid' };
const POD = { apiVersion: 'v1', kind: 'Pod', name: 'alone', uid: 'alone-uid' };

/** A Workload for four Pods as Kueue writes it, admitted where nothing else is said. */
function workload({ owner = JOB, pods = 4, minCount, assigned = pods, reclaimable, conditions = ADMITTED }: Shape = {}): Raw {
  return {
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: {
      name: 'w',
      namespace: 'team',
      uid: 'w-uid',
      creationTimestamp: iso(T0),
      ...(owner.kind === '' ? {} : { ownerReferences: [{ ...owner, controller: true }] }),
    },
    spec: { queueName: 'gpu', podSets: [{ name: 'main', count: pods, minCount, template: {} }] },
    status: {
      conditions,
      admission: { clusterQueue: 'cq', podSetAssignments: [{ name: 'main', count: assigned }] },
      ...(reclaimable === undefined ? {} : { reclaimablePods: [{ name: 'main', count: reclaimable }] }),
    },
  };
}

let serial = 0;
const pod = (phase: string, metadata: object = {}): Raw => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: `p${serial++}`,
    namespace: 'team',
    ownerReferences: [{ ...JOB, controller: true }],
    ...metadata,
  },
  spec: { nodeName: 'n', containers: [] },
  status: { phase },
});
const pods = (phase: string, count: number, metadata: object = {}): Raw[] =>
  Array.from({ length: count }, () => pod(phase, metadata));

/** The ImagePrewarm of the gang that a Workload stands for. */
function prewarmFor(raw: Raw, name = 'p'): object {
  const { ref } = projectWorkload(raw).gang;
  const object = prewarm({}, { gangRef: ref });
  return { ...object, metadata: { ...object.metadata, name } };
}

/** Whether the gang of a Workload counts as running, a minute after it was admitted. */
async function served(raw: Raw, members: Raw[], prewarms = [prewarmFor(raw)]): Promise<boolean> {
  const caches = await cachesOf({ workloads: [raw], pods: members, imageprewarms: prewarms });
  const view = new GangViews(caches, () => 'On').viewOf(projectWorkload(raw), new Map(), false);
  expect(gangServed(view, T0 + 60_000, 900_000)).toBe(view.gang.state.podsReady);
  return view.gang.state.podsReady;
}

describe('a gang that Kueue says nothing of but that it is admitted', () => {
  const launcher = { ownerReferences: [], labels: { 'training.kubeflow.org/job-name': 'train' } };
  const worker = { ownerReferences: [{ ...MPI, controller: true }], labels: launcher.labels };
  const managed = { 'kueue.x-k8s.io/managed': 'true' };
  const member = { ownerReferences: [], labels: { ...managed, 'kueue.x-k8s.io/pod-group-name': 'w' } };
  const byAnnotation = { ownerReferences: [], labels: managed, annotations: { 'kueue.x-k8s.io/pod-group-name': 'w' } };
  const alone = { ownerReferences: [], labels: managed, name: 'alone', uid: 'alone-uid' };
  const group: Shape = { owner: { apiVersion: '', kind: '', name: '', uid: '' } };
  const evicted = [...ADMITTED, condition('Evicted', false)];
  const rows: [string, Shape, Raw[], boolean][] = [
    ['has no Pods yet', {}, [], false],
    ['misses one', {}, [...pods('Running', 3), pod('Pending')], false],
    ['runs', {}, pods('Running', 4), true],
    ['runs, and one is done', {}, [...pods('Running', 3), pod('Succeeded')], true],
    ['has one that failed, and the next one pulls', {}, [...pods('Running', 3), pod('Failed'), pod('Pending')], false],
    ['has that one again', {}, [...pods('Running', 4), pod('Failed')], true],
    ['was admitted with fewer Pods', { minCount: 2, assigned: 2 }, pods('Running', 2), true],
    ['was admitted with fewer, and misses one', { minCount: 2, assigned: 2 }, [pod('Running'), pod('Pending')], false],
    ['has Pods that need no room any more', { reclaimable: 2 }, pods('Running', 2), true],
    ['was admitted with fewer and has such', { minCount: 2, assigned: 3, reclaimable: 2 }, pods('Running', 2), true],
    ['was scaled up: those of before run', { pods: 6 }, pods('Running', 4), false],
    [
      'was evicted before, and its old Pods are going',
      { conditions: evicted },
      pods('Running', 4, { deletionTimestamp: iso(T0) }),
      false,
    ],
    ['was evicted before, and one was done then', { conditions: evicted }, [...pods('Running', 3), pod('Succeeded')], false],
    ['was evicted before, and runs', { conditions: evicted }, pods('Running', 4), true],
    ['has Pods elsewhere', {}, pods('Running', 4, { namespace: 'elsewhere' }), false],
    ['is known by name: its launcher pulls', { owner: MPI }, [...pods('Running', 3, worker), pod('Pending', launcher)], false],
    ['is known by name, and runs', { owner: MPI }, [...pods('Running', 3, worker), pod('Running', launcher)], true],
    ['is a group of Pods, and misses one', group, pods('Running', 3, member), false],
    ['is a group of Pods', group, pods('Running', 4, member), true],
    ['is a group by annotation', group, pods('Running', 4, byAnnotation), true],
    ['is a single Pod', { owner: POD, pods: 1 }, [pod('Running', alone)], true],
    ['is a single Pod that pulls', { owner: POD, pods: 1 }, [pod('Pending', alone)], false],
  ];
  test.each(rows)('%s', async (_title, shape, members, runs) => {
    expect(await served(workload(shape), members)).toBe(runs);
  });

  test('does not run by a name that two gangs have had', async () => {
    const raw = workload({ owner: MPI });
    const other = prewarmFor(workload({ owner: { ...MPI, uid: 'former-uid' } }), 'former');
    const members = [...pods('Running', 3, worker), pod('Running', launcher)];
    expect(await served(raw, members, [prewarmFor(raw), other])).toBe(false);
  });
});

describe('whatever Pods there are', () => {
  const rows: [string, object[], Raw[], boolean][] = [
    ['a gang that is not admitted does not run', [condition('QuotaReserved', true)], pods('Running', 4), false],
    ['what Kueue says is enough', [...ADMITTED, condition('PodsReady', true)], [], true],
    ['what it takes back is not', [...ADMITTED, condition('PodsReady', false)], pods('Running', 3), false],
  ];
  test.each(rows)('%s', async (_title, conditions, members, runs) => {
    expect(await served(workload({ conditions }), members)).toBe(runs);
  });
});

describe('a change of what runs', () => {
  const of = (running: number, done = 0) => ({ running, done });
  const rows: [string, object[], [ReturnType<typeof of>, ReturnType<typeof of>], boolean][] = [
    ['completes a gang with its last Pod', ADMITTED, [of(3), of(4)], true],
    ['not when one is lost', ADMITTED, [of(4), of(3)], false],
    ['not with one of many', ADMITTED, [of(2), of(3)], false],
    ['not when one runs to its end', ADMITTED, [of(4), of(3, 1)], false],
    ['not of a gang that waits', [], [of(3), of(4)], false],
    ['not of one of which Kueue told it', [...ADMITTED, condition('PodsReady', true)], [of(3), of(4)], false],
    ['not of one that has ended', [...ADMITTED, condition('Finished', true)], [of(3), of(4)], false],
  ];
  test.each(rows)('%s', async (_title, conditions, [before, now], completes) => {
    const raw = workload({ conditions });
    const views = new GangViews(await cachesOf({ workloads: [raw], imageprewarms: [prewarmFor(raw)] }), () => 'On');
    expect(views.completes('team/train-uid', now, before)).toBe(completes);
    expect(views.completes('elsewhere/train-uid', now, before)).toBe(false);
  });
});
