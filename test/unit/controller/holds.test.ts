import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { formatTime } from '../../../src/api/duration.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { CheckSnapshot, Warmth } from '../../../src/controller/holds/decide.js';
import { decideCheck, progressMessage } from '../../../src/controller/holds/decide.js';
import { activeCondition, parametersOf } from '../../../src/controller/holds/parameters.js';
import { isOfEarlierRun, isSeen, warmthOf } from '../../../src/controller/holds/warmth.js';
import type { PrewarmPlan } from '../../../src/controller/pullers/planning.js';
import { signatureOf } from '../../../src/controller/pullers/planning.js';
import type { GangState } from '../../../src/gangs/shape.js';
import { conditionOf, prewarm, T0 } from './fixtures.js';
import { MINUTE, RESERVED, cold, finished, hopeless, snapshot, view, warm } from './hold-fixtures.js';

describe('what the check says', () => {
  const out = { optIn: { optedIn: false, problems: [] } };
  const rows: [string, CheckSnapshot, 'Ready' | 'Pending' | 'nothing', string?][] = [
    ['not opted in: Ready at first sight', snapshot(out), 'Ready', 'not opted in to prewarming'],
    [
      'opted out by a typo: Ready, with the typo',
      snapshot({ optIn: { optedIn: false, problems: ['"flase"'] } }),
      'Ready',
      'not opted in to prewarming ("flase")',
    ],
    [
      'its job is gone, and with it its word: Ready, and nobody opted out',
      snapshot({ ...out, jobGone: true }),
      'Ready',
      'its job is gone',
    ],
    [
      'negative twin: its job is gone and its namespace opted it in: it waits on',
      snapshot({ jobGone: true }),
      'Pending',
      '2/3 nodes warm',
    ],
    ['mode Observe holds nothing', snapshot({ mode: 'Observe' }), 'Ready', 'mode Observe'],
    ['mode Off holds nothing', snapshot({ mode: 'Off' }), 'Ready', 'mode Off'],
    ['a gang without images has nothing to wait for', snapshot({ hasImages: false }), 'Ready', 'no container'],
    ['warm before reservation: Ready without quota', snapshot({ warmth: warm }), 'Ready', 'images warm on 3/3 nodes'],
    ['cold before reservation: stays Pending and tells how far', snapshot(), 'Pending', '2/3 nodes warm, about 40 s'],
    ['no ImagePrewarm yet', snapshot({ warmth: undefined }), 'Pending', 'images are being looked up'],
    ['warmth lost before reservation: taken back', snapshot({ view: view('Ready') }), 'Pending', '2/3 nodes warm'],
    [
      'warm by a status that no plan bears out: held',
      snapshot({ warmth: { ...warm, unseen: true }, view: view('Pending', RESERVED), holdMs: MINUTE }),
      'Pending',
      'held until',
    ],
    [
      'enough are warm by a status that no plan bears out: held',
      snapshot({
        warmth: { ...cold, unseen: true },
        view: view('Pending', RESERVED),
        holdMs: MINUTE,
        checks: new Map([['images', { defaultHoldMs: 0, minWarmPercent: 50 }]]),
      }),
      'Pending',
      '2/3 nodes warm',
    ],
    [
      'let go before reservation by a status that no plan bears out yet: stays so until the status is written anew',
      snapshot({ warmth: { ...warm, unseen: true }, view: view('Ready') }),
      'nothing',
    ],
    [
      'hopeless before reservation: no quota is held, so it waits and says why',
      snapshot({ warmth: hopeless }),
      'Pending',
      'no such image',
    ],
    ['reserved while cold, hold 0: let go at once', snapshot({ view: view('Pending', RESERVED) }), 'Ready', 'quota is reserved'],
    [
      'reserved while cold, hold 0 by the gang against a default of the check',
      snapshot({
        view: view('Pending', RESERVED),
        holdMs: 0,
        checks: new Map([['images', { defaultHoldMs: MINUTE, minWarmPercent: 100 }]]),
      }),
      'Ready',
      'quota is reserved',
    ],
    ['reserved and warm', snapshot({ view: view('Pending', RESERVED), warmth: warm, holdMs: MINUTE }), 'Ready', 'images warm'],
    [
      'reserved and hopeless: no wait helps',
      snapshot({ view: view('Pending', RESERVED), warmth: hopeless, holdMs: MINUTE }),
      'Ready',
      'waiting cannot help: no such image',
    ],
    [
      'reserved, and nothing is pulled for it any more: no wait helps',
      snapshot({ view: view('Pending', RESERVED), warmth: finished, holdMs: MINUTE }),
      'Ready',
      'nothing is pulled for the gang any more',
    ],
    [
      'before reservation that is only told: no quota is held',
      snapshot({ warmth: finished }),
      'Pending',
      'the gang has its images',
    ],
    [
      'negative twin: reserved, finished by an older generation: held',
      snapshot({
        view: view('Pending', { ...RESERVED, deadline: T0 + MINUTE }),
        warmth: { ...finished, current: false },
        holdMs: MINUTE,
      }),
      'Pending',
      'held until',
    ],
    [
      'nodes are assigned only after the check',
      snapshot({ view: view('Pending', RESERVED), delayedTopology: true, holdMs: MINUTE }),
      'Ready',
      'assigned only after',
    ],
    [
      'stamped and in time: held',
      snapshot({ view: view('Pending', { ...RESERVED, deadline: T0 + MINUTE }), holdMs: MINUTE }),
      'Pending',
      'held until 2026-01-01T00:01:00Z at the latest',
    ],
    [
      'stamped and over',
      snapshot({ view: view('Pending', { ...RESERVED, deadline: T0 + 1 }), holdMs: MINUTE }),
      'Ready',
      'is over',
    ],
    ['warmth lost after reservation: what was let go is not taken back', snapshot({ view: view('Ready', RESERVED) }), 'nothing'],
    [
      'evicted, quota not yet returned: the checks are Kueue’s',
      snapshot({ view: view('Ready', { ...RESERVED, evicted: true }), warmth: warm }),
      'nothing',
    ],
    [
      'evicted and back in the queue, still warm: Ready again',
      snapshot({ view: view('Pending', { evicted: true }), warmth: warm }),
      'Ready',
      'images warm',
    ],
    ['finished', snapshot({ view: view('Pending', { finished: true }), warmth: warm }), 'nothing'],
    ['not active', snapshot({ view: view('Pending', { active: false }), warmth: warm }), 'nothing'],
    ['somebody set Retry', snapshot({ view: view('Retry'), warmth: warm }), 'nothing'],
    ['somebody set Rejected', snapshot({ view: view('Rejected'), warmth: warm }), 'nothing'],
    ['the check is not ours', snapshot({ checks: new Map(), warmth: warm }), 'nothing'],
  ];
  test.each(rows)('%s', (...[, given, state, message]) => {
    const { writes } = decideCheck(given, T0 + 2_000);
    if (state === 'nothing') return expect(writes).toEqual([]);
    expect(writes).toEqual([expect.objectContaining({ name: 'images', state, message: expect.stringContaining(message ?? '') })]);
    expect(writes[0]?.transition).toBe(given.view.checks[0]?.state !== state);
  });

  test.each([
    ['Off' as const, true, 'SwitchedOff'],
    ['Observe' as const, false, 'SwitchedOff'],
    ['On' as const, false, 'OptedOut'],
  ])('in mode %s with opt-in %s a hold ends as %s', (mode, optedIn, reason) =>
    expect(decideCheck(snapshot({ mode, optIn: { optedIn, problems: [] }, view: view('Pending', RESERVED) }), T0).writes).toEqual(
      [expect.objectContaining({ reason })],
    ),
  );

  test('a job that is gone is no hold that ended as opted out', () =>
    expect(decideCheck(snapshot({ ...out, jobGone: true, view: view('Pending', RESERVED) }), T0).writes).toEqual([
      { name: 'images', state: 'Ready', message: 'its job is gone', transition: true },
    ]));

  test('a check that says it already is left alone', () => {
    const message = progressMessage(cold, T0);
    expect(
      decideCheck(snapshot({ view: view('Pending', { checks: [{ name: 'images', state: 'Pending', message }] }) }), T0).writes,
    ).toEqual([]);
    expect(decideCheck(snapshot({ view: view('Ready'), warmth: warm }), T0).writes).toEqual([]);
  });

  test('names the node that all wait for, and no time that runs', () => {
    const slow = {
      ...cold,
      desired: 64,
      warm: 61,
      eta: T0 + 170_000,
      slowest: 'slowest node gpu-17: pulling since 2026-01-01T00:00:00Z',
    };
    expect(progressMessage(slow, T0)).toBe(
      '61/64 nodes warm, about 3 min; slowest node gpu-17: pulling since 2026-01-01T00:00:00Z',
    );
    expect(progressMessage(slow, T0 + 10_000)).toBe(progressMessage(slow, T0));
  });

  test('part of the nodes is enough where the check says so', () => {
    const some = (minWarmPercent: number) =>
      decideCheck(snapshot({ checks: new Map([['images', { defaultHoldMs: 0, minWarmPercent }]]) }), T0).writes[0]?.state;
    expect([some(66), some(67)]).toEqual(['Ready', 'Pending']);
  });
  const shares: [string, Partial<Warmth>, 'Ready' | 'Pending'][] = [
    ['the last node failed for good', { reason: 'NodeLost', hopeless: 'n3 is gone' }, 'Ready'],
    ['the deadline of the pulls is over', { reason: 'DeadlineExceeded', hopeless: 'too late' }, 'Ready'],
    ['the rest waits for a slot', { reason: 'WaitingForSlot' }, 'Ready'],
    ['the tag moved: what is warm is not what would run', { reason: 'ImageMoved' }, 'Pending'],
    ['the images are not known', { reason: 'ResolvingImages' }, 'Pending'],
    ['the spec is not valid', { reason: 'Invalid' }, 'Pending'],
    ['the counts are of an older generation, or about to change', { current: false }, 'Pending'],
  ];
  test.each(shares)('part of the nodes: %s', (_title, change, state) => {
    const given = snapshot({
      warmth: { ...cold, ...change },
      checks: new Map([['images', { defaultHoldMs: 0, minWarmPercent: 60 }]]),
    });
    expect(decideCheck(given, T0).writes[0]?.state).toBe(state);
  });
});

