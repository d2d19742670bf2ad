import { describe, expect, test } from '@jest/globals';
import { gangKeysOfPod } from '../../../src/gangs/identity.js';
import { templateFacts } from '../../../src/gangs/pod-templates.js';

const images = (spec: unknown): string[] => templateFacts({ spec }).images;

describe('images of a Pod template', () => {
  const rows: [string, unknown, string[]][] = [
    ['containers, in order', { containers: [{ image: 'a' }, { image: 'b' }] }, ['a', 'b']],
    [
      'init containers and sidecars come first: they run first',
      { initContainers: [{ image: 'i' }, { image: 's', restartPolicy: 'Always' }], containers: [{ image: 'a' }] },
      ['i', 's', 'a'],
    ],
    ['each image once', { initContainers: [{ image: 'a' }], containers: [{ image: 'a' }, { image: 'b' }] }, ['a', 'b']],
    [
      'image volumes are pulled too',
      { containers: [{ image: 'a' }], volumes: [{ image: { reference: 'data' } }, { emptyDir: {} }] },
      ['a', 'data'],
    ],
    ['pull policy Never is not pulled', { containers: [{ image: 'a', imagePullPolicy: 'Never' }, { image: 'b' }] }, ['b']],
    ['containers without an image have none', { containers: [{}, { image: '' }, { image: '  ' }, { image: 7 }] }, []],
    ['no containers', {}, []],
    ['a spec that is no object', 'broken', []],
    ['containers that are no list', { containers: { image: 'a' } }, []],
  ];
  test.each(rows)('%s', (_title, spec, expected) => {
    expect(images(spec)).toEqual(expected);
  });
});

describe('requests of one Pod', () => {
  const cpu = (requests: string, more = {}): unknown => ({ resources: { requests: { cpu: requests } }, ...more });
  const rows: [string, unknown, number][] = [
    ['containers add up', { containers: [cpu('1'), cpu('500m')] }, 1.5],
    ['an init container counts while it runs', { initContainers: [cpu('4')], containers: [cpu('1')] }, 4],
    ['a sidecar adds to the containers', { initContainers: [cpu('2', { restartPolicy: 'Always' })], containers: [cpu('1')] }, 3],
    [
      'a sidecar adds to later init containers, not to earlier ones',
      { initContainers: [cpu('5'), cpu('2', { restartPolicy: 'Always' }), cpu('4')], containers: [cpu('1')] },
      6,
    ],
    ['a limit without a request is the request', { containers: [{ resources: { limits: { cpu: '3' } } }] }, 3],
    ['overhead is added', { containers: [cpu('1')], overhead: { cpu: '250m' } }, 1.25],
    ['a quantity that cannot be read counts as 0', { containers: [cpu('lots')] }, 0],
  ];
  test.each(rows)('%s', (_title, spec, expected) => {
    expect(templateFacts({ spec }).requests['cpu']).toBeCloseTo(expected);
  });
});

test('selectors, tolerations, secrets and runtime class are read', () => {
  const terms = [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] }];
  const facts = templateFacts({
    metadata: { annotations: { x: 'y', n: 1 } },
    spec: {
      nodeSelector: { gpu: 'h100' },
      tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
      imagePullSecrets: [{ name: 's' }, {}, { name: '' }],
      runtimeClassName: 'nydus',
      serviceAccountName: 'train',
      affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
    },
  });
  expect(facts).toMatchObject({
    annotations: { x: 'y' },
    nodeSelector: { gpu: 'h100' },
    tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }],
    imagePullSecrets: ['s'],
    runtimeClassName: 'nydus',
    serviceAccountName: 'train',
    affinityTerms: terms,
  });
});

describe('identity of a Pod', () => {
  const owner = (uid: string, controller?: boolean) => ({
    apiVersion: 'batch/v1',
    kind: 'Job',
    name: uid,
    uid,
    ...(controller === undefined ? {} : { controller }),
  });
  const pod = (ownerReferences: unknown) =>
    ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p', ownerReferences } }) as Parameters<typeof gangKeysOfPod>[0];
  test('is the UID of its controller', () => expect(gangKeysOfPod(pod([owner('other'), owner('job', true)]))).toEqual(['job']));
  test('is nothing for a Pod without one', () => expect(gangKeysOfPod(pod([owner('other', false)]))).toEqual([]));
  test('is nothing for owner references of null', () => expect(gangKeysOfPod(pod(null))).toEqual([]));
});
