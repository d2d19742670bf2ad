import { describe, expect, test } from '@jest/globals';
import { applyPatch } from 'rfc6902';
import {
  COPY_MS,
  gateEnd,
  gateView,
  isGated,
  nextUngate,
  ungatePatch,
  withoutOurs,
  workloadsOf,
} from '../../../src/gangs/gates.js';
import { gatedKindOf } from '../../../src/gangs/gated-kinds.js';
import { JOB_KINDS } from '../../../src/gangs/kinds.js';
import { MAX_HOLD_MS } from '../../../src/gangs/hold.js';

const GATES = 'kueue.x-k8s.io/admission-gated-by';
const OURS = 'harbinger.dev/image-prewarm';
const T0 = Date.parse('2026-01-01T00:00:00Z');

const workload = (gates: string | undefined, change: Record<string, unknown> = {}, more: Record<string, string> = {}) => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    name: 'w',
    namespace: 'n',
    uid: 'w-uid',
    creationTimestamp: '2026-01-01T00:00:00Z',
    annotations: { ...(gates === undefined ? {} : { [GATES]: gates }), ...more },
    ownerReferences: [{ apiVersion: 'jobset.x-k8s.io/v1alpha2', kind: 'JobSet', name: 'train', uid: 'u', controller: true }],
  },
  ...change,
});
const having = (type: string) => ({ status: { conditions: [{ type, status: 'True' }] } });

describe('a gate', () => {
  const rows: [string, string | undefined, boolean][] = [
    ['alone', OURS, true],
    ['among others, with blanks', `example.com/a , ${OURS}`, true],
    ['of others', 'example.com/a', false],
    ['of a name that only begins like ours', `${OURS}-2`, false],
    ['absent', undefined, false],
  ];
  test.each(rows)('%s', (_title, value, ours) => {
    expect(isGated(value === undefined ? {} : { [GATES]: value })).toBe(ours);
    expect(gateView(workload(value)) !== undefined).toBe(ours);
  });

  test('names the job, whatever kind it is of, and its stamp', () => {
    const stamp = { 'harbinger.dev/gate-deadline': '2026-01-01T00:10:00Z' };
    expect(gateView(workload(OURS, {}, stamp))).toEqual({
      uid: 'w-uid',
      list: OURS,
      job: { apiGroup: 'jobset.x-k8s.io', version: 'v1alpha2', kind: 'JobSet', name: 'train', uid: 'u' },
      createdAt: T0,
      deadline: T0 + 600_000,
    });
  });

  test('is seen on a Workload that nobody owns', () => {
    const { metadata, ...rest } = workload(OURS);
    const { ownerReferences: _none, ...alone } = metadata;
    expect(gateView({ ...rest, metadata: alone })).toEqual({ uid: 'w-uid', list: OURS, createdAt: T0 });
  });

  test.each(['QuotaReserved', 'Finished'])('says nothing any more of a Workload that is %s', (type) => {
    expect(gateView(workload(OURS, having(type)))).toBeUndefined();
    expect(gateView(workload(OURS, having('PodsReady')))).toBeDefined();
  });

  test.each([
    ['nobody has stamped', {}, T0 + 60_000],
    ['that is stamped', { deadline: T0 + 5 }, T0 + 5],
    ['that is stamped beyond a day', { deadline: T0 + 10 * MAX_HOLD_MS }, T0 + MAX_HOLD_MS],
  ])('%s ends', (_title, stamp, end) => expect(gateEnd({ createdAt: T0, ...stamp }, 60_000)).toBe(end));
});

describe('the kind of a gated job', () => {
  const job = (apiGroup: string, version: string, kind: string) => gatedKindOf({ apiGroup, version, kind });

  test('is read in the version that its Workload names, not in the one that the table knows', () => {
    const at = { group: 'jobset.x-k8s.io', plural: 'jobsets', kind: 'JobSet', namespaced: true };
    expect(job('jobset.x-k8s.io', 'v1', 'JobSet')).toEqual({ ...at, version: 'v1' });
    expect(job('jobset.x-k8s.io', 'v1alpha2', 'JobSet')).toEqual({ ...at, version: 'v1alpha2' });
  });
  test.each([
    ['a kind whose gate is not ours to take off', '', 'v1', 'Pod'],
    ['a kind that nobody knows', 'example.com', 'v1', 'Job'],
    ['a version that would lead elsewhere', 'batch', 'v1/namespaces/kube-system/secrets/x?', 'Job'],
    ['no version', 'batch', '', 'Job'],
  ])('is refused: %s', (_title, group, version, kind) => expect(job(group, version, kind)).toBeUndefined());
  test('is one of thirteen of the one table', () => {
    const gated = JOB_KINDS.filter((k) => k.gated === true);
    expect(gated.map((k) => k.kind).sort()).toEqual([
      ...['AppWrapper', 'JAXJob', 'Job', 'JobSet', 'LeaderWorkerSet', 'MPIJob', 'PaddleJob', 'PyTorchJob'],
      ...['RayCluster', 'RayJob', 'TFJob', 'TrainJob', 'XGBoostJob'],
    ]);
    for (const { group, kind, versions } of gated) expect(job(group, versions[0] ?? '', kind)).toMatchObject({ group, kind });
  });
});

