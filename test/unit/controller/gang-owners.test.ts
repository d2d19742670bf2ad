import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { Owners, projectOwner } from '../../../src/controller/gangs/sources/owners.js';
import { jobKind } from '../../../src/gangs/kinds.js';
import type { Page, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { RawObject } from '../../../src/kube/reflector.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { createLog } from '../../../src/observe/log.js';
import { FakeClock } from '../kube/fake-clock.js';

const JOBSET = { apiGroup: 'jobset.x-k8s.io', kind: 'JobSet', name: 'set', uid: 'set-uid' };
const LWS = { apiGroup: 'leaderworkerset.x-k8s.io', kind: 'LeaderWorkerSet', name: 'lws', uid: 'lws-uid' };

/** An API server with one annotated JobSet, which notes what it is asked for. */
class Api implements WatchPort {
  readonly listed: Resource[] = [];
  refuse = new Set<string>();

  listPage<T extends KubeObject>(resource: Resource): Promise<Page<T>> {
    this.listed.push(resource);
    if (this.refuse.has(resource.plural)) return Promise.reject(new KubeError('no', { status: 403, reason: 'Forbidden' }));
    const items = resource.plural === 'jobsets' ? [jobSet()] : [];
    return Promise.resolve({ items: items as unknown as T[], resourceVersion: '1' });
  }
  // eslint-disable-next-line @typescript-eslint/require-await, require-yield -- a watch of which nothing comes
  async *watch(): AsyncGenerator<never> {
    return;
  }
}

const jobSet = (change: object = {}): RawObject => ({
  apiVersion: 'jobset.x-k8s.io/v1alpha2',
  kind: 'JobSet',
  metadata: {
    name: 'set',
    namespace: 'team',
    uid: 'set-uid',
    resourceVersion: '5',
    annotations: { 'harbinger.dev/prewarm': 'true', 'kubectl.kubernetes.io/last-applied-configuration': 'x'.repeat(1000) },
    ...change,
  },
  spec: { suspend: true, replicatedJobs: [{ name: 'w', replicas: 2, template: { spec: { template: { spec: {} } } } }] },
});

async function start(served: string[] | undefined, generic: string[] = [], api = new Api()) {
  const clock = new FakeClock();
  let asked = 0;
  const discovery = {
    served: () => {
      asked++;
      return served === undefined ? Promise.reject(new Error('away')) : Promise.resolve(new Set(served));
    },
  };
  const owners = new Owners({
    client: api,
    discovery,
    clock,
    log: createLog({ level: 'silent', name: 'test' }),
    metrics: new Metrics(),
    generic: () => generic,
  });
  owners.start();
  await clock.advance(10);
  return { owners, clock, api, asked: () => asked, plurals: () => [...new Set(api.listed.map((r) => r.plural))] };
}

const ALL = [
  'jobset.x-k8s.io/v1alpha2/jobsets',
  'leaderworkerset.x-k8s.io/v1/leaderworkersets',
  'kueue.x-k8s.io/v1beta2/workloads',
];

describe('the objects above gangs', () => {
  test('are followed once a Workload names their kind, and until then cost nothing', async () => {
    const { owners, clock, plurals } = await start(ALL);
    expect(plurals()).toEqual(['jobs']);
    expect([owners.stateOf(JOBSET), owners.of(JOBSET, 'team')]).toEqual(['unread', undefined]);
    owners.named(JOBSET);
    await clock.advance(2_000);
    expect(plurals()).toEqual(['jobs', 'jobsets']);
    expect(owners.of(JOBSET, 'team')?.annotations).toEqual({ 'harbinger.dev/prewarm': 'true' });
    expect(owners.stateOf(JOBSET)).toBe('known');
    await owners.stop();
  });

  test('bring metadata only, where no Pods are read from them', async () => {
    const { owners, clock, api } = await start(ALL);
    owners.named(LWS);
    owners.named(JOBSET);
    await clock.advance(2_000);
    const only = Object.fromEntries(api.listed.map((r) => [r.plural, r.metadataOnly]));
    expect(only).toEqual({ jobs: false, jobsets: false, leaderworkersets: true });
    await owners.stop();
  });

  test('of a kind that is not served are not asked for, however often they are named', async () => {
    const { owners, clock, plurals, asked } = await start(['kueue.x-k8s.io/v1beta2/workloads'], ['JobSet.jobset.x-k8s.io']);
    for (let i = 0; i < 50; i++) owners.named(JOBSET);
    await clock.advance(30_000);
    expect([plurals(), owners.stateOf(JOBSET)]).toEqual([['jobs'], 'unread']);
    expect(asked()).toBe(2);
    await owners.stop();
  });

  test('that cannot be listed keep nobody waiting for more than ten seconds', async () => {
    const api = new Api();
    api.refuse.add('jobsets');
    const { owners, clock } = await start(ALL, ['JobSet.jobset.x-k8s.io'], api);
    expect(owners.stateOf(JOBSET)).toBe('pending');
    await clock.advance(10_000);
    expect(owners.stateOf(JOBSET)).toBe('unread');
    expect(owners.problems().join()).toContain('not allowed to list and watch jobsets.jobset.x-k8s.io');
    await owners.stop();
  });

  test('keep nobody waiting where the API server does not tell what it serves', async () => {
    const { owners, clock } = await start(undefined);
    expect([owners.stateOf(JOBSET), owners.withoutKueue]).toEqual(['pending', false]);
    await clock.advance(10_000);
    expect([owners.stateOf(JOBSET), owners.withoutKueue]).toEqual(['unread', false]);
    await owners.stop();
  });
});

describe('a job without Kueue', () => {
  test('is a gang of the kinds that the configuration names, and of no other', async () => {
    const named = await start(ALL, ['JobSet.jobset.x-k8s.io']);
    expect(named.owners.gangs().map((o) => o.gang.key)).toEqual(['JobSet.jobset.x-k8s.io:team/set']);
    expect(named.owners.gang(JOBSET, 'team')?.gang.podSets).toMatchObject([{ name: 'w', count: 2 }]);
    const other = await start(ALL, []);
    other.owners.named(JOBSET);
    await other.clock.advance(2_000);
    expect([other.owners.gangs(), other.owners.of(JOBSET, 'team')?.gang?.source]).toEqual([[], 'generic']);
    await Promise.all([named.owners.stop(), other.owners.stop()]);
  });

  const kind = jobKind(JOBSET);
  if (kind === undefined) throw new Error('JobSet is not in the table');
  const trainJob = { apiVersion: 'trainer.kubeflow.org/v1alpha1', kind: 'TrainJob', name: 't', uid: 't', controller: true };
  test.each<[string, object, boolean]>([
    ['positive control: annotated and alone', {}, true],
    ['not annotated', { annotations: {} }, false],
    ['with the name of a queue', { labels: { 'kueue.x-k8s.io/queue-name': 'gpu' } }, false],
    ['with a Workload made beforehand', { labels: { 'kueue.x-k8s.io/prebuilt-workload-name': 'w' } }, false],
    [
      'with one that an annotation names',
      { annotations: { 'harbinger.dev/prewarm': 'true', 'kueue.x-k8s.io/prebuilt-workload-name': 'w' } },
      false,
    ],
    [
      'negative twin: with another annotation of Kueue',
      { annotations: { 'harbinger.dev/prewarm': 'true', 'kueue.x-k8s.io/elastic-job': 'true' } },
      true,
    ],
    ['inside of another job, which speaks for it', { ownerReferences: [trainJob] }, false],
    ['owned by something that is no job', { ownerReferences: [{ ...trainJob, apiVersion: 'x.io/v1', kind: 'Flow' }] }, true],
  ])('%s', (_, change, want) => {
    expect(projectOwner(kind, jobSet(change)).gang !== undefined).toBe(want);
  });
  test('is one as well by a word on the template of its Pods, as the one inside of another job is not', () => {
    const template = { metadata: { annotations: { 'harbinger.dev/prewarm': 'true' } }, spec: {} };
    const spec = { suspend: true, replicatedJobs: [{ name: 'w', replicas: 2, template: { spec: { template } } }] };
    const found = (change: object) => projectOwner(kind, { ...jobSet({ annotations: {}, ...change }), spec }).gang;
    expect(found({})?.podSets.map((p) => p.name)).toEqual(['w']);
    expect([found({ ownerReferences: [trainJob] }), found({ labels: { 'kueue.x-k8s.io/queue-name': 'gpu' } })]).toEqual([
      undefined,
      undefined,
    ]);
  });
});
