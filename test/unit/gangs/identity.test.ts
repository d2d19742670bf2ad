import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { gangUidsOfPod } from '../../../src/gangs/identity.js';

const JOBSET = 'jobset.sigs.k8s.io/jobset-uid';
const uidsOf = (metadata: unknown): string[] => gangUidsOfPod({ metadata } as KubeObject);

describe('gangUidsOfPod', () => {
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
  ])('names %s', (_, metadata, want) => {
    expect(uidsOf(metadata)).toEqual(want);
  });
});
