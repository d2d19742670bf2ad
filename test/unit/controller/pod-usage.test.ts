import { describe, expect, test } from '@jest/globals';
import type { RawObject } from '../../../src/kube/reflector.js';
import { PodUsages } from '../../../src/controller/nodes/pod-usage.js';

const raw = (change: { metadata?: object; spec?: object; status?: object } = {}): RawObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', namespace: 'team', creationTimestamp: '2026-01-01T00:00:00Z', ...change.metadata },
  spec: { nodeName: 'n', containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu: '1500m' } } }], ...change.spec },
  status: { phase: 'Running', ...change.status },
});
const project = (pod: RawObject) => new PodUsages().project(pod);
const waiting = (reason: string) => ({
  phase: 'Pending',
  containerStatuses: [{ name: 'c', state: { waiting: { reason } } }],
});

describe('what is kept of a Pod', () => {
  test('its node, state, requests and images', () => {
    const created = Date.parse('2026-01-01T00:00:00Z');
    expect(project(raw())).toEqual({
      namespace: 'team',
      node: 'n',
      state: 'running',
      createdAt: created,
      shape: { requests: { cpu: 1500 }, gangs: [], images: ['a:1'], undecided: ['a:1'] },
    });
  });
  test('Pods of one template share what is equal; another template does not', () => {
    const { project: of } = new PodUsages();
    const owner = { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'u', controller: true }] };
    const [a, b] = [of(raw({ metadata: { name: 'a', ...owner } })), of(raw({ metadata: { name: 'b', ...owner } }))];
    expect(a.shape.gangs).toEqual(['u']);
    expect(a.shape).toBe(b.shape);
    expect(of(raw()).shape).not.toBe(a.shape);
  });

  const states: [string, Parameters<typeof raw>[0], string][] = [
    ['a bound Pod of which the kubelet says nothing is starting', { status: { phase: 'Pending' } }, 'starting'],
    ['one that pulls is starting', { status: waiting('ContainerCreating') }, 'starting'],
    ['one that cannot pull waits', { status: waiting('ImagePullBackOff') }, 'waiting'],
    ['one that is not bound waits', { spec: { nodeName: undefined }, status: { phase: 'Pending' } }, 'waiting'],
    ['one that is being deleted leaves', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }, 'leaving'],
    ['one that ran to its end is done', { status: { phase: 'Succeeded' } }, 'done'],
    ['and stays so while it is deleted', { metadata: { deletionTimestamp: 'x' }, status: { phase: 'Succeeded' } }, 'done'],
    [
      'one that has failed is over, deleted or not',
      { metadata: { deletionTimestamp: 'x' }, status: { phase: 'Failed' } },
      'over',
    ],
    [
      'a puller that starts is no reason against another',
      { metadata: { labels: { 'harbinger.dev/puller': 'x' } }, status: { phase: 'Pending' } },
      'waiting',
    ],
  ];
  test.each(states)('%s', (_title, change, state) => expect(project(raw(change)).state).toBe(state));

  const managed = { 'kueue.x-k8s.io/managed': 'true' };
  const queued: [string, object, string | undefined][] = [
    ['of a Job', {}, undefined],
    ['that Kueue takes by itself', { labels: managed }, 'p-uid'],
    ['of a group', { labels: { ...managed, 'kueue.x-k8s.io/pod-group-name': 'g' } }, 'Workload.kueue.x-k8s.io/g'],
    [
      'of a group that is named by an annotation',
      { labels: managed, annotations: { 'kueue.x-k8s.io/pod-group-name': 'g' } },
      'Workload.kueue.x-k8s.io/g',
    ],
    ['of a group that Kueue does not take', { labels: { 'kueue.x-k8s.io/pod-group-name': 'g' } }, undefined],
  ];
  test.each(queued)('the gang that a Pod %s is in Kueue', (_title, metadata, key) => {
    expect(project(raw({ metadata: { uid: 'p-uid', ...metadata } })).queuedAs).toBe(key);
  });

  const decided: [string, object, object, string[]][] = [
    ['a decision of the webhook decides', { 'harbinger.dev/decisions': '[]' }, {}, []],
    ['a Pod that opted out has nothing to decide', { 'harbinger.dev/accelerate': 'false' }, {}, []],
    ['nor has a container that is skipped', { 'harbinger.dev/skip-containers': 'x, c' }, {}, []],
    ['an image that is never pulled is none', {}, { containers: [{ name: 'c', image: 'a:1', imagePullPolicy: 'Never' }] }, []],
    ['all others are open', {}, {}, ['a:1']],
  ];
  test.each(decided)('%s', (_title, annotations, spec, expected) => {
    expect(project(raw({ metadata: { annotations }, spec })).shape.undecided).toEqual(expected);
  });
  test.each([[{}], [{ spec: null, status: [] }], [{ spec: { containers: 7 }, status: { phase: {} } }]])(
    'what cannot be read is absent: %j',
    (odd) => {
      const broken = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, ...odd } as unknown as RawObject;
      expect(project(broken)).toMatchObject({ node: '', shape: { requests: {}, images: [] } });
    },
  );
});
