import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { History } from '../../cluster/history.js';
import { notYet, until } from '../../cluster/until.js';
import {
  admitted,
  CHECK,
  conditionOf,
  gang,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersGone,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  runningPods,
  WORKLOAD,
  workloadOf,
} from '../controller/ground.js';

const KUEUE = 'kueue.x-k8s.io/v1beta2';
const JOBSET = 'jobset.x-k8s.io/v1alpha2/JobSet';
const RACK = 'example.com/rack';
const HOST = 'kubernetes.io/hostname';
const TAS_QUEUE = 'racks';

/** Serves a kind whose operator is not there: what Kueue and we read is what stands in the object. */
const jobSets: Draft = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'jobsets.jobset.x-k8s.io' },
  spec: {
    group: 'jobset.x-k8s.io',
    names: { kind: 'JobSet', plural: 'jobsets', singular: 'jobset', listKind: 'JobSetList' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1alpha2',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
      },
    ],
  },
};

/** Names on which the nodes of a topology assignment end, in either format that Kueue may write. */
function assignedHosts(workload: Raw): string[] {
  const assignment = workload['status'].admission.podSetAssignments[0].topologyAssignment;
  const of = (level: { universal?: string; individual?: { prefix?: string; roots: string[] } }, count: number): string[] =>
    level.universal === undefined
      ? (level.individual?.roots ?? []).map((r) => `${level.individual?.prefix ?? ''}${r}`)
      : Array.from({ length: count }, () => level.universal ?? '');
  return assignment.slices.flatMap((s: { domainCount: number; valuesPerLevel: Parameters<typeof of>[0][] }) =>
    of(s.valuesPerLevel.at(-1) ?? {}, s.domainCount),
  );
}

