import { describe, expect, test } from '@jest/globals';
import type { FailureReason } from '../../../src/api/reasons.js';
import type { DecideContext } from '../../../src/controller/prewarm/decide.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { LifecycleInput } from '../../../src/controller/prewarm/lifecycle.js';
import { lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { isFrozen, lookupsNeeded } from '../../../src/controller/prewarm/record.js';
import type { PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import type { Progress } from '../../../src/preheat/planner.js';
import {
  T0,
  iso,
  digest,
  SOURCE,
  lookup,
  failedLookup,
  recorded,
  prewarm,
  gang,
  progress,
  snapshot,
  context,
  condition,
  failure,
} from './fixtures.js';

const fiveOf = (reason: Parameters<typeof failure>[0]) => ['n1', 'n2', 'n3', 'n4', 'n5'].map((n) => failure(reason, n));

describe('condition Ready', () => {
  const rows: [string, Partial<PrewarmSnapshot>, Partial<DecideContext>, string, boolean?][] = [
    ['all warm', {}, {}, 'AllNodesWarm'],
    [
      'nothing to warm',
      {
        prewarm: prewarm(
          { targets: recorded() },
          { targets: [{ name: 'main', images: [{ reference: SOURCE }], nodes: { selector: {}, count: 0 } }] },
        ),
        candidates: { reasons: {}, desired: 0, empty: [] },
      },
      {},
      'AllNodesWarm',
    ],
    [
      'the spec cannot be evaluated',
      { candidates: { problem: 'bad selector', reasons: {}, desired: 0, empty: [] } },
      {},
      'Invalid',
      true,
    ],
    [
      'suspended with nodes to go',
      { progress: progress({ warm: 2, pending: 1 }) },
      { lifecycle: { mayPull: false, keep: true, why: 'Suspended' } },
      'Suspended',
    ],
    ['suspended, and warm already', {}, { lifecycle: { mayPull: false, keep: true, why: 'Suspended' } }, 'AllNodesWarm'],
    [
      'suspended before the image was found',
      { prewarm: prewarm(), lookups: new Map() },
      { lifecycle: { mayPull: false, keep: true, why: 'Suspended' } },
      'Suspended',
    ],
    ['images are no longer held', {}, { lifecycle: { mayPull: false, keep: false, why: 'Finished' } }, 'Finished'],
    ['not looked up yet', { prewarm: prewarm(), lookups: new Map() }, {}, 'ResolvingImages'],
    [
      'no such image',
      { prewarm: prewarm(), lookups: new Map([[SOURCE, failedLookup('ImageNotFound')]]) },
      {},
      'ImageNotFound',
      true,
    ],
    ['no right to it', { prewarm: prewarm(), lookups: new Map([[SOURCE, failedLookup('AuthDenied')]]) }, {}, 'AuthDenied', true],
    [
      'the registry is away',
      { prewarm: prewarm(), lookups: new Map([[SOURCE, failedLookup('RegistryError')]]) },
      {},
      'RegistryError',
      false,
    ],
    ['no plan for this generation yet', { progress: undefined }, {}, 'Pending'],
    [
      'no candidates',
      {
        candidates: { reasons: { 'it is cordoned': 3 }, desired: 0, empty: ['main'] },
        progress: progress({ desired: 0, warm: 0 }),
      },
      {},
      'NoCandidateNodes',
      true,
    ],
    ['pulling', { progress: progress({ warm: 1, pulling: 2 }) }, {}, 'PullingImages'],
    [
      'far back in line',
      { progress: progress({ warm: 0, pending: 3 }), gang: gang({ position: 39 }) },
      { lifecycle: { mayPull: false, keep: true, why: 'QueuePosition' } },
      'QueuePosition',
    ],
    ['waiting for a slot', { progress: progress({ warm: 0, pending: 3, waitsFor: 'cluster' }) }, {}, 'WaitingForSlot'],
    [
      'fails on all',
      { progress: progress({ warm: 0, pending: 2, failed: 1, waitsFor: 'failure', failures: [failure('ImageNotFound')] }) },
      {},
      'ImageNotFound',
      true,
    ],
    [
      'in an outage the nodes that failed were replaced, and those in their places wait: the cause is told',
      { progress: progress({ warm: 0, pending: 3, waitsFor: 'failure', failures: fiveOf('RegistryError') }) },
      {},
      'RegistryError',
      false,
    ],
    [
      'five nodes failed by what nothing mends by itself, and no other is tried',
      { progress: progress({ warm: 0, pending: 3, waitsFor: 'failure', failures: fiveOf('Gated') }) },
      {},
      'PullersGated',
      true,
    ],
    [
      'negative twin: no Pods come, which may be over in a moment',
      { progress: progress({ warm: 0, pending: 3, waitsFor: 'failure', failures: fiveOf('Rejected') }) },
      {},
      'PullersRejected',
      false,
    ],
    [
      'a pull that may yet succeed',
      { progress: progress({ warm: 2, failed: 1, failures: [failure('PullFailed')] }) },
      {},
      'PullFailed',
      false,
    ],
    [
      'a node that is gone',
      { progress: progress({ warm: 2, failed: 1, failures: [failure('NodeLost')] }) },
      {},
      'NodeLost',
      true,
    ],
    [
      'a kubelet that restarts on one of the nodes that the gang was assigned',
      { progress: progress({ warm: 2, failed: 1, failures: [failure('NodeNotReady')] }) },
      {},
      'NodeLost',
      false,
    ],
    [
      'no Pod comes on the nodes that the gang was assigned, and nobody says why: kube-controller-manager may be away for a moment',
      { progress: progress({ warm: 0, pending: 2, failed: 1, waitsFor: 'failure', failures: [failure('NoPod')] }) },
      {},
      'PullersRejected',
      false,
    ],
    [
      'negative twin: it was said why, and no wait mends that',
      { progress: progress({ warm: 0, pending: 2, failed: 1, waitsFor: 'failure', failures: [failure('Rejected')] }) },
      {},
      'PullersRejected',
      true,
    ],
    [
      'gated pullers',
      { progress: progress({ warm: 0, failed: 3, failures: [failure('Gated'), failure('Gated', 'n2')] }) },
      {},
      'PullersGated',
      true,
    ],
    [
      'out of time',
      { progress: progress({ warm: 1, pulling: 2 }) },
      { lifecycle: { mayPull: false, keep: true, why: 'DeadlineExceeded' } },
      'DeadlineExceeded',
      true,
    ],
    ['the tag moved', { lookups: new Map([[SOURCE, lookup('b')]]) }, {}, 'ImageMoved'],
    ['warm, but the tag was not looked at since the restart', { lookups: new Map() }, {}, 'ResolvingImages'],
  ];
  test.each(rows)('%s', (...[, change, more, reason, hopeless]) => {
    const { status } = decidePrewarm(snapshot(change), context(more));
    expect(condition(status, 'Ready')).toMatchObject({
      reason,
      status: reason === 'AllNodesWarm' ? 'True' : 'False',
      observedGeneration: 2,
    });
    if (hopeless !== undefined) expect(condition(status, 'Failed')?.status).toBe(hopeless ? 'True' : 'False');
  });

  test('is never True while a node is not proven (in any state of the sums)', () => {
    for (let warm = 0; warm < 3; warm++) {
      for (const rest of [{ pulling: 3 - warm }, { pending: 3 - warm }, { failed: 3 - warm }]) {
        const { status } = decidePrewarm(snapshot({ progress: progress({ warm, ...rest }) }), context());
        expect(condition(status, 'Ready')?.status).toBe('False');
      }
    }
  });
});

describe('the record (P3)', () => {
  const digestAfter = (change: Partial<PrewarmSnapshot>): string | undefined =>
    decidePrewarm(snapshot(change), context()).status.targets?.[0]?.images[0]?.digest;
  const moved = { lookups: new Map([[SOURCE, lookup('b')]]) };
  const rows: [string, Partial<PrewarmSnapshot>, string][] = [
    ['is made from the first lookup', { prewarm: prewarm() }, 'a'],
    ['follows a tag that moved while the gang waits', moved, 'b'],
    [
      'does not change while the check is Ready: Pods may come at any moment',
      { ...moved, gang: gang({ checkReady: true }) },
      'a',
    ],
    ['does not change once the gang was admitted', { ...moved, gang: gang({}, { admitted: true }) }, 'a'],
    [
      'does not change once it was let go, also in the queue again',
      {
        ...moved,
        prewarm: prewarm({
          targets: recorded(),
          conditions: [{ type: 'Released', status: 'True', reason: 'WarmVerified', message: '', lastTransitionTime: iso(T0) }],
        }),
      },
      'a',
    ],
    ['does not change with pin AtQueue', { ...moved, prewarm: prewarm({ targets: recorded() }, { pin: 'AtQueue' }) }, 'a'],
    [
      'does not change with quota reserved and no check of ours',
      { ...moved, gang: gang({ checked: false }, { reservedAt: T0 }) },
      'a',
    ],
    [
      'may change with quota reserved and our check Pending: no Pod exists',
      { ...moved, gang: gang({}, { reservedAt: T0 }) },
      'b',
    ],
    ['outlives a registry that is away', { lookups: new Map([[SOURCE, failedLookup('RegistryError')]]) }, 'a'],
    [
      'outlives a tag that was deleted: the bytes are there',
      { lookups: new Map([[SOURCE, failedLookup('ImageNotFound')]]) },
      'a',
    ],
  ];
  test.each(rows)('%s', (_title, change, expected) => expect(digestAfter(change)).toBe(digest(expected)));

  test('a move under a Ready check is told before it is made', () => {
    const { record, status } = decidePrewarm(snapshot({ ...moved, gang: gang({ checkReady: true }) }), context());
    expect(record).toMatchObject({ held: [SOURCE], moved: [] });
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'ImageMoved' });
  });
  test('a reference by digest is never looked up again', () => {
    const source = `reg.example.com/train@${digest('a')}`;
    const targets = [{ name: 'main', images: [{ source, resolved: source, digest: digest('a') }] }];
    const one = prewarm({ targets }, { targets: [{ name: 'main', images: [{ reference: source }], nodes: { selector: {} } }] });
    expect(lookupsNeeded(snapshot({ prewarm: one, lookups: new Map() }), T0 + 1e9, 1000)).toEqual([]);
  });
  const ready = {
    conditions: [{ type: 'Ready', status: 'True' as const, reason: 'AllNodesWarm', message: '', lastTransitionTime: iso(T0) }],
    targets: recorded(),
  };
  const needs: [string, Partial<PrewarmSnapshot>, number, { source: string; fresh: boolean }[]][] = [
    ['a first look', { prewarm: prewarm(), lookups: new Map() }, 0, [{ source: SOURCE, fresh: false }]],
    [
      'no second look while one has just failed',
      { prewarm: prewarm(), lookups: new Map([[SOURCE, failedLookup('RegistryError')]]) },
      1_000,
      [],
    ],
    [
      'another try after a while',
      { prewarm: prewarm(), lookups: new Map([[SOURCE, failedLookup('RegistryError')]]) },
      15_000,
      [{ source: SOURCE, fresh: true }],
    ],
    ['none while nodes pull', { progress: progress({ warm: 2, pulling: 1 }) }, 1e9, []],
    ['a fresh one just before it becomes Ready', {}, 5_000, [{ source: SOURCE, fresh: true }]],
    ['while it is Ready only now and then', { prewarm: prewarm(ready) }, 30_000, []],
    ['now and then', { prewarm: prewarm(ready) }, 60_000, [{ source: SOURCE, fresh: true }]],
    ['none after the gang was admitted', { gang: gang({}, { admitted: true }) }, 1e9, []],
    [
      'one after a restart, which remembers no look',
      { prewarm: prewarm(ready), lookups: new Map() },
      0,
      [{ source: SOURCE, fresh: true }],
    ],
  ];
  test.each(needs)('looking up: %s', (...[, change, ms, expected]) =>
    expect(lookupsNeeded(snapshot(change), T0 + ms, 60_000)).toEqual(expected),
  );
  test('pin Never is never frozen', () =>
    expect(isFrozen(snapshot({ prewarm: prewarm({}, { pin: 'Never' }), gang: gang({}, { admitted: true }) }))).toBe(false));
});