describe('the stamp', () => {
  const held = (deadline?: number, now = T0 + 2_000) =>
    decideCheck(
      snapshot({ view: view('Pending', { ...RESERVED, ...(deadline === undefined ? {} : { deadline }) }), holdMs: 10 * MINUTE }),
      now,
    );
  test('comes before anything else and counts from the reservation', () => expect(held().stamp).toBe(T0 + 10 * MINUTE));
  test('stays once it is there', () => expect(held(T0 + 5 * MINUTE).stamp).toBeUndefined());
  test('of an earlier reservation is replaced', () => expect(held(T0 - 1).stamp).toBe(T0 + 10 * MINUTE));
  test('of an earlier, longer hold is replaced: what the gang asks for now counts', () =>
    expect(held(T0 + 24 * 60 * MINUTE).stamp).toBe(T0 + 10 * MINUTE));
  test('of an earlier, longer hold does not outlast the present one', () =>
    expect(held(T0 + 24 * 60 * MINUTE, T0 + 10 * MINUTE).writes[0]?.state).toBe('Ready'));
  const evicted = (since?: number) =>
    decideCheck(
      snapshot({
        view: view('Pending', {
          reservedAt: T0 + 6 * MINUTE,
          deadline: T0 + 10 * MINUTE,
          ...(since === undefined ? {} : { deadlineSince: since }),
        }),
        holdMs: 10 * MINUTE,
      }),
      T0 + 11 * MINUTE,
    );
  test('of the reservation before an eviction takes nothing off the next hold, though its time is still to come', () => {
    expect(evicted(T0).stamp).toBe(T0 + 16 * MINUTE);
    expect(evicted(T0).writes).toEqual([expect.objectContaining({ state: 'Pending' })]);
  });
  test('negative twin: one for this reservation ends the hold, and so does one that says nothing of it', () => {
    for (const since of [T0 + 6 * MINUTE, undefined])
      expect(evicted(since).writes).toEqual([expect.objectContaining({ state: 'Ready', reason: 'DeadlineExceeded' })]);
  });
  test('is not made for a hold that is over: it is let go', () => {
    const late = held(undefined, T0 + 10 * MINUTE);
    expect(late.stamp).toBeUndefined();
    expect(late.writes[0]?.state).toBe('Ready');
  });
  test('is never made before reservation or without a hold', () => {
    expect(decideCheck(snapshot({ holdMs: MINUTE }), T0).stamp).toBeUndefined();
    expect(decideCheck(snapshot({ view: view('Pending', RESERVED) }), T0).stamp).toBeUndefined();
  });
  test('asks for another look no later than the deadline and every half minute', () => {
    expect(held().after).toBe(30_000);
    expect(held(T0 + 5_000).after).toBe(3_000);
  });
});

