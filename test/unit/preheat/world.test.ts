import { describe, expect, test } from '@jest/globals';
import { expectedPullMs, prewarmDeadlineMs, pullDeadlineMs, remainingMs } from '../../../src/preheat/deadline.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { PullerSet, WorldInput } from '../../../src/preheat/world.js';
import { buildWorld } from '../../../src/preheat/world.js';
import { node } from '../placement/nodes.js';
import { image, pod, puller, T0, waiting } from './fixtures.js';

const RATES = { assumedPullMiBPerSecond: 50, minDeadlineSeconds: 600 };
const set = (change: Partial<PullerSet> = {}): PullerSet => ({
  namespace: 'harbinger-system',
  name: 'puller-x',
  uid: 'ds',
  resourceVersion: '1',
  hash: puller().hash,
  image: image(),
  program: 'p',
  pullSecrets: [],
  shard: 0,
  method: 'ImageVolume',
  serviceAccountName: 'harbinger-puller',
  owners: [],
  harmless: true,
  print: 'x',
  selector: {},
  nodes: ['n1'],
  deleting: false,
  ...change,
});
const stateOf = (change: Partial<WorldInput> = {}, at = 'n1'): PullState | undefined =>
  buildWorld({
    namespace: 'harbinger-system',
    nodes: [node('n1'), node('n2')],
    sets: [set()],
    pods: [],
    orphans: [],
    leftovers: [],
    bytes: new Map(),
    rates: RATES,
    now: T0 + 60_000,
    watchedMs: () => Number.POSITIVE_INFINITY,
    standing: () => 'named',
    missingForMs: () => 0,
    rejections: new Map(),
    refused: new Map(),
    ...change,
  })
    .pulls.get(puller().hash)
    ?.get(at);

describe('where an image stands', () => {
  const rows: [string, Partial<WorldInput>, Partial<PullState> | undefined][] = [
    ['proven by its Pod', { pods: [pod()] }, { state: 'warm' }],
    ['covered, the Pod is on its way', {}, { state: 'pulling', inFlight: true }],
    [
      'covered, and no Pod for long, without a word',
      { missingForMs: () => 15_000 },
      { state: 'failed', inFlight: true, reason: 'NoPod', overdue: true },
    ],
    [
      'named only by a write that got no answer: nobody owes it a Pod',
      { sets: [set({ doubtful: ['n1'] })], missingForMs: () => 15_000 },
      { state: 'pulling', inFlight: true, doubtful: true },
    ],
    ['named by such a write, and it has its Pod', { sets: [set({ doubtful: ['n1'] })], pods: [pod()] }, { state: 'warm' }],
    ['one that counts by its Pods only: named, and no Pod', { standing: () => 'pods' }, undefined],
    ['one that counts by its Pods only: proven by its Pod', { standing: () => 'pods', pods: [pod()] }, { state: 'warm' }],
    ['one that does not count, whatever its Pod says', { standing: () => 'none', pods: [pod()] }, undefined],
    [
      'covered, no Pod for long, and the DaemonSet controller says why: one may come, and holds no place of others until then',
      { missingForMs: () => 15_000, rejections: new Map([['harbinger-system/puller-x', 'FailedCreate: exceeded quota']]) },
      { state: 'failed', inFlight: false, mayBegin: true, reason: 'QuotaExceeded', overdue: true },
    ],
    ['covered, but the node is gone', { sets: [set({ nodes: ['n9'] })] }, undefined],
    ['a Pod of another DaemonSet with our label proves nothing', { pods: [pod({ ownerUid: 'other' })] }, { state: 'pulling' }],
    [
      'an old Pod goes while the new one is warm',
      { pods: [pod({ uid: 'old', deleting: true }), pod()] },
      { state: 'warm', inFlight: false },
    ],
    [
      'an old Pod goes in mid-pull while the new one fails',
      {
        pods: [
          pod({ uid: 'old', deleting: true, container: waiting('ContainerCreating') }),
          pod({ container: waiting('ErrImagePull', 'x') }),
        ],
      },
      { state: 'failed', inFlight: true },
    ],
    ['the set was edited by hand: label and image disagree', { sets: [set({ image: image('b') })], pods: [pod()] }, undefined],
    ['the set goes: its Pods count, its list does not', { sets: [set({ deleting: true })] }, undefined],
    [
      'a pull without a Pod',
      { sets: [], orphans: [{ hash: puller().hash, node: 'n1', puller: puller(), leftMs: 1 }] },
      { state: 'absent', inFlight: true },
    ],
    [
      'a pull without a Pod, long ago',
      { sets: [], orphans: [{ hash: puller().hash, node: 'n1', puller: puller(), leftMs: 0 }] },
      undefined,
    ],
    [
      'what a Pod proves counts more than a pull without one',
      { pods: [pod()], orphans: [{ hash: puller().hash, node: 'n1', puller: puller(), leftMs: 1e9 }] },
      { state: 'warm', inFlight: false },
    ],
  ];
  test.each(rows)('%s', (_title, change, expected) => {
    const state = stateOf(change);
    if (expected === undefined) expect(state).toBeUndefined();
    else expect(state).toMatchObject(expected);
  });
  test('why no Pod comes is told in the words of the DaemonSet controller', () => {
    const state = stateOf({
      missingForMs: () => 60_000,
      rejections: new Map([['harbinger-system/puller-x', 'FailedCreate: exceeded quota']]),
    });
    expect(state?.message).toContain('FailedCreate: exceeded quota');
  });
});

describe('times', () => {
  test('a pull has four times what it should take, and never less than the floor', () => {
    expect(expectedPullMs(50 * 2 ** 20, RATES)).toBe(1000);
    expect(pullDeadlineMs(0, RATES)).toBe(600_000);
    expect(pullDeadlineMs(50 * 2 ** 30, RATES)).toBe(4_096_000);
  });
  test('a prewarm has that for every wave', () => {
    expect(prewarmDeadlineMs({ bytesPerNode: 50 * 2 ** 30, nodes: 64, concurrency: 50 }, RATES)).toBe(2 * 4_096_000);
    expect(prewarmDeadlineMs({ bytesPerNode: 0, nodes: 0, concurrency: 0 }, RATES)).toBe(600_000);
  });
  const rows: [string, Parameters<typeof remainingMs>[0], number][] = [
    ['nothing left', { runningMs: [], waiting: 0, concurrency: 1, bytes: 1e9, seenMs: [] }, 0],
    [
      'what was seen beats what is assumed',
      { runningMs: [10_000], waiting: 0, concurrency: 1, bytes: 1e12, seenMs: [30_000, 40_000, 50_000] },
      30_000,
    ],
    [
      'the slowest of the running wave and the waves behind it',
      { runningMs: [0, 30_000], waiting: 3, concurrency: 2, bytes: 0, seenMs: [40_000] },
      120_000,
    ],
    [
      'a pull that is late needs another tenth',
      { runningMs: [90_000], waiting: 0, concurrency: 1, bytes: 0, seenMs: [40_000] },
      4_000,
    ],
  ];
  test.each(rows)('estimate: %s', (_title, left, expected) => expect(remainingMs(left, RATES)).toBe(expected));
});
