import { describe, expect, test } from '@jest/globals';
import type { CheckSnapshot } from '../../../src/controller/holds/decide.js';
import { decideCheck } from '../../../src/controller/holds/decide.js';
import type { HoldView } from '../../../src/gangs/hold.js';
import { T0 } from './fixtures.js';
import { MINUTE, RESERVED, cold, hopeless, snapshot, view, warm } from './hold-fixtures.js';

describe('a hold that is over, where the check says Retry', () => {
  const retry = { afterMs: 300_000, times: 2 };
  const given = (retries: number, change: Partial<CheckSnapshot> = {}, afterMs = retry.afterMs) =>
    decideCheck(
      snapshot({
        view: view('Pending', {
          ...RESERVED,
          deadline: T0 + MINUTE,
          checks: [{ name: 'images', state: 'Pending', message: '', retries }],
        }),
        checks: new Map([['images', { defaultHoldMs: MINUTE, minWarmPercent: 100, retry: { ...retry, afterMs } }]]),
        ...change,
      }),
      T0 + MINUTE,
    ).writes;
  test('gives the quota back for a while', () =>
    expect(given(0)).toEqual([
      expect.objectContaining({
        state: 'Retry',
        reason: 'SentBack',
        requeueAfterMs: 300_000,
        transition: true,
        message: expect.stringMatching(/^timed out, back to the queue: the hold of 1m is over with 2\/3 nodes warm.*\(1 of 2\)$/),
      }),
    ]));
  test.each([
    [0, 'at its next turn (1 of 2)'],
    [300_000, 'in 5m at the earliest (1 of 2)'],
  ])('says when it may have quota again, after %i ms', (afterMs, again) => {
    const [write] = given(0, {}, afterMs);
    expect(write?.message).toContain(`; quota again ${again}`);
    expect(write?.requeueAfterMs).toBe(afterMs);
  });
  test('starts the gang cold after the last time', () =>
    expect(given(2)).toEqual([
      expect.objectContaining({
        state: 'Ready',
        message: expect.stringContaining('starting cold: the hold of 1m is over for the 3rd time'),
      }),
    ]));
  const both = (other: string): HoldView => {
    const checks = [
      { name: 'images', state: 'Pending', message: '' },
      { name: 'nodes', state: other, message: '' },
    ];
    return view('Pending', { ...RESERVED, deadline: T0 + MINUTE, checks });
  };
  const never: [string, Partial<CheckSnapshot>, string][] = [
    ['hopeless', { warmth: hopeless }, 'Ready'],
    ['warm', { warmth: warm }, 'Ready'],
    ['let go by hand', { optIn: { optedIn: true, problems: [], holdMs: 0 } }, 'Ready'],
    ['an elastic job that grows', { grows: true }, 'Ready'],
    ['waiting for another check too', { view: both('Pending') }, 'Ready'],
    ['asked about by another check that is content', { view: both('Ready') }, 'Retry'],
    ['the time of its pulls is over', { warmth: { ...cold, reason: 'DeadlineExceeded', hopeless: 'late' } }, 'Retry'],
  ];
  test.each(never)('a gang that is %s', (_title, change, state) => expect(given(0, change)[0]?.state).toBe(state));
  test('counts from the end of the hold, whatever a clock that is ahead says', () => {
    const held = view('Pending', { ...RESERVED, deadline: T0 + MINUTE });
    const checks = new Map([['images', { defaultHoldMs: MINUTE, minWarmPercent: 100, retry }]]);
    const [write] = decideCheck(snapshot({ view: held, checks }), T0 + 180 * MINUTE).writes;
    expect(write).toMatchObject({ state: 'Retry', since: T0 + MINUTE });
  });
  test('is not sent back where it runs since before its queue had the check', () => {
    const running = view('Pending', { ...RESERVED, admitted: true });
    expect(given(0, { view: running })).toEqual([expect.objectContaining({ state: 'Ready', reason: undefined })]);
  });
  test('is never sent back without quota, nor while it is evicted', () => {
    expect(given(0, { view: view('Pending') })[0]?.state).toBe('Pending');
    expect(given(0, { view: view('Pending', { ...RESERVED, evicted: true }) })).toEqual([]);
  });
});
