import { describe, expect, test } from '@jest/globals';
import { gangTimes } from '../../../demo/gang-times.js';
import type { LegNames, Observation, Seen } from '../../../demo/gang-times.js';

const DIGEST = 'sha256:abc';
const NAMES: LegNames = { leg: 'harbinger', job: 'train', blocker: 'blocker', pods: 2, digest: DIGEST };

const condition = (type: string, status: 'True' | 'False') => ({
  type,
  status,
  reason: 'X',
  message: '',
  lastTransitionTime: '',
});

function workload(
  at: number,
  job: string,
  type: Observation['type'],
  conditions: ReturnType<typeof condition>[] = [],
): Observation {
  return { at, resource: 'workloads', type, object: owned('Workload', `job-${job}`, job, { status: { conditions } }) };
}

function pod(at: number, job: string, node: string | undefined, running: boolean): Observation {
  const status = running
    ? { phase: 'Running', containerStatuses: [{ started: true, state: { running: {} } }] }
    : { phase: 'Pending' };
  return {
    at,
    resource: 'pods',
    type: 'MODIFIED',
    object: owned('Pod', `${job}-${node}`, job, { spec: node === undefined ? {} : { nodeName: node }, status }),
  };
}

function puller(at: number, node: string, running: boolean, digest = DIGEST): Observation {
  const seen = pod(at, 'puller-x', node, running);
  const volumes = [{ image: { reference: `host/repo@${digest}` } }];
  return {
    ...seen,
    object: {
      ...seen.object,
      metadata: { ...seen.object.metadata, labels: { 'harbinger.dev/puller': 'x' } },
      spec: { ...seen.object.spec, volumes },
    },
  };
}

function owned(kind: string, name: string, owner: string, more: Partial<Seen>): Seen {
  const ownerReferences = [{ apiVersion: 'batch/v1', kind: 'Job', name: owner, uid: owner, controller: true }];
  return { apiVersion: 'v1', kind, metadata: { name, namespace: 'n', ownerReferences }, ...more };
}

const STORY: Observation[] = [
  workload(1, 'blocker', 'ADDED'),
  workload(2, 'blocker', 'MODIFIED', [condition('QuotaReserved', 'True'), condition('Admitted', 'True')]),
  workload(10, 'train', 'ADDED'),
  puller(12, 'a', false),
  puller(13, 'b', false),
  puller(40, 'b', true),
  puller(42, 'a', true),
  workload(50, 'blocker', 'DELETED', [condition('QuotaReserved', 'True')]),
  workload(51, 'train', 'MODIFIED', [condition('Admitted', 'True')]),
  pod(52, 'train', 'a', false),
  pod(52, 'train', 'b', false),
  pod(55, 'train', 'b', true),
  pod(57, 'train', 'a', true),
  pod(58, 'train', 'b', true),
];

describe('gangTimes', () => {
  test('measures from the end of the blocker to the last Pod running', () => {
    expect(gangTimes(STORY, NAMES)).toEqual({
      ok: true,
      times: {
        leg: 'harbinger',
        pods: 2,
        queuedAt: 10,
        quotaFreeAt: 50,
        admittedAt: 51,
        firstRunningAt: 55,
        lastRunningAt: 57,
        nodes: [
          { node: 'a', pullFrom: 12, pullTo: 42, runningAt: 57 },
          { node: 'b', pullFrom: 13, pullTo: 40, runningAt: 55 },
        ],
      },
    });
  });

  test('takes the Pods of a cold gang themselves for the pull', () => {
    const answer = gangTimes(STORY, { leg: 'cold', job: 'train', blocker: 'blocker', pods: 2 });
    expect(answer.ok && answer.times.nodes[0]).toEqual({ node: 'a', pullFrom: 52, pullTo: 57, runningAt: 57 });
  });

  test('draws no pull for the warm control, and none from pullers of another image', () => {
    const warm = gangTimes(STORY, { ...NAMES, leg: 'warm', digest: 'sha256:other' });
    expect(warm.ok && warm.times.nodes.map((n) => n.pullFrom)).toEqual([undefined, undefined]);
  });

  test.each<[string, (o: Observation) => boolean, RegExp]>([
    ['the blocker never ended', (o) => o.type !== 'DELETED', /release of the quota/],
    ['the gang was never admitted', (o) => o.at !== 51, /admission/],
    ['a Pod never ran', (o) => o.at !== 57, /2 running Pods .*seen: 1/],
    ['the gang was never queued', (o) => o.at !== 10, /Workload of Job train/],
    ['nothing was seen', () => false, /Workload/],
  ])('names what is missing when %s, and makes nothing up', (_case, keep, missing) => {
    const answer = gangTimes(STORY.filter(keep), NAMES);
    expect(answer.ok).toBe(false);
    expect(!answer.ok && answer.missing.join('; ')).toMatch(missing);
  });

  test('counts a gang with two Pods on one node as not complete', () => {
    const onOneNode = STORY.map((o) =>
      o.resource === 'pods' && o.object.spec?.nodeName === 'b' ? { ...o, object: { ...o.object, spec: { nodeName: 'a' } } } : o,
    );
    expect(gangTimes(onOneNode, NAMES).ok).toBe(false);
  });

  test.each([
    ['finished', [condition('QuotaReserved', 'True'), condition('Finished', 'True')]],
    ['lost its reservation', [condition('QuotaReserved', 'False')]],
  ])('takes a blocker that %s for free quota', (_how, conditions) => {
    const story = STORY.map((o) => (o.type === 'DELETED' ? workload(49, 'blocker', 'MODIFIED', conditions) : o));
    const answer = gangTimes(story, NAMES);
    expect(answer.ok && answer.times.quotaFreeAt).toBe(49);
  });
});