test('property (P5): with quota reserved nothing stays Pending beyond hold and deadline, whatever is known of the images', () => {
  const warmth = fc.option(fc.constantFrom(warm, cold, hopeless), { nil: undefined });
  fc.assert(
    fc.property(
      warmth,
      fc.nat(3_600_000),
      fc.option(fc.integer({ min: -1e6, max: 3_600_000 }), { nil: undefined }),
      fc.boolean(),
      (w, holdMs, deadline, delayedTopology) => {
        const given = snapshot({
          view: view('Pending', { ...RESERVED, ...(deadline === undefined ? {} : { deadline: T0 + deadline }) }),
          warmth: w,
          holdMs,
          delayedTopology,
        });
        const end = Math.max(holdMs, deadline ?? 0);
        expect(decideCheck(given, T0 + end)).toMatchObject({ writes: [{ state: 'Ready' }] });
        const early = decideCheck(given, T0);
        if (early.writes[0]?.state === 'Pending') expect(early.stamp !== undefined || (deadline ?? -1) >= 0).toBe(true);
      },
    ),
  );
});

describe('what the status says to the hold', () => {
  const object = (observedGeneration: number) => ({
    ...prewarm({
      observedGeneration,
      nodes: { desired: 3, warm: 3, pulling: 0, pending: 0, failed: 0 },
      conditions: [conditionOf('Ready', true, 'AllNodesWarm')],
    }),
  });
  const rows: [string, number, boolean, { ready: boolean; current: boolean }][] = [
    ['about the present generation', 2, false, { ready: true, current: true }],
    ['about an older one', 1, false, { ready: false, current: false }],
    ['while a newer status is being written', 2, true, { ready: false, current: false }],
  ];
  test.each(rows)('%s', (_title, generation, changing, expected) =>
    expect(warmthOf(object(generation), changing)).toMatchObject(expected),
  );

  const over = { conditions: [conditionOf('Ready', false, 'Finished')] };
  const late = (startTime: number) =>
    prewarm({
      observedGeneration: 2,
      startTime: formatTime(startTime),
      conditions: [conditionOf('Ready', false, 'DeadlineExceeded')],
    });
  const state = { admitted: false, finished: false };
  const reserved = (ago: number) => ({ ...state, reservedAt: T0 - ago });
  test.each<[string, ImagePrewarm, Partial<GangState>, boolean]>([
    ['given quota again at once after an eviction', prewarm(over), state, true],
    ['negative twin: it runs', prewarm(over), { ...state, admitted: true }, false],
    ['negative twin: it has ended', prewarm(over), { ...state, finished: true }, false],
    ['negative twin: it is warmed once only', prewarm(over, { retain: 'Never' }), state, false],
    ['negative twin: it is pulled for', prewarm({ conditions: [conditionOf('Ready', false, 'PullingImages')] }), state, false],
    ['its time was over, and it was given quota again at once', late(T0 - 2 * MINUTE), reserved(1_000), true],
    ['its time was over, and it waits in its queue', late(T0 - 2 * MINUTE), state, true],
    ['negative twin: its time is over with this quota', late(T0 - 3 * MINUTE), reserved(2 * MINUTE), false],
    ['negative twin: it runs, late', late(T0 - 2 * MINUTE), { ...reserved(1_000), admitted: true }, false],
  ])('of an earlier run: %s', (_title, object, gang, earlier) =>
    expect(isOfEarlierRun(object, gang as GangState, { now: T0, deadlineMs: MINUTE })).toBe(earlier),
  );
  test('a time that was over is of an earlier run until there is a plan', () => {
    const [object, gang] = [late(T0 - 3 * MINUTE), reserved(2 * MINUTE) as GangState];
    expect(isOfEarlierRun(object, gang, { now: T0, deadlineMs: undefined })).toBe(true);
  });
});

