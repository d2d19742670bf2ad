import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { gangKeys, gangKeysOfPod, isNameKey } from '../../../src/gangs/identity.js';

const JOBSET = 'jobset.sigs.k8s.io/jobset-uid';
const uidsOf = (metadata: unknown): string[] => gangKeysOfPod({ metadata } as KubeObject);

describe('gangKeysOfPod', () => {
  test.each<[string, Record<string, unknown>, string[]]>([
    ['the job that controls the Pod', { ownerReferences: [{ uid: 'job', controller: true }] }, ['job']],
    ['no owner that does not control', { ownerReferences: [{ uid: 'other' }, { uid: 'job', controller: true }] }, ['job']],
    [
      'the JobSet behind the Job, after the Job',
      { ownerReferences: [{ uid: 'job', controller: true }], labels: { [JOBSET]: 'set' } },
      ['job', 'set'],
    ],
    ['a JobSet alone', { labels: { [JOBSET]: 'set' } }, ['set']],
    ['one UID once', { ownerReferences: [{ uid: 'set', controller: true }], labels: { [JOBSET]: 'set' } }, ['set']],
    ['no other label', { labels: { 'kueue.x-k8s.io/job-uid': 'job', app: 'x' } }, []],
    ['nothing of a Pod of its own', {}, []],
    ['nothing of what cannot be read', { ownerReferences: 'x', labels: { [JOBSET]: 7 } }, []],
    ['no empty UID', { ownerReferences: [{ uid: '', controller: true }, { controller: true }], labels: { [JOBSET]: '' } }, []],
    [
      'the JobSet before the TrainJob that made it',
      { labels: { [JOBSET]: 'set', 'jobset.sigs.k8s.io/jobset-name': 'tune' } },
      ['set', 'TrainJob.trainer.kubeflow.org/tune'],
    ],
    [
      'the MPIJob behind the Job of its launcher',
      { ownerReferences: [{ uid: 'job', controller: true }], labels: { 'training.kubeflow.org/job-name': 'pi' } },
      ['job', 'MPIJob.kubeflow.org/pi'],
    ],
    [
      'what a Ray cluster was made for, by the name without its random end',
      { ownerReferences: [{ uid: 'cluster', controller: true }], labels: { 'ray.io/cluster': 'tune-x7k2p' } },
      ['cluster', 'RayJob.ray.io/tune', 'RayService.ray.io/tune'],
    ],
    ['no RayJob for a cluster with a name of its own', { labels: { 'ray.io/cluster': 'shared' } }, []],
    [
      'the RayJob behind the Job that submits it',
      { ownerReferences: [{ uid: 'job', controller: true }], labels: { 'batch.kubernetes.io/job-name': 'tune' } },
      ['job', 'RayJob.ray.io/tune'],
    ],
    [
      'the AppWrapper around a job of any kind',
      { ownerReferences: [{ uid: 'job', controller: true }], labels: { 'workload.codeflare.dev/appwrapper': 'wrap' } },
      ['job', 'AppWrapper.workload.codeflare.dev/wrap'],
    ],
    [
      'the SparkApplication of an executor, which a Pod owns',
      { ownerReferences: [{ uid: 'driver', controller: true }], labels: { 'sparkoperator.k8s.io/app-name': 'pi' } },
      ['driver', 'SparkApplication.sparkoperator.k8s.io/pi'],
    ],
  ])('names %s', (_, metadata, want) => {
    expect(uidsOf(metadata)).toEqual(want);
  });
});

describe('gangKeys', () => {
  test.each<[string, Parameters<typeof gangKeys>[0], string[]]>([
    ['UID and name', { apiGroup: 'ray.io', kind: 'RayJob', name: 'tune', uid: 'u' }, ['u', 'RayJob.ray.io/tune']],
    ['a kind of the core group without a dot', { apiGroup: '', kind: 'Pod', name: 'p', uid: 'u' }, ['u', 'Pod/p']],
    ['nothing of an object made by hand', {}, []],
    ['nothing of what cannot be read', { apiGroup: 7, kind: ['RayJob'], name: {}, uid: 0 }, []],
  ])('gives %s', (_, ref, want) => {
    expect(gangKeys(ref)).toEqual(want);
  });

  test('tells names from UIDs', () => {
    const [uid = '', name = ''] = gangKeys({ apiGroup: 'batch', kind: 'Job', name: 'j', uid: '1b4e28ba-2fa1-11d2' });
    expect([isNameKey(uid), isNameKey(name)]).toEqual([false, true]);
  });
});
