import { afterEach, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import { Caches } from '../../../src/controller/caches.js';
import { GangViews } from '../../../src/controller/gangs/views.js';
import type { Page, WatchPort } from '../../../src/kube/client.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { prewarm } from './fixtures.js';

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

const running: Caches[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((caches) => caches.stop()));
});

/** Views of a cluster with these objects. */
async function viewsOf(objects: Record<string, object[]>, withoutKueue: string[] = []): Promise<GangViews> {
  const client: WatchPort = {
    listPage: <T extends KubeObject>({ plural }: Resource) =>
      Promise.resolve({ items: objects[plural] ?? [], resourceVersion: '1' } as unknown as Page<T>),
    async *watch(_resource, options) {
      await new Promise((_resolve, reject) => options?.signal?.addEventListener('abort', () => reject(new Error('aborted'))));
      yield* [];
    },
  };
  const caches = new Caches({
    client,
    namespace: 'harbinger-system',
    clock: new FakeClock(),
    log: keepLog().log,
    metrics: new Metrics(),
    withoutKueue: () => withoutKueue,
  });
  running.push(caches);
  caches.start();
  await caches.coreSynced();
  await caches.gangsSynced();
  return new GangViews(caches);
}

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
