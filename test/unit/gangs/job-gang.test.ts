import { describe, expect, test } from '@jest/globals';
import type { Json } from '../../../src/api/json.js';
import { GENERIC_KINDS } from '../../../src/api/generic-kinds.js';
import { gangOfJob } from '../../../src/gangs/job-gang.js';
import { JOB_KINDS, jobKind, kindName } from '../../../src/gangs/kinds.js';
import type { Gang } from '../../../src/gangs/shape.js';
import { templateFacts } from '../../../src/gangs/pod-templates.js';

const template = (image: string): Json => ({ spec: { containers: [{ name: 'c', image }] } });

function read(name: string, spec: unknown, status: unknown = {}): Gang {
  const [kind = '', ...group] = name.split('.');
  const known = jobKind({ apiGroup: group.join('.'), kind });
  if (known === undefined) throw new Error(`${name} is not in the table`);
  const apiVersion = `${known.group}/${known.versions[0] ?? ''}`;
  const metadata = { name: 'j', namespace: 'team', uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' };
  const gang = gangOfJob(known, { apiVersion, kind, metadata, spec, status });
  if (gang === undefined) throw new Error(`${name} has no shape`);
  return gang;
}

const podSetsOf = (gang: Gang): unknown[] => gang.podSets.map((p) => [p.name, p.count, ...templateFacts(p.template).images]);

describe('Pods of a job that nobody queues', () => {
  test.each<[string, string, unknown, unknown[]]>([
    ['Job', 'Job.batch', { parallelism: 4, completions: 4, template: template('a') }, [['main', 4, 'a']]],
    [
      'Job with fewer completions than parallelism',
      'Job.batch',
      { parallelism: 9, completions: 2, template: template('a') },
      [['main', 2, 'a']],
    ],
    ['Job that says nothing', 'Job.batch', { template: template('a') }, [['main', 1, 'a']]],
    ['Job with parallelism 0', 'Job.batch', { parallelism: 0, template: template('a') }, [['main', 0, 'a']]],
    [
      'JobSet, where replicas multiply parallelism',
      'JobSet.jobset.x-k8s.io',
      {
        replicatedJobs: [
          { name: 'leader', replicas: 1, template: { spec: { template: template('l') } } },
          { name: 'workers', replicas: 2, template: { spec: { parallelism: 3, completions: 3, template: template('w') } } },
        ],
      },
      [
        ['leader', 1, 'l'],
        ['workers', 6, 'w'],
      ],
    ],
    [
      'MPIJob, by the names of its roles in small letters',
      'MPIJob.kubeflow.org',
      {
        mpiReplicaSpecs: {
          Launcher: { replicas: 1, template: template('l') },
          Worker: { replicas: 16, template: template('w') },
        },
      },
      [
        ['launcher', 1, 'l'],
        ['worker', 16, 'w'],
      ],
    ],
    [
      'PyTorchJob',
      'PyTorchJob.kubeflow.org',
      { pytorchReplicaSpecs: { Master: { template: template('t') }, Worker: { replicas: 3, template: template('t') } } },
      [
        ['master', 1, 't'],
        ['worker', 3, 't'],
      ],
    ],
    [
      'RayCluster, with hosts per replica, and replicas rather than the maximum',
      'RayCluster.ray.io',
      {
        headGroupSpec: { template: template('r') },
        workerGroupSpecs: [{ groupName: 'gpu', replicas: 2, numOfHosts: 4, maxReplicas: 5, template: template('r') }],
      },
      [
        ['head', 1, 'r'],
        ['gpu', 8, 'r'],
      ],
    ],
    [
      'RayJob with a submitter of its own',
      'RayJob.ray.io',
      {
        rayClusterSpec: { headGroupSpec: { template: template('r') }, workerGroupSpecs: [] },
        submitterPodTemplate: template('s'),
      },
      [
        ['head', 1, 'r'],
        ['submitter', 1, 's'],
      ],
    ],
    ['RayJob on a cluster that is there', 'RayJob.ray.io', { clusterSelector: { a: 'b' } }, []],
    ['what cannot be read', 'JobSet.jobset.x-k8s.io', { replicatedJobs: [null, 7, { name: 'x' }] }, []],
    ['what is no object at all', 'TFJob.kubeflow.org', 'x', []],
  ])('%s', (_, name, spec, want) => {
    expect(podSetsOf(read(name, spec))).toEqual(want);
  });

  test('have names that differ, since records are kept by them', () => {
    const spec = { pytorchReplicaSpecs: { Worker: { template: template('a') }, worker: { template: template('b') } } };
    expect(podSetsOf(read('PyTorchJob.kubeflow.org', spec))).toEqual([
      ['worker', 1, 'a'],
      ['worker-1', 1, 'b'],
    ]);
  });

  test('are bounded whatever the object claims', () => {
    const part = { replicas: 1e9, template: { spec: { parallelism: 1e9, template: template('a') } } };
    const replicatedJobs = Array.from({ length: 500 }, (_, i) => ({ name: `j${i}`, ...part }));
    const { podSets } = read('JobSet.jobset.x-k8s.io', { replicatedJobs });
    expect(podSets).toHaveLength(18);
    expect(Math.max(...podSets.map((p) => p.count))).toBe(100_000);
  });
});

describe('a job that nobody queues', () => {
  const on = (type: string, status = 'True', lastTransitionTime = '2026-01-01T01:00:00Z') => ({
    type,
    status,
    lastTransitionTime,
  });
  const job = { parallelism: 2, template: template('a') };
  test.each<[string, Gang, Partial<Gang['state']>]>([
    ['waits while it is suspended', read('Job.batch', { ...job, suspend: true }), { admitted: false, finished: false }],
    ['is let go once it is not', read('Job.batch', job), { admitted: true, podsReady: false }],
    [
      'was let go when it was resumed',
      read('Job.batch', job, { conditions: [on('Suspended', 'False')] }),
      { admittedAt: Date.parse('2026-01-01T01:00:00Z') },
    ],
    ['runs when all of its Pods are ready', read('Job.batch', job, { ready: 2 }), { podsReady: true }],
    ['does not while one is missing', read('Job.batch', job, { ready: 1 }), { podsReady: false }],
    ['has ended when it says so', read('Job.batch', job, { conditions: [on('Failed')] }), { finished: true, admitted: false }],
    ['has ended as a RayJob by its phase', read('RayJob.ray.io', {}, { jobDeploymentStatus: 'Complete' }), { finished: true }],
    [
      'is suspended as an MPIJob by its policy',
      read('MPIJob.kubeflow.org', { runPolicy: { suspend: true }, mpiReplicaSpecs: {} }),
      { admitted: false },
    ],
    [
      'runs as a JobSet when its Jobs are ready',
      read(
        'JobSet.jobset.x-k8s.io',
        { replicatedJobs: [{ name: 'w', replicas: 2, template: { spec: { template: template('w') } } }] },
        { replicatedJobsStatus: [{ name: 'w', ready: 2 }] },
      ),
      { podsReady: true },
    ],
  ])('%s', (_, gang, want) => {
    expect(gang).toMatchObject({ source: 'generic', state: want });
    expect(gang.state.reservedAt).toBeUndefined();
  });
});

describe('the table of kinds', () => {
  test('names each kind once, and no resource twice', () => {
    const names = JOB_KINDS.map(kindName);
    expect(new Set(names).size).toBe(names.length);
    expect(new Set(JOB_KINDS.map((k) => `${k.group}/${k.plural}`)).size).toBe(names.length);
  });

  test('reads without Kueue only what can be made to wait, all of which the configuration may name', () => {
    expect(GENERIC_KINDS).toEqual(JOB_KINDS.filter((k) => k.shape !== undefined).map(kindName));
    for (const name of ['Pod', 'StatefulSet.apps', 'LeaderWorkerSet.leaderworkerset.x-k8s.io', 'TrainJob.trainer.kubeflow.org'])
      expect(GENERIC_KINDS).not.toContain(name);
  });
});