describe('condition Released', () => {
  const cold = progress({ warm: 1, pulling: 2 });
  const rows: [string, Partial<PrewarmSnapshot>, string | undefined][] = [
    ['not while the gang waits', { gang: gang() }, undefined],
    ['not by a Ready check alone: no quota yet', { gang: gang({ checkReady: true }) }, undefined],
    ['warm and admitted', { gang: gang({ checkReady: true }, { admitted: true, reservedAt: T0 }) }, 'WarmVerified'],
    [
      'cold and admitted',
      { gang: gang({ checkReady: true }, { admitted: true, reservedAt: T0 }), progress: cold },
      'QuotaReservedCold',
    ],
    [
      'at the deadline',
      { gang: gang({ checkReady: true, deadline: T0 }, { reservedAt: T0 }), progress: cold },
      'DeadlineExceeded',
    ],
    [
      'hopeless',
      {
        gang: gang({ checkReady: true }, { reservedAt: T0 }),
        progress: progress({ warm: 0, failed: 3, failures: [failure('Gated')] }),
      },
      'Hopeless',
    ],
    ['opted out and admitted', { gang: gang({ optIn: { optedIn: false, problems: [] } }, { admitted: true }) }, 'OptedOut'],
    ['made by hand', {}, undefined],
  ];
  test.each(rows)('%s', (_title, change, reason) => {
    const released = condition(decidePrewarm(snapshot(change), context()).status, 'Released');
    expect(released?.reason).toBe(reason);
  });
  test('keeps its first reason', () => {
    const one = prewarm({
      targets: recorded(),
      conditions: [{ type: 'Released', status: 'True', reason: 'QuotaReservedCold', message: 'm', lastTransitionTime: iso(T0) }],
    });
    const { status } = decidePrewarm(snapshot({ prewarm: one, gang: gang({ checkReady: true }, { admitted: true }) }), context());
    expect(condition(status, 'Released')?.reason).toBe('QuotaReservedCold');
  });
});