describe('parameters of a check', () => {
  const configs = (spec?: unknown) => ({
    get: (name: string) => (spec === undefined || name !== 'c' ? undefined : { name, spec }),
  });
  const check = (parameters?: { apiGroup: string; kind: string; name: string }) => ({
    name: 'images',
    controllerName: 'x',
    conditions: [],
    ...(parameters === undefined ? {} : { parameters }),
  });
  const ref = { apiGroup: 'harbinger.dev', kind: 'PrewarmCheckConfig', name: 'c' };
  const defaults = { defaultHoldMs: 0, minWarmPercent: 100 };

  test('are read', () =>
    expect(parametersOf(check(ref), configs({ defaultHoldSeconds: 60, minWarmPercent: 90 }))).toEqual({
      parameters: { defaultHoldMs: MINUTE, minWarmPercent: 90 },
    }));
  test('none means defaults', () => expect(parametersOf(check(), configs())).toEqual({ parameters: defaults }));
  const bad: [string, Parameters<typeof check>[0], unknown, string][] = [
    ['absent', ref, undefined, 'there is no PrewarmCheckConfig c'],
    ['of another kind', { ...ref, kind: 'ConfigMap' }, {}, 'it must be a PrewarmCheckConfig'],
    ['out of bounds', ref, { minWarmPercent: 0 }, 'PrewarmCheckConfig c:'],
  ];
  test.each(bad)('%s: defaults, the check stays active and says so', (...[, parameters, spec, problem]) => {
    const answer = parametersOf(check(parameters), configs(spec));
    expect(answer).toMatchObject({ parameters: defaults, problem: expect.stringContaining(problem) });
    expect(activeCondition(check(parameters), answer.problem, '2026-01-01T00:00:00Z')).toMatchObject({
      status: 'True',
      reason: 'BadParametersRef',
    });
  });
  test('Active is written once', () => {
    const condition = activeCondition(check(), undefined, '2026-01-01T00:00:00Z');
    expect(condition).toMatchObject({ type: 'Active', status: 'True', reason: 'Active' });
    expect(activeCondition({ ...check(), conditions: [{ ...condition }] }, undefined, '2026-02-02T00:00:00Z')).toBeUndefined();
  });
});