/** Gangs of every shape, with the real Kueue, its webhooks, topology-aware scheduling and the Pod integration. */
describe('a gang', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-gangs',
      kueue: { webhooks: true, frameworks: ['batch/job', 'pod', 'jobset.x-k8s.io/jobset'] },
      // Pods of two CPUs have a node each.
      nodes: { fake: { count: 4, allocatable: { cpu: '2' } } },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    await cluster.client.apply(jobSets);
    for (const [i, node] of cluster.fakeNodes.names.entries())
      await cluster.client.patch('v1/Node', node, { metadata: { labels: { [RACK]: `r${Math.floor(i / 2)}` } } });
    harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { budgets: { tagRecheckSeconds: 2 } },
    });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '3' }, checks: [CHECK] });
    await cluster.client.apply({
      apiVersion: KUEUE,
      kind: 'Topology',
      metadata: { name: 'racks' },
      spec: { levels: [{ nodeLabel: RACK }, { nodeLabel: HOST }] },
    });
    await cluster.client.apply({
      apiVersion: KUEUE,
      kind: 'ResourceFlavor',
      metadata: { name: TAS_QUEUE },
      spec: { topologyName: 'racks', nodeLabels: { 'kubernetes.io/os': 'linux' } },
    });
    const resources = [{ name: 'cpu', nominalQuota: '4' }];
    const admissionChecks = [{ name: CHECK }];
    await cluster.client.apply({
      apiVersion: KUEUE,
      kind: 'ClusterQueue',
      metadata: { name: TAS_QUEUE },
      spec: {
        namespaceSelector: {},
        resourceGroups: [{ coveredResources: ['cpu'], flavors: [{ name: TAS_QUEUE, resources }] }],
        admissionChecksStrategy: { admissionChecks },
      },
    });
    const spec = { clusterQueue: TAS_QUEUE };
    await cluster.client.apply({ apiVersion: KUEUE, kind: 'LocalQueue', metadata: { name: TAS_QUEUE, namespace: NS }, spec });
    await cluster.client.watchUntil(`${KUEUE}/ClusterQueue`, TAS_QUEUE, (q) => isTrue(q, 'Active'));
  }, 400_000);
  afterAll(async () => {
    if (process.env['SHOW_LOGS']) console.log(harbinger?.controllers[0]?.logs());
    await cluster?.stop();
  });
  // A test that failed must not take the later ones with it.
  afterEach(async () => {
    for (const job of await cluster.client.list('batch/v1/Job', { namespace: NS })) await removeJob(cluster, job.metadata.name);
  }, 120_000);

  const countOf = (p: Raw): unknown => p['spec'].targets[0].nodes.count;
  const bytesOf = async (resolved: string): Promise<number> => (await cluster.fakeNodes.bytes()).byImage[resolved] ?? 0;

  test('that is assigned to nodes one by one is warmed on exactly these, and runs there', async () => {
    const { image, resolved } = await pushImage(cluster, 'tas');
    const draft = gang('tas', image, { pods: 2, cpu: '2', queue: TAS_QUEUE, jobAnnotations: prewarm('120s') });
    const spec = draft['spec'] as { template: { metadata: { annotations: object } } };
    spec.template.metadata.annotations = { 'kueue.x-k8s.io/podset-required-topology': RACK };
    // Its quota is free: it is Ready only for as long as its Pods take to start.
    const records = new History(cluster.client, PREWARM, NS, (p) => p['spec'].gangRef?.name === 'tas');
    await cluster.client.create(draft);

    const warm = await records.reaches('warm nodes', (p) => ready(p) && p['status'].placement === 'Assigned', 60_000);
    await records.stop();
    const hosts = assignedHosts(await workloadOf(cluster, 'tas', admitted, 60_000));
    expect(hosts).toHaveLength(2);
    expect(warm['spec'].targets[0].nodes).toEqual({ names: hosts.sort() });
    expect(warm['status'].progress).toBe('2/2');
    const pods = await runningPods(cluster, 'tas', 2, 60_000);
    expect(pods.map((p) => p['spec'].nodeName).sort()).toEqual(hosts);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved]);
  }, 240_000);

  test('of plain Pods is read from its Workload, and opts in by what stands on its Pods', async () => {
    const { image } = await pushImage(cluster, 'group');
    const pod = (name: string): Draft => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        namespace: NS,
        labels: { 'kueue.x-k8s.io/queue-name': QUEUE, 'kueue.x-k8s.io/pod-group-name': 'group' },
        annotations: { 'kueue.x-k8s.io/pod-group-total-count': '2', ...prewarm('120s') },
      },
      spec: {
        restartPolicy: 'Never',
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'c', image, command: ['/pause', 'sleep', '3600'], resources: { requests: { cpu: '1' } } }],
      },
    });
    const records = new History(cluster.client, PREWARM, NS, (p) => p['spec'].gangRef?.name === 'group');
    await cluster.client.create(pod('group-a'));
    await cluster.client.create(pod('group-b'));
    const warm = await records.reaches('warm nodes', ready, 60_000);
    await records.stop();
    expect(warm['spec'].gangRef).toMatchObject({ apiGroup: 'kueue.x-k8s.io', kind: 'Workload', name: 'group' });
    expect(countOf(warm)).toBe(2);
    await cluster.client.watchUntil(WORKLOAD, `${NS}/group`, admitted, 60_000);
    await until('both Pods of the group to run', async () => {
      const pods = await cluster.client.list('v1/Pod', { namespace: NS, labelSelector: 'kueue.x-k8s.io/pod-group-name=group' });
      return pods.every((p) => p['status'].phase === 'Running') || notYet(pods.map((p) => p['status']));
    });
    for (const name of ['group-a', 'group-b']) await cluster.client.delete('v1/Pod', `${NS}/${name}`);
    await cluster.client.untilGone(WORKLOAD, `${NS}/group`);
  }, 240_000);

  test('H-38 that may start with fewer Pods is warmed for these, then for as many as it is given, and keeps them', async () => {
    const { image } = await pushImage(cluster, 'blocker');
    const partial = await pushImage(cluster, 'partial');
    await cluster.client.create(gang('blocker', image));
    await workloadOf(cluster, 'blocker', admitted, 60_000);
    const draft = gang('partial', partial.image, {
      pods: 4,
      jobAnnotations: { ...prewarm('120s'), 'kueue.x-k8s.io/job-min-parallelism': '2' },
    });
    delete (draft['spec'] as { completionMode?: string }).completionMode;
    await cluster.client.create(draft);
    const queued = await prewarmOf(cluster, 'partial', ready, 60_000);
    expect(countOf(queued)).toBe(2);
    const first = await bytesOf(partial.resolved);
    expect(first).toBeGreaterThan(0);

    await removeJob(cluster, 'blocker');
    const workload = await workloadOf(cluster, 'partial', admitted, 60_000);
    expect(workload['status'].admission.podSetAssignments[0].count).toBe(3);
    expect(countOf(await prewarmOf(cluster, 'partial', (p) => countOf(p) === 3))).toBe(3);
    await runningPods(cluster, 'partial', 3, 60_000);
    // Two of them may share a node: what a puller still pulls elsewhere belongs to what it was given.
    await pullersGone(cluster, partial.resolved);
    const given = await bytesOf(partial.resolved);

    const key = `${NS}/${workload.metadata.name}`;
    await cluster.client.patch(WORKLOAD, key, { spec: { active: false } });
    await cluster.client.watchUntil(WORKLOAD, key, (w) => !isTrue(w, 'QuotaReserved') && isTrue(w, 'Evicted'));
    await runningPods(cluster, 'partial', 0);
    expect(countOf(await prewarmOf(cluster, 'partial'))).toBe(3);
    expect(await bytesOf(partial.resolved)).toBe(given);
    await cluster.client.patch(WORKLOAD, key, { spec: { active: true } });
    await runningPods(cluster, 'partial', 3, 60_000);
    expect(countOf(await prewarmOf(cluster, 'partial'))).toBe(3);
  }, 400_000);

  test('of a JobSet opts in by what stands on the JobSet, and has a target for each of its Jobs', async () => {
    const { image } = await pushImage(cluster, 'set');
    const job = (name: string, replicas: number, parallelism: number): object => ({
      name,
      replicas,
      template: {
        spec: {
          parallelism,
          completions: parallelism,
          template: {
            spec: {
              restartPolicy: 'Never',
              containers: [{ name: 'c', image, resources: { requests: { cpu: '500m' } } }],
            },
          },
        },
      },
    });
    await cluster.client.create({
      apiVersion: 'jobset.x-k8s.io/v1alpha2',
      kind: 'JobSet',
      metadata: { name: 'set', namespace: NS, labels: { 'kueue.x-k8s.io/queue-name': QUEUE }, annotations: prewarm('120s') },
      spec: { suspend: true, replicatedJobs: [job('leader', 1, 1), job('workers', 1, 3)] },
    });
    const warm = await prewarmOf(cluster, 'set', ready, 60_000);
    expect(warm['spec'].gangRef).toMatchObject({ apiGroup: 'jobset.x-k8s.io', kind: 'JobSet', name: 'set' });
    const targets = warm['spec'].targets.map((t: { name: string; nodes: { count: number } }) => [t.name, t.nodes.count]);
    expect(targets).toEqual([
      ['leader', 1],
      ['workers', 3],
    ]);
    expect((await workloadOf(cluster, 'set')).metadata.annotations?.['harbinger.dev/prewarm']).toBeUndefined();
    await cluster.client.delete(JOBSET, `${NS}/set`);
    await until('the Workload of the JobSet to be gone', async () => {
      const left = await cluster.client.list(WORKLOAD, { namespace: NS });
      return left.length === 0 || notYet(left.map((w) => w.metadata.name));
    });
  }, 240_000);

  test('that nobody queues is warmed while it is suspended, runs the recorded digest, and has no Workload', async () => {
    const { image, resolved } = await pushImage(cluster, 'alone');
    const draft = gang('alone', image, { pods: 3, jobAnnotations: prewarm('120s') });
    draft.metadata['labels'] = {};
    await cluster.client.create(draft);
    const warm = await prewarmOf(cluster, 'alone', ready, 60_000);
    expect(warm['status']).toMatchObject({ progress: '3/3', gang: 'Job/alone' });
    const workloads = await cluster.client.list(WORKLOAD, { namespace: NS });
    expect(workloads.filter((w) => w.metadata.ownerReferences?.some((o) => o.name === 'alone'))).toEqual([]);

    await cluster.client.patch('batch/v1/Job', `${NS}/alone`, { spec: { suspend: false } });
    const pods = await runningPods(cluster, 'alone', 3, 60_000);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    const released = await prewarmOf(cluster, 'alone', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('WarmVerified');
  }, 240_000);

  test('that nobody queues and that was never suspended is left alone: its Pods are there already', async () => {
    const { image, resolved } = await pushImage(cluster, 'started');
    const draft = gang('started', image, { pods: 1, jobAnnotations: prewarm() });
    draft.metadata['labels'] = {};
    (draft['spec'] as { suspend: boolean }).suspend = false;
    await cluster.client.create(draft);
    await runningPods(cluster, 'started', 1, 60_000);
    expect(await pullersOf(cluster, resolved)).toEqual([]);
    const all = await cluster.client.list(PREWARM, { namespace: NS });
    expect(all.filter((p) => p['spec'].gangRef?.name === 'started')).toEqual([]);
  }, 120_000);
});