describe('taking our name off', () => {
  test.each([
    [OURS, undefined],
    [`a.example/x,${OURS},b.example/y`, 'a.example/x,b.example/y'],
    [`${OURS},a.example/x`, 'a.example/x'],
  ])('%s', (before, after) => {
    expect(withoutOurs(before)).toBe(after);
    const job = {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'j', uid: 'u', annotations: { [GATES]: before, other: 'x' } },
    };
    const changed = structuredClone(job);
    expect(applyPatch(changed, ungatePatch(job, 'u') as Parameters<typeof applyPatch>[1])).toEqual([null, null, null]);
    expect(changed.metadata.annotations).toEqual({ ...(after === undefined ? {} : { [GATES]: after }), other: 'x' });
    // Somebody else took theirs off meanwhile: nothing is written over that.
    const raced = { ...job, metadata: { ...job.metadata, annotations: { [GATES]: 'c.example/z' } } };
    expect(applyPatch(raced, ungatePatch(job, 'u') as Parameters<typeof applyPatch>[1]).some((e) => e !== null)).toBe(true);
  });

  test('of another job of the same name is not done, nor twice', () => {
    const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'j', uid: 'u', annotations: { [GATES]: OURS } } };
    expect(ungatePatch(job, 'older')).toBeUndefined();
    expect(ungatePatch({ ...job, metadata: { name: 'j', uid: 'u' } }, 'u')).toBeUndefined();
  });
});

describe('where our name comes off next', () => {
  const owner = { apiGroup: 'batch', version: 'v1', kind: 'Job', name: 'j', uid: 'u' };
  const gate = { uid: 'w-uid', list: `a.example/x,${OURS}`, job: owner, createdAt: T0 };
  const { job: _owner, ...alone } = gate;
  const job = (annotations: Record<string, string>, uid = 'u') => ({
    ...{ apiVersion: 'batch/v1', kind: 'Job' },
    metadata: { name: 'j', uid, annotations },
  });
  const bare = job({});
  const on = (which: 'job' | 'workload', uid: string, value: string, left: string) => ({
    on: which,
    ops: [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: expect.stringContaining('admission-gated-by'), value },
      { op: 'replace', path: expect.anything(), value: left },
    ],
  });
  const ofWorkload = on('workload', 'w-uid', gate.list, 'a.example/x');
  const rows: [string, Parameters<typeof nextUngate>, unknown][] = [
    [
      'the job, while it stands there, however long it is known',
      [gate, job({ [GATES]: `${OURS},b.example/y` }), T0, T0 + COPY_MS],
      on('job', 'u', `${OURS},b.example/y`, 'b.example/y'),
    ],
    [
      'nowhere at first sight of a job without it: Kueue may copy that',
      [gate, bare, undefined, T0],
      { on: 'copy', after: COPY_MS },
    ],
    ['nowhere before Kueue had time to', [gate, bare, T0, T0 + 500], { on: 'copy', after: COPY_MS - 500 }],
    ['the Workload, if Kueue does not: an elastic job, a prebuilt Workload', [gate, bare, T0, T0 + COPY_MS], ofWorkload],
    ['the Workload, where the clock went back', [gate, bare, T0, T0 - 1], ofWorkload],
    ['the Workload at once, where it has no job', [alone, undefined, undefined, T0], ofWorkload],
    ['nowhere for another job of that name', [gate, job({ [GATES]: OURS }, 'later'), T0, T0 + COPY_MS], undefined],
    ['nowhere for a job that was not read', [gate, undefined, T0, T0 + COPY_MS], undefined],
    ['nowhere where it is on no list', [{ ...alone, list: 'a.example/x' }, undefined, undefined, T0], undefined],
  ];
  test.each(rows)('%s', (_title, args, expected) => expect(nextUngate(...args)).toEqual(expected));

  test('of a set is counted by its groups', () => {
    const set = { apiVersion: 'leaderworkerset.x-k8s.io/v1', kind: 'LeaderWorkerSet', metadata: { name: 's' } };
    expect([set, { ...set, spec: { replicas: 8 } }, { ...bare, spec: { replicas: 8 } }, undefined].map(workloadsOf)).toEqual([
      1, 8, 1, 1,
    ]);
  });
});
