import { describe, expect, test } from '@jest/globals';
import { podsOf } from '../../../src/cli/pods-of.js';

const template = { metadata: { labels: { app: 'a' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };

type Case = [title: string, apiVersion: string, kind: string, spec: object, paths: string[], owner: string | undefined];
const CASES: Case[] = [
  ['a Deployment', 'apps/v1', 'Deployment', { template }, ['spec.template'], 'ReplicaSet'],
  ['a CronJob', 'batch/v1', 'CronJob', { jobTemplate: { spec: { template } } }, ['spec.jobTemplate.spec.template'], 'Job'],
  ['a StatefulSet', 'apps/v1', 'StatefulSet', { template }, ['spec.template'], 'StatefulSet'],
  [
    'a JobSet',
    'jobset.x-k8s.io/v1alpha2',
    'JobSet',
    { replicatedJobs: [{ template: { spec: { template } } }, { template: { spec: { template } } }] },
    ['spec.replicatedJobs[0].template.spec.template', 'spec.replicatedJobs[1].template.spec.template'],
    'Job',
  ],
  [
    'a LeaderWorkerSet',
    'leaderworkerset.x-k8s.io/v1',
    'LeaderWorkerSet',
    { leaderWorkerTemplate: { leaderTemplate: template, workerTemplate: template } },
    ['spec.leaderWorkerTemplate.leaderTemplate', 'spec.leaderWorkerTemplate.workerTemplate'],
    'StatefulSet',
  ],
  [
    'a PyTorchJob',
    'kubeflow.org/v1',
    'PyTorchJob',
    { pytorchReplicaSpecs: { Worker: { template } } },
    ['spec.pytorchReplicaSpecs.Worker.template'],
    'PyTorchJob',
  ],
  ['a Volcano Job', 'batch.volcano.sh/v1alpha1', 'Job', { tasks: [{ template }] }, ['spec.tasks[0].template'], 'Job'],
  [
    'a RayJob',
    'ray.io/v1',
    'RayJob',
    { rayClusterSpec: { headGroupSpec: { template } } },
    ['spec.rayClusterSpec.headGroupSpec.template'],
    'RayCluster',
  ],
  ['an Argo Rollout', 'argoproj.io/v1alpha1', 'Rollout', { template }, ['spec.template'], 'ReplicaSet'],
  ['a Knative Service', 'serving.knative.dev/v1', 'Service', { template }, ['spec.template'], 'ReplicaSet'],
  ['a Notebook', 'kubeflow.org/v1', 'Notebook', { template }, ['spec.template'], 'StatefulSet'],
  [
    'a Job in an AppWrapper',
    'workload.codeflare.dev/v1beta2',
    'AppWrapper',
    { components: [{ template: { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'j' }, spec: { template } } }] },
    ['spec.components[0].template.spec.template'],
    'Job',
  ],
  [
    'a Pod in an AppWrapper',
    'workload.codeflare.dev/v1beta2',
    'AppWrapper',
    { components: [{ template: { apiVersion: 'v1', kind: 'Pod', ...template } }] },
    ['spec.components[0].template'],
    'AppWrapper',
  ],
  [
    'a kind that nobody has listed',
    'new.example.com/v1',
    'Thing',
    { a: { b: [{ pod: template }] } },
    ['spec.a.b[0].pod'],
    'Thing',
  ],
];

describe('Pods are found in', () => {
  test.each(CASES)('%s', (...[, apiVersion, kind, spec, paths, owner]) => {
    const found = podsOf({ apiVersion, kind, metadata: { name: 'n', namespace: 'ns' }, spec });
    expect(found.map(({ path }) => path)).toEqual(paths);
    for (const { pod } of found)
      expect(pod).toMatchObject({
        kind: 'Pod',
        metadata: { namespace: 'ns', labels: { app: 'a' }, ownerReferences: [{ kind: owner, controller: true }] },
        spec: template.spec,
      });
  });

  test('a Pod, which is taken as it is', () => {
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers: [] } };
    expect(podsOf(pod)).toEqual([{ path: '', pod }]);
  });

  test('a kind that nobody has listed, whose Pods may be owned by something behind it', () => {
    const owners = CASES.map(([, apiVersion, kind, spec]) => podsOf({ apiVersion, kind, spec })[0]?.assumedOwner);
    expect(owners.filter((owner) => owner !== undefined)).toEqual(['Thing.new.example.com']);
  });

  test('a PodTemplate, which no controller owns', () => {
    const [found] = podsOf({ apiVersion: 'v1', kind: 'PodTemplate', metadata: { name: 't' }, template });
    expect(found?.path).toBe('template');
    expect(found?.pod['metadata']).not.toHaveProperty('ownerReferences');
  });
});

describe('Pods are not found in', () => {
  test.each([
    ['other kinds', { kind: 'ConfigMap', data: { spec: 'containers' } }],
    ['a Pod without spec', { kind: 'Pod', metadata: {} }],
    ['the schema of a CRD', { kind: 'CustomResourceDefinition', spec: { schema: { spec: { containers: { type: 'array' } } } } }],
    ['a status', { kind: 'Thing', status: { template } }],
    ['what was applied last', { kind: 'Thing', metadata: { annotations: { template } } }],
    ['nesting without end', nested(10_000)],
    ['nothing', {}],
  ])('%s', (_, object) => {
    expect(podsOf(object)).toEqual([]);
  });

  test('objects of more parts than anybody writes: looking ends', () => {
    const wide = { kind: 'Thing', spec: { list: Array.from({ length: 100_000 }, () => ({ a: {} })) }, tail: template };
    expect(podsOf(wide)).toEqual([]);
  });
});

function nested(levels: number): Record<string, unknown> {
  let inner: Record<string, unknown> = { ...template };
  for (let i = 0; i < levels; i++) inner = { a: inner };
  return inner;
}

describe('the gang of a Pod', () => {
  test('is its object, with the uid by which Pods of a JobSet name it', () => {
    const object = {
      apiVersion: 'jobset.x-k8s.io/v1alpha2',
      kind: 'JobSet',
      metadata: { name: 'j', uid: 'u' },
      spec: { replicatedJobs: [{ template: { spec: { template } } }] },
    };
    const [found] = podsOf(object);
    expect(found?.gang).toEqual({ apiGroup: 'jobset.x-k8s.io', kind: 'JobSet', name: 'j', uid: 'u' });
    expect(found?.pod['metadata']).toMatchObject({ labels: { app: 'a', 'jobset.sigs.k8s.io/jobset-uid': 'u' } });
  });

  test('is the owner of a Kueue Workload', () => {
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'u', controller: true };
    const object = {
      apiVersion: 'kueue.x-k8s.io/v1beta2',
      kind: 'Workload',
      metadata: { name: 'job-train', ownerReferences: [owner] },
      spec: { podSets: [{ name: 'main', template }] },
    };
    const [found] = podsOf(object);
    expect(found).toMatchObject({
      path: 'spec.podSets[0].template',
      gang: { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'u' },
    });
    expect(found?.pod['metadata']).toMatchObject({ ownerReferences: [owner] });
  });
});