describe('what a status says is warm is borne out', () => {
  const sums = { pulling: 0, pending: 0, failed: 0 };
  const told = (ready: boolean, warmNodes: number) =>
    prewarm({
      observedGeneration: 1,
      nodes: { desired: 3, warm: warmNodes, ...sums },
      conditions: [conditionOf('Ready', ready, ready ? 'AllNodesWarm' : 'PullingImages')],
    });
  const ready = told(true, 3);
  const plan = (warmNodes: number, change: Partial<PrewarmPlan> = {}): PrewarmPlan => ({
    signature: signatureOf(ready),
    lifecycle: { mayPull: true, keep: true },
    candidates: { reasons: {}, desired: 3, empty: [] },
    progress: { desired: 3, warm: warmNodes, ...sums, failures: [], runningSince: [], seenMs: [] },
    deadlineMs: MINUTE,
    concurrency: 1,
    ...change,
  });
  const more = { progress: { desired: 4, warm: 3, ...sums, failures: [], runningSince: [], seenMs: [] } };
  test.each<[string, ReturnType<typeof told>, PrewarmPlan | undefined, boolean]>([
    ['by a plan that sees the same nodes warm', ready, plan(3), true],
    ['by a plan that sees more than the status tells', told(false, 1), plan(2), true],
    ['not before the first plan of a new leader', ready, undefined, false],
    ['not by a plan that sees fewer, as after pullers went while nobody looked', ready, plan(2), false],
    ['not in part by a plan that sees fewer', told(false, 2), plan(1), false],
    ['not by a plan in which the gang needs more nodes', ready, plan(3, more), false],
    ['not by a plan for another record', ready, plan(3, { signature: 'of other images' }), false],
    [
      'not by a plan that keeps no pullers',
      ready,
      plan(3, { lifecycle: { mayPull: false, keep: false, why: 'Finished' } }),
      false,
    ],
  ])('%s', (_what, object, seen, expected) => {
    expect(isSeen(object, seen)).toBe(expected);
  });
});