describe('the rest of the status', () => {
  test('sums, size, start, completion and events', () => {
    const { status, events } = decidePrewarm(snapshot({ gang: gang() }), context());
    expect(status).toMatchObject({
      progress: '3/3',
      nodes: { desired: 3, warm: 3 },
      size: '1.0 GB',
      startTime: iso(T0),
      completionTime: iso(T0),
      queue: 'gpu',
      placement: 'Candidates',
      truncated: false,
      observedGeneration: 2,
    });
    expect(events.map((e) => e.reason)).toEqual(['PrewarmStarted', 'ImagesWarm']);
    const again = decidePrewarm(snapshot({ prewarm: prewarm(status), gang: gang() }), context({ now: T0 + 60_000 }));
    expect(again.events).toEqual([]);
    expect(again.status).toEqual(status);
  });
  test('lost warmth is an event and keeps the times', () => {
    const { status } = decidePrewarm(snapshot(), context());
    const after = (reason: FailureReason) =>
      decidePrewarm(
        snapshot({ prewarm: prewarm(status), progress: progress({ warm: 2, failed: 1, failures: [failure(reason)] }) }),
        context({ now: T0 + 5_000 }),
      );
    const warmthLost = expect.objectContaining({ type: 'Warning', reason: 'WarmthLost' });
    expect(after('NodeNotReady').events).toEqual([warmthLost]);
    const lost = after('NodeLost');
    expect(lost.events).toEqual([warmthLost, expect.objectContaining({ reason: 'NodeLost' })]);
    expect(lost.status).toMatchObject({ startTime: iso(T0), completionTime: iso(T0) });
  });
  test('at most 50 failures, their messages cut', () => {
    const failures = Array.from({ length: 60 }, (_, i) => ({ ...failure('PullFailed', `n${i}`), message: 'x'.repeat(5000) }));
    const { status } = decidePrewarm(snapshot({ progress: progress({ warm: 0, failed: 3, failures }) }), context());
    expect(status.failures).toHaveLength(50);
    expect(status.truncated).toBe(true);
    expect(status.failures?.[0]?.message.length).toBeLessThanOrEqual(1024);
  });
  test('the estimate counts the waves in which a slow start grows', () => {
    const left = (change: Partial<Progress>, rampUp?: 'Immediate') => {
      const object = prewarm({ targets: recorded() }, rampUp === undefined ? {} : { pull: { rampUp, busyNodes: 'Allow' } });
      const sums = progress({ desired: 64, warm: 0, seenMs: [10_000], ...change });
      return decidePrewarm(snapshot({ prewarm: object, progress: sums, concurrency: 64 }), context()).status
        .estimatedCompletionTime;
    };
    const begun = { pulling: 1, runningSince: [T0], pending: 63 };
    // One, then 2, 4, 8, 16, 32 and the last.
    expect(left(begun)).toBe(iso(T0 + 7 * 10_000));
    expect(left({ warm: 15, pulling: 16, runningSince: Array<number>(16).fill(T0), pending: 33 })).toBe(iso(T0 + 3 * 10_000));
    expect(left(begun, 'Immediate')).toBe(iso(T0 + 2 * 10_000));
  });
  test('the estimate stays while it is nearly right', () => {
    const busy = progress({ warm: 1, pulling: 2, seenMs: [40_000], runningSince: [T0 - 10_000, T0 - 10_000] });
    const first = decidePrewarm(snapshot({ progress: busy }), context()).status;
    expect(first.estimatedCompletionTime).toBe(iso(T0 + 30_000));
    const second = decidePrewarm(snapshot({ prewarm: prewarm(first), progress: busy }), context({ now: T0 + 2_000 })).status;
    expect(second.estimatedCompletionTime).toBe(first.estimatedCompletionTime);
  });
  test('an object made by hand ends when its time to live is over', () => {
    const expired = (ttl: number, now: number) =>
      decidePrewarm(
        snapshot({ prewarm: prewarm({ targets: recorded(), completionTime: iso(T0) }, { ttlSecondsAfterFinished: ttl }) }),
        context({ now }),
      ).expiresAt;
    expect([expired(10, T0 + 9_999), expired(0, T0)]).toEqual([T0 + 10_000, T0]);
  });
});

