import { describe, expect, test } from '@jest/globals';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import type { ContainerState, PullerPod, PullState } from '../../../src/preheat/evidence.js';
import { pullState } from '../../../src/preheat/evidence.js';
import { classifyPullError } from '../../../src/preheat/pull-errors.js';
import { pullerOf } from '../../../src/preheat/puller.js';
import { node } from '../placement/nodes.js';
import { image, pod, puller, T0, waiting } from './fixtures.js';

const at = { now: T0 + 60_000, deadlineMs: 600_000 };
const running = (change: Partial<ContainerState>): ContainerState => ({
  started: true,
  hasRun: true,
  restarts: 0,
  runningSince: T0 + 5_000,
  ...change,
});

describe('proof of warm (P4)', () => {
  test('a Pod of the puller, on its node, pinned, running, past the probe: warm', () => {
    expect(pullState(puller(), pod(), node('n1'), at)).toEqual({ state: 'warm', inFlight: false, tookMs: 5_000 });
  });

  test('a Pod object that outlived its node and was started by the new one: warm', () => {
    const started = pod({ container: running({ runningSince: T0 + 301_000 }) });
    expect(pullState(puller(), started, node('n1', { createdAt: T0 + 1_000 }), at)).toMatchObject({ state: 'warm' });
  });

  // Each row changes one thing of the proof: without any of them it is not warm.
  const twins: [string, PullerPod, NodeFacts | undefined, Partial<PullState>][] = [
    ['the node does not exist', pod(), undefined, { state: 'failed', reason: 'NodeLost' }],
    [
      'the node is younger than the container: another machine of that name',
      pod(),
      node('n1', { createdAt: T0 + 10_000 }),
      { state: 'failed', reason: 'NodeLost' },
    ],
    [
      'the container started after the node joined by less than clocks may differ',
      pod({ container: running({ runningSince: T0 + 300_999 }) }),
      node('n1', { createdAt: T0 + 1_000 }),
      { state: 'failed', reason: 'NodeLost' },
    ],
    [
      'the node is not Ready',
      pod(),
      node('n1', { ready: false, readyMessage: 'kubelet stopped' }),
      { state: 'failed', inFlight: false, reason: 'NodeNotReady' },
    ],
    [
      'the node went in mid-pull: bytes may flow',
      pod({ container: waiting('ContainerCreating') }),
      node('n1', { ready: false }),
      { state: 'failed', inFlight: true, reason: 'NodeNotReady' },
    ],
    ['the volume names another digest', pod({ image: image('b') }), node('n1'), { state: 'failed', reason: 'DigestMismatch' }],
    [
      'the Pod has no image volume: an old API server dropped it',
      ((): PullerPod => {
        const p = pod();
        delete p.image;
        return p;
      })(),
      node('n1'),
      { state: 'failed', reason: 'DigestMismatch' },
    ],
    ['the Pod is being deleted', pod({ deleting: true }), node('n1'), { state: 'absent', inFlight: false }],
    [
      'deleted in mid-pull: the pull goes on',
      pod({ deleting: true, container: waiting('ContainerCreating') }),
      node('n1'),
      { state: 'absent', inFlight: true },
    ],
    [
      'running, but the probe has not passed: the mount may be empty',
      pod({ container: running({ started: false }) }),
      node('n1'),
      { state: 'pulling', inFlight: false },
    ],
    [
      'the probe failed and the container was restarted',
      pod({ container: running({ started: false, restarts: 1, lastMessage: '/image is empty' }) }),
      node('n1'),
      { state: 'failed', reason: 'EmptyImage', message: '/image is empty' },
    ],
    [
      'the container is being created',
      pod({ phase: 'Pending', container: waiting('ContainerCreating') }),
      node('n1'),
      { state: 'pulling', inFlight: true },
    ],
    [
      'the kubelet has not spoken yet',
      ((): PullerPod => {
        const p = pod({ phase: 'Pending' });
        delete p.container;
        return p;
      })(),
      node('n1'),
      { state: 'pulling', inFlight: true },
    ],
    [
      'Kueue gates the Pod',
      pod({ gates: ['kueue.x-k8s.io/admission'] }),
      node('n1'),
      {
        state: 'failed',
        inFlight: false,
        reason: 'Gated',
        message: expect.stringContaining('managedJobsNamespaceSelector') as unknown as string,
      },
    ],
    [
      'the kubelet has no room for the Pod',
      pod({ phase: 'Failed', reason: 'OutOfpods', message: 'too many Pods' }),
      node('n1'),
      { state: 'failed', reason: 'NoRoom', message: expect.stringContaining('OutOfpods: too many Pods') as unknown as string },
    ],
    [
      'the kubelet rejected the Pod for another cause',
      pod({ phase: 'Failed', reason: 'NodeAffinity', message: 'Predicate NodeAffinity failed' }),
      node('n1'),
      { state: 'failed', reason: 'Rejected' },
    ],
    [
      'the kubelet evicted the Pod',
      pod({ phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: ephemeral-storage.' }),
      node('n1'),
      { state: 'failed', reason: 'Evicted' },
    ],
    [
      'the kubelet evicted the Pod in mid-pull: bytes may flow',
      pod({ phase: 'Failed', reason: 'Evicted', message: 'low on memory', container: waiting('ContainerCreating') }),
      node('n1'),
      { state: 'failed', inFlight: true, reason: 'Evicted' },
    ],
    [
      'the kubelet was shut down in mid-pull: bytes may flow',
      pod({ phase: 'Failed', reason: 'Terminated', container: waiting('ContainerCreating') }),
      node('n1'),
      { state: 'failed', inFlight: true, reason: 'NodeLost' },
    ],
    [
      'the kubelet refused the Pod under pressure: no pull began, one may when its successor comes',
      ((): PullerPod => {
        const p = pod({
          phase: 'Failed',
          reason: 'Evicted',
          message: 'Pod was rejected: The node had condition: [DiskPressure].',
        });
        delete p.container;
        return p;
      })(),
      node('n1'),
      { state: 'failed', inFlight: false, mayBegin: true, reason: 'Evicted' },
    ],
    [
      'the kubelet had no room for a Pod whose container it knows: no pull began',
      pod({ phase: 'Failed', reason: 'OutOfcpu', container: waiting('ContainerCreating') }),
      node('n1'),
      { state: 'failed', inFlight: false, mayBegin: true, reason: 'NoRoom' },
    ],
    [
      'the kubelet was shut down with its node',
      pod({ phase: 'Failed', reason: 'Terminated', message: 'Pod was terminated in response to imminent node shutdown.' }),
      node('n1'),
      { state: 'failed', reason: 'NodeLost' },
    ],
    [
      'the scheduler says that the node is full',
      pod({ unschedulable: "0/3 nodes are available: 1 Too many pods, 2 node(s) didn't match Pod's node affinity/selector." }),
      node('n1'),
      { state: 'failed', reason: 'NoRoom' },
    ],
    [
      'the kubelet puts the pull off, since it begins too many a second',
      pod({ phase: 'Pending', container: waiting('ErrImagePull', 'pull QPS exceeded') }),
      node('n1'),
      { state: 'pulling', inFlight: true },
    ],
    [
      'the kubelet waits before it tries such a pull again',
      pod({
        phase: 'Pending',
        container: waiting('ImagePullBackOff', 'Back-off pulling image "x": ErrImagePull: pull QPS exceeded'),
      }),
      node('n1'),
      { state: 'pulling', inFlight: true },
    ],
    [
      'the scheduler cannot place it',
      pod({ unschedulable: '0/3 nodes are available' }),
      node('n1'),
      { state: 'failed', reason: 'Rejected' },
    ],
    [
      'the pull fails',
      pod({ container: waiting('ErrImagePull', 'manifest unknown') }),
      node('n1'),
      { state: 'failed', inFlight: false, reason: 'ImageNotFound' },
    ],
  ];
  test.each(twins)('negative twin: %s', (...[, aPod, aNode, expected]) => {
    expect(pullState(puller(), aPod, aNode, at)).toMatchObject(expected);
  });

  test('a pull without an end fails at its deadline and keeps its place in the limits until it must hang', () => {
    const stuck = pod({ container: waiting('ContainerCreating') });
    expect(pullState(puller(), stuck, node('n1'), { now: T0 + 599_999, deadlineMs: 600_000 })).toMatchObject({
      state: 'pulling',
      inFlight: true,
    });
    for (const [age, inFlight] of [
      [600_000, true],
      [1_799_999, true],
      [1_800_000, false],
    ] as const)
      expect(pullState(puller(), stuck, node('n1'), { now: T0 + age, deadlineMs: 600_000 })).toMatchObject({
        state: 'failed',
        inFlight,
        reason: 'TimedOut',
      });
  });

  test('a clock that is hours ahead takes a pull for stuck, and its place in the limits stays taken', () => {
    const fresh = pod({ container: waiting('ContainerCreating') });
    const hoursAhead = { now: T0 + 3 * 3_600_000, deadlineMs: 600_000 };
    const stateOf = (watchedMs: number) => pullState(puller(), fresh, node('n1'), { ...hoursAhead, watchedMs });
    expect(stateOf(1_799_999)).toMatchObject({ state: 'failed', reason: 'TimedOut', inFlight: true });
    expect(stateOf(1_800_000)).toMatchObject({ state: 'failed', reason: 'TimedOut', inFlight: false });
  });

  test('a clock that went back keeps a pull a pull', () => {
    expect(
      pullState(puller(), pod({ container: waiting('ContainerCreating') }), node('n1'), { now: T0 - 1e9, deadlineMs: 1 }).state,
    ).toBe('pulling');
  });
});

describe('what a failed pull means', () => {
  const rows: [string, string, string][] = [
    [
      'ErrImagePull',
      'failed to pull and unpack image "r/x@sha256:1": failed to resolve reference: r/x: not found',
      'ImageNotFound',
    ],
    ['ImagePullBackOff', 'Back-off pulling image "x": ErrImagePull: unexpected status: 401 Unauthorized', 'AuthDenied'],
    ['ErrImagePull', 'pull access denied, repository does not exist or may require authorization', 'AuthDenied'],
    ['ErrImagePull', 'no basic auth credentials', 'AuthDenied'],
    ['ErrImagePull', 'no match for platform in manifest: not found', 'PlatformMissing'],
    [
      'ErrImagePull',
      `failed to pull and unpack image "r/x@sha256:1": content digest sha256:${'d'.repeat(64)}: not found`,
      'ImageStoreConflict',
    ],
    ['ErrImagePull', 'failed to unpack image on snapshotter nydus: content digest sha256:1: not found', 'ImageStoreConflict'],
    [
      'ErrImagePull',
      'failed to pull and unpack image "r/x@sha256:1": failed to copy: could not fetch content descriptor sha256:2 from remote: not found',
      'ImageNotFound',
    ],
    [
      'ErrImagePull',
      'failed to extract layer (application/vnd.oci.image.layer.nydus.blob.v1 sha256:1) to overlayfs: no processor for media-type',
      'FormatUnreadable',
    ],
    ['ErrImagePull', 'unsupported diff media type: application/vnd.oci.image.layer.nydus.blob.v1', 'FormatUnreadable'],
    ['ErrImagePull', 'failed to extract layer: write /var/lib/x: no space left on device', 'InsufficientDisk'],
    ['ErrImagePull', 'dial tcp 10.0.0.1:443: connect: connection refused', 'RegistryError'],
    ['ErrImagePull', 'unexpected status: 429 Too Many Requests', 'RegistryError'],
    ['ErrImagePull', 'unexpected status: 503 Service Unavailable', 'RegistryError'],
    ['ErrImagePull', 'failed to do request: Head "https://r/v2/x": net/http: TLS handshake timeout', 'RegistryError'],
    ['ErrImagePull', 'failed to copy: httpReadSeeker: failed open: unexpected EOF', 'RegistryError'],
    ['ErrImagePull', 'dial tcp: lookup r on 10.96.0.10:53: server misbehaving', 'RegistryError'],
    ['RegistryUnavailable', '', 'RegistryError'],
    ['SignatureValidationFailed', 'image pull failed for r/x because the signature validation failed', 'SignatureInvalid'],
    ['ErrImagePull', 'Source image rejected: A signature was required, but no signature exists', 'SignatureInvalid'],
    ['InvalidImageName', "couldn't parse image name", 'Unparsable'],
    ['CreateContainerError', 'something new', 'PullFailed'],
  ];
  test.each(rows)('%s %s', (reason, message, expected) => expect(classifyPullError(reason, message)).toBe(expected));
});

describe('the identity of a puller', () => {
  test('needs a digest', () => {
    expect(pullerOf('reg.example.com/x:v1')).toBeUndefined();
    expect(pullerOf('not an image')).toBeUndefined();
    expect(pullerOf(image())).toMatchObject({ image: image(), registry: 'reg.example.com' });
  });
  const tenant = (secrets: string[], serviceAccountName?: string, namespace = 'team') =>
    puller('a', { tenant: { namespace, secrets, serviceAccountName } }).hash;
  test('differs by the tenant and by what it pulls with', () => {
    const hashes = [
      puller('a').hash,
      tenant(['s']),
      tenant(['s', 't']),
      tenant(['s'], undefined, 'other'),
      tenant([], 'trainer'),
    ];
    expect(new Set(hashes).size).toBe(hashes.length);
  });
  test('is one for tenants with equal rights: an account counts only where no secret is named', () => {
    expect(tenant(['s'], 'trainer')).toBe(tenant(['s']));
    expect(tenant([], 'default')).toBe(tenant([]));
  });
  test('is shared by equal images and differs by runtime class', () => {
    expect(puller('a', { bytes: 1 }).hash).toBe(puller('a', { bytes: 2 }).hash);
    expect(puller('a', { runtimeClassName: 'nydus' }).hash).not.toBe(puller('a').hash);
    expect(puller('b').hash).not.toBe(puller('a').hash);
  });
});
