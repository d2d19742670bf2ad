import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import type { DecideContext } from '../../../src/controller/prewarm/decide.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import { overdue } from '../../../src/controller/prewarm/lifecycle.js';
import { isFrozen, lookupsNeeded } from '../../../src/controller/prewarm/record.js';
import type { GangView, PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { GangState } from '../../../src/gangs/shape.js';
import {
  condition,
  conditionOf,
  context,
  failure,
  gang,
  GANG_REF,
  iso,
  lookup,
  prewarm,
  progress,
  recorded,
  snapshot,
  SOURCE,
  T0,
} from './fixtures.js';

describe('the record of a gang that the API server shows in another state than the cache', () => {
  const moved = { lookups: new Map([[SOURCE, lookup('b')]]), prewarm: prewarm({ targets: recorded() }, { gangRef: GANG_REF }) };
  const rows: [string, GangView | undefined, string[]][] = [
    ['positive control: it still waits', gang(), [SOURCE]],
    ['the watchdog or an earlier write made its check Ready', gang({ checkReady: true }), []],
    ['quota is reserved in a queue without our check', gang({ checked: false }, { reservedAt: T0 }), []],
    ['it was admitted', gang({}, { admitted: true, reservedAt: T0 }), []],
    ['it ran and was evicted while nobody looked', gang({}, { ran: true }), []],
    ['there is no such Workload any more: its job may run all the same', undefined, []],
  ];
  test.each(rows)('%s', (_title, live, expected) => {
    expect(decidePrewarm(snapshot({ ...moved, gang: live }), context()).record.moved).toEqual(expected);
  });
  test('negative twin: an object made by hand has no gang and follows its tag', () => expect(isFrozen(snapshot())).toBe(false));
});

describe('the time that a prewarm may take', () => {
  const HOUR = 3_600_000;
  const began = (change: ImagePrewarmStatus = {}): ImagePrewarmStatus => ({ targets: recorded(), startTime: iso(T0), ...change });
  const after = (
    status: ImagePrewarmStatus,
    change: Partial<PrewarmSnapshot>,
    more: Partial<DecideContext> = {},
  ): ImagePrewarmStatus =>
    decidePrewarm(
      snapshot({ prewarm: prewarm(status), progress: progress({ warm: 1, pulling: 2 }), ...change }),
      context({ now: T0 + HOUR, ...more }),
    ).status;
  const pause = (why: NonNullable<DecideContext['lifecycle']['why']>) => ({ lifecycle: { mayPull: false, keep: true, why } });
  const idle = { progress: progress({ warm: 1, pending: 2 }) };
  type Row = [string, Partial<PrewarmSnapshot>, Partial<DecideContext>, boolean];
  const rows: Row[] = [
    ['positive control: it goes on while nodes pull', {}, {}, true],
    ['suspended', idle, pause('Suspended'), false],
    ['pushed back in the queue', idle, pause('QueuePosition'), false],
    ['admitted cold, and so not ours any more', idle, pause('Finished'), false],
    ['starved by other gangs', { progress: progress({ warm: 1, pending: 2, waitsFor: 'cluster' }) }, {}, false],
    ...(['registry', 'namespace', 'bytes', 'node', 'busy'] as const).map((waitsFor): Row => [
      `starved by what others take: ${waitsFor}`,
      { progress: progress({ warm: 1, pending: 2, waitsFor }) },
      {},
      false,
    ]),
    [
      'negative twin: its own slow start is its own time',
      { progress: progress({ warm: 1, pending: 2, waitsFor: 'ramp' }) },
      {},
      true,
    ],
    [
      'negative twin: its own failures are its own time',
      { progress: progress({ warm: 1, failed: 1, pending: 1, waitsFor: 'failure', failures: [failure('PullFailed')] }) },
      {},
      true,
    ],
    ['negative twin: once it is over it stays over', idle, pause('DeadlineExceeded'), true],
  ];
  test.each(rows)('%s', (_title, change, more, counts) => {
    const status = after(began(), change, more);
    expect(status.startTime).toBe(counts ? iso(T0) : undefined);
    expect(overdue(prewarm(status), T0 + HOUR, { deadlineMs: 600_000 })).toBe(counts);
  });
  test('begins anew with the first pull after a pause, and no later', () => {
    const paused = after(began(), idle, pause('Suspended'));
    expect(overdue(prewarm(paused), T0 + 2 * HOUR, { deadlineMs: 600_000 })).toBe(false);
    const resumed = after(paused, {}, { now: T0 + 2 * HOUR });
    expect(resumed.startTime).toBe(iso(T0 + 2 * HOUR));
    expect(overdue(prewarm(resumed), T0 + 3 * HOUR, { deadlineMs: 600_000 })).toBe(true);
  });
  test('counts from now where it was begun by a clock that was ahead', () => {
    const now = T0 + HOUR;
    expect(after(began({ startTime: iso(now + HOUR) }), {}).startTime).toBe(iso(now));
    expect(after(began({ completionTime: iso(now + HOUR) }), {}).completionTime).toBe(iso(now));
    // The negative twin: clocks of replicas are never quite the same.
    expect(after(began({ startTime: iso(now + 5_000) }), {}).startTime).toBe(iso(now + 5_000));
  });
  test('is kept for people once all nodes were warm', () => {
    const status = after(began({ completionTime: iso(T0 + 1000) }), idle, pause('Suspended'));
    expect(status).toMatchObject({ startTime: iso(T0), completionTime: iso(T0 + 1000) });
  });
});

describe('opting out', () => {
  const out = { optIn: { optedIn: false, problems: [] } };
  const released = (status: ImagePrewarmStatus, change: Partial<GangView>, state: Partial<GangState> = {}) =>
    decidePrewarm(snapshot({ prewarm: prewarm({ targets: recorded(), ...status }), gang: gang(change, state) }), context());
  const reason = (...given: Parameters<typeof released>) => condition(released(...given).status, 'Released')?.reason;
  const before = { conditions: [conditionOf('Released', true, 'OptedOut')] };

  const rows: [string, Parameters<typeof released>, string | undefined][] = [
    ['while the gang waits is no release', [{}, out], undefined],
    ['with quota reserved and the check not Ready is none', [{}, out, { reservedAt: T0 }], undefined],
    ['with quota reserved and the check Ready is one', [{}, { ...out, checkReady: true }, { reservedAt: T0 }], 'OptedOut'],
    ['once admitted is one', [{}, out, { admitted: true }], 'OptedOut'],
    ['is not read from a Job that is gone', [{}, { ...out, jobGone: true }, { admitted: true }], undefined],
    ['and in again while it waits takes it back', [before, {}], undefined],
    ['and in again once it was admitted is too late', [before, {}, { admitted: true }], 'OptedOut'],
    [
      'negative twin: another reason is never taken back',
      [{ conditions: [conditionOf('Released', true, 'WarmVerified')] }, {}],
      'WarmVerified',
    ],
  ];
  test.each(rows)('%s', (_title, given, expected) => expect(reason(...given)).toBe(expected));
  test('of a gang that waits warns nobody of a release', () => {
    expect(released({}, out).events.map((e) => e.reason)).not.toContain('ReleasedOptedOut');
  });
});

describe('a gang that goes on with a share of its nodes warm', () => {
  const some = { progress: progress({ warm: 2, failed: 1, failures: [failure('InsufficientDisk')] }) };
  const going = (minWarmPercent?: number) => gang({ checkReady: true, minWarmPercent }, { reservedAt: T0 });
  test.each([
    [60, 'WarmVerified'],
    [67, 'Hopeless'],
    [undefined, 'Hopeless'],
  ])('with %p percent asked for: %s', (percent, reason) => {
    const { status } = decidePrewarm(snapshot({ ...some, gang: going(percent) }), context());
    expect(condition(status, 'Released')).toMatchObject({
      reason,
      ...(reason === 'WarmVerified' ? { message: expect.stringContaining('as its check asks for') } : {}),
    });
  });
});

describe('a clock that is set back', () => {
  test('does not put off looking up: the age of a look from the future is not known', () => {
    const given = snapshot({ lookups: new Map([[SOURCE, lookup('a', T0 + 3_600_000)]]) });
    expect(lookupsNeeded(given, T0, 60_000)).toEqual([{ source: SOURCE, fresh: true }]);
  });
  test('negative twin: a look just now counts', () => expect(lookupsNeeded(snapshot(), T0, 60_000)).toEqual([]));
});

describe('whether the Pods of a gang may have run', () => {
  const ran = (conditions: [string, 'True' | 'False'][], past?: number): boolean | undefined =>
    projectWorkload({
      apiVersion: 'kueue.x-k8s.io/v1beta2',
      kind: 'Workload',
      metadata: { name: 'w', namespace: 'team' },
      status: {
        conditions: conditions.map(([type, status]) => ({ type, status })),
        ...(past === undefined ? {} : { accumulatedPastExecutionTimeSeconds: past }),
      },
    }).gang.state.ran;
  test.each<[string, [string, 'True' | 'False'][], number | undefined, boolean]>([
    ['it waits for the first time', [], undefined, false],
    [
      'it does so under a Kueue that says of each Workload that it is not admitted',
      [
        ['QuotaReserved', 'False'],
        ['Admitted', 'False'],
      ],
      undefined,
      false,
    ],
    [
      'it lost quota with which it was only held',
      [
        ['QuotaReserved', 'False'],
        ['Admitted', 'False'],
        ['Evicted', 'True'],
      ],
      undefined,
      false,
    ],
    ['it is admitted', [['Admitted', 'True']], undefined, true],
    [
      'it was, and is back in its queue',
      [
        ['Admitted', 'False'],
        ['QuotaReserved', 'False'],
        ['Evicted', 'True'],
      ],
      60,
      true,
    ],
    ['it was for less than a second', [['Admitted', 'False']], 0, true],
  ])('%s', (_title, conditions, past, expected) => {
    expect(ran(conditions, past)).toBe(expected);
  });
});
