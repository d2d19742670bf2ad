import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import { GangViews } from '../../../src/controller/gangs/views.js';
import { prewarm } from './fixtures.js';
import { cachesOf } from './known-caches.js';

const JOB_REF = { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'job-uid' };

const meta = (namespace: string, name: string, more: object = {}): KubeObject['metadata'] => ({
  name,
  namespace,
  uid: `${namespace}-${name}`,
  resourceVersion: '1',
  creationTimestamp: '2025-12-31T23:00:00Z',
  ...more,
});

/** A Workload whose owner is, as it says, the Job of team-a. */
const workload = (namespace: string, name: string, more: object = {}) => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: meta(namespace, name, {
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'job-uid', controller: true }],
    ...more,
  }),
  spec: { queueName: 'gpu', podSets: [{ name: 'main', count: 4, template: {} }] },
  status: { conditions: [{ type: 'QuotaReserved', status: 'True', lastTransitionTime: '2025-12-31T23:30:00Z' }] },
});

const job = (namespace: string, more: object = {}) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: meta(namespace, 'train', { uid: 'job-uid', annotations: { 'harbinger.dev/prewarm': 'true' } }),
  spec: { suspend: true, parallelism: 1, template: {} },
  ...more,
});

/** Views of a cluster with these objects. */
const viewsOf = async (objects: Record<string, object[]>, withoutKueue?: string[]): Promise<GangViews> =>
  new GangViews(await cachesOf(objects, withoutKueue), () => 'On');

/** An ImagePrewarm that names the Job of team-a. */
const named = (namespace: string): ImagePrewarm => {
  const object = prewarm({}, { gangRef: JOB_REF });
  return { ...object, metadata: { ...object.metadata, namespace } };
};

describe('a gang of one namespace', () => {
  // Younger, and so the one that would speak for the job.
  const stranger = workload('team-b', 'x', {
    creationTimestamp: '2025-12-31T23:59:00Z',
    annotations: { 'kueue.x-k8s.io/workload-slice-replacement-for': 'team-a/w' },
  });
  const views = () => viewsOf({ jobs: [job('team-a')], workloads: [workload('team-a', 'w'), stranger] });
  const gangOf = (found: GangViews, key: string) => {
    const gang = found.gangOf(key);
    if (gang === undefined) throw new Error(`no gang ${key}`);
    return gang;
  };

  test('keeps its word when a Workload elsewhere names its job', async () => {
    const found = await views();
    expect(found.isCurrent(gangOf(found, 'team-a/w'))).toBe(true);
    expect(found.workloadOf(named('team-a'))?.key).toBe('team-a/w');
  });
  test('tells nothing to an ImagePrewarm elsewhere that names its job, which counts as gone', async () => {
    const found = await viewsOf({ jobs: [job('team-a')], workloads: [workload('team-a', 'w')] });
    expect([found.workloadOf(named('team-b')), found.isUnknown(named('team-b'))]).toEqual([undefined, false]);
    // The control: in its own namespace the same object is told.
    expect(found.workloadOf(named('team-a'))?.key).toBe('team-a/w');
  });
  test('is not told so without a queue either', async () => {
    const found = await viewsOf({ jobs: [job('team-a')] }, ['Job.batch']);
    expect([named('team-b'), named('team-a')].map((p) => found.workloadOf(p)?.key)).toEqual([
      undefined,
      'Job.batch:team-a/train',
    ]);
  });
  test('does not become queued by a Workload elsewhere', async () => {
    const found = await viewsOf({ jobs: [job('team-a')], workloads: [stranger] }, ['Job.batch']);
    expect(found.gangOf('Job.batch:team-a/train')?.source).toBe('generic');
    const queued = await viewsOf({ jobs: [job('team-a')], workloads: [workload('team-a', 'w')] }, ['Job.batch']);
    expect(queued.gangOf('Job.batch:team-a/train')).toBeUndefined();
  });
  test('gives what its job says, and the Pods that run, to no Workload elsewhere', async () => {
    const found = await views();
    const other = gangOf(found, 'team-b/x');
    expect([found.optInOf(other).optedIn, found.replacedBy(other)]).toEqual([false, undefined]);
    expect(found.optInOf(gangOf(found, 'team-a/w')).optedIn).toBe(true);
  });
  test('has lost its job where that is seen nowhere, and nothing else', async () => {
    const found = await views();
    const [own, other] = [gangOf(found, 'team-a/w'), gangOf(found, 'team-b/x')];
    expect([found.isJobGone(own), found.isJobGone(other)]).toEqual([false, true]);
    // Of a kind that nobody reads it is not known.
    expect(found.isJobGone({ ...other, ref: { ...other.ref, apiGroup: 'example.com', kind: 'Other' } })).toBe(false);
  });
  test('gives the Pods that run to the slice that takes its place', async () => {
    const slice = { ...stranger, metadata: { ...stranger.metadata, namespace: 'team-a' } };
    const found = await viewsOf({ jobs: [job('team-a')], workloads: [workload('team-a', 'w'), slice] });
    expect(found.replacedBy(gangOf(found, 'team-a/x'))).toEqual(new Map([['main', 4]]));
  });
});

describe('a slice that takes the place of one that runs', () => {
  const condition = (type: string, status = 'True') => ({ type, status, lastTransitionTime: '2025-12-31T23:30:00Z' });
  const [QUOTA, FINISHED] = [condition('QuotaReserved'), condition('Finished')];
  const withConditions = (raw: ReturnType<typeof workload>, conditions: object[]) => ({ ...raw, status: { conditions } });
  const slice = workload('team-a', 'x', { annotations: { 'kueue.x-k8s.io/workload-slice-replacement-for': 'team-a/w' } });

  test.each<[string, { old: object[]; now: object[] }, boolean]>([
    ['waits beside it', { old: [QUOTA], now: [] }, true],
    ['has its quota, and the other is ended for that', { old: [QUOTA, FINISHED], now: [QUOTA] }, true],
    ['lost it again, and the Pods of both with it', { old: [QUOTA, FINISHED], now: [condition('Evicted')] }, false],
    ['has it anew', { old: [QUOTA, FINISHED], now: [QUOTA, condition('Evicted', 'False')] }, false],
    ['waits beside one that never had quota', { old: [], now: [] }, false],
  ])('%s', async (_title, { old, now }, runs) => {
    const workloads = [withConditions(workload('team-a', 'w'), old), withConditions(slice, now)];
    const found = await viewsOf({ jobs: [job('team-a')], workloads });
    const gang = found.gangOf('team-a/x');
    if (gang === undefined) throw new Error('no gang');
    expect(found.replacedBy(gang)).toEqual(runs ? new Map([['main', 4]]) : undefined);
  });
});