describe('what the planner may do', () => {
  const input = (change: Partial<LifecycleInput> = {}): LifecycleInput => ({
    prewarm: prewarm(),
    now: T0,
    gangsAheadPerQueue: 8,
    retainAfterAdmissionMs: 900_000,
    deadlineMs: 600_000,
    ...change,
  });
  const started = { startTime: iso(T0 - 600_000) };
  const rows: [string, LifecycleInput, { mayPull: boolean; keep: boolean; why?: string }][] = [
    ['made by hand', input(), { mayPull: true, keep: true }],
    ['at the head of the queue', input({ gang: gang({ position: 7 }) }), { mayPull: true, keep: true }],
    ['too far back', input({ gang: gang({ position: 8 }) }), { mayPull: false, keep: true, why: 'QueuePosition' }],
    ['suspended', input({ prewarm: prewarm({}, { suspend: true }) }), { mayPull: false, keep: true, why: 'Suspended' }],
    [
      'opted out',
      input({ gang: gang({ optIn: { optedIn: false, problems: [] } }) }),
      { mayPull: false, keep: false, why: 'OptedOut' },
    ],
    [
      'admitted: its Pods pull for themselves, what is warm is held until they run',
      input({ gang: gang({}, { admitted: true, admittedAt: T0 }) }),
      { mayPull: false, keep: true, why: 'Finished' },
    ],
    ['running', input({ gang: gang({}, { admitted: true, podsReady: true }) }), { mayPull: false, keep: false, why: 'Finished' }],
    [
      'admitted long ago',
      input({ gang: gang({}, { admitted: true, admittedAt: T0 - 900_000 }) }),
      { mayPull: false, keep: false, why: 'Finished' },
    ],
    [
      'running, WhileGangRuns',
      input({ prewarm: prewarm({}, { retain: 'WhileGangRuns' }), gang: gang({}, { admitted: true, podsReady: true }) }),
      { mayPull: true, keep: true },
    ],
    [
      'finished, WhileGangRuns',
      input({ prewarm: prewarm({}, { retain: 'WhileGangRuns' }), gang: gang({}, { finished: true }) }),
      { mayPull: false, keep: false, why: 'Finished' },
    ],
    [
      'finished, Always',
      input({ prewarm: prewarm({}, { retain: 'Always' }), gang: gang({}, { finished: true }) }),
      { mayPull: true, keep: true },
    ],
    [
      'warm once, Never',
      input({ prewarm: prewarm({ completionTime: iso(T0) }, { retain: 'Never' }) }),
      { mayPull: false, keep: false, why: 'Finished' },
    ],
    [
      'evicted after it ran: warmed again',
      input({ gang: gang({ position: 0 }, { admitted: false, podsReady: false, evicted: true }) }),
      { mayPull: true, keep: true },
    ],
    ['out of time', input({ prewarm: prewarm(started) }), { mayPull: false, keep: true, why: 'DeadlineExceeded' }],
    [
      'out of its own time',
      input({ prewarm: prewarm({ startTime: iso(T0 - 10_000) }, { activeDeadlineSeconds: 10 }) }),
      { mayPull: false, keep: true, why: 'DeadlineExceeded' },
    ],
    [
      'warm once: no deadline any more',
      input({ prewarm: prewarm({ ...started, completionTime: iso(T0) }) }),
      { mayPull: true, keep: true },
    ],
    ['Always has no derived deadline', input({ prewarm: prewarm(started, { retain: 'Always' }) }), { mayPull: true, keep: true }],
    [
      'a clock that went back is not out of time',
      input({ prewarm: prewarm(started), now: T0 - 1e9 }),
      { mayPull: true, keep: true },
    ],
    [
      'being deleted',
      input({ prewarm: { ...prewarm(), metadata: { name: 'p', deletionTimestamp: iso(T0) } } }),
      { mayPull: false, keep: false, why: 'Finished' },
    ],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(lifecycle(given)).toEqual(expected));
});
