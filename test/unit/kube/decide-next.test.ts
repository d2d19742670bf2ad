import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { decideNext, type Outcome } from '../../../src/kube/decide-next.js';
import { KubeError } from '../../../src/kube/errors.js';

const pace = { backoffMs: [800, 30_000], slowRetryMs: 30_000 } as const;
const half = (): number => 0.5;
const error = (status: number, reason = 'x', retryAfterMs?: number): KubeError =>
  new KubeError('m', { status, reason, retryAfterMs });
const watch = (facts: Partial<Outcome>): Outcome => ({ phase: 'watch', lastedMs: 60_000, events: 3, ...facts });
const list = (facts: Partial<Outcome>): Outcome => ({ phase: 'list', lastedMs: 10, events: 0, ...facts });

describe('what a reflector does next', () => {
  test.each<[string, Outcome, number, ReturnType<typeof decideNext>]>([
    ['a list that worked: watch at once', list({}), 3, { failures: 0, delayMs: 0 }],
    ['a watch that ended at its time: watch again at once', watch({}), 3, { failures: 0, delayMs: 0 }],
    ['a quiet watch that lasted: the same', watch({ events: 0 }), 3, { failures: 0, delayMs: 0 }],
    ['a short watch with an event: the same', watch({ lastedMs: 5 }), 3, { failures: 0, delayMs: 0 }],
    [
      'a short watch without an event: back off, keep the version',
      watch({ lastedMs: 5, events: 0 }),
      0,
      { failures: 1, delayMs: 1_200 },
    ],
    [
      'refused: back off without a relist',
      watch({ error: error(0, 'Unreachable'), lastedMs: 1, events: 0 }),
      1,
      { failures: 2, delayMs: 2_000 },
    ],
    [
      'refused for a long time: still no relist',
      watch({ error: error(0, 'Unreachable'), lastedMs: 1, events: 0 }),
      40,
      { failures: 41, delayMs: 15_400 },
    ],
    [
      'a cut after a good time: the count starts over',
      watch({ error: error(0, 'Unreachable') }),
      9,
      { failures: 1, delayMs: 1_200 },
    ],
    ['expired: relist', watch({ error: error(410) }), 0, { failures: 1, delayMs: 1_200, relist: 'expired' }],
    ['a list that expired between pages: list again anyway', list({ error: error(410) }), 0, { failures: 1, delayMs: 1_200 }],
    [
      'a stream that cannot be read: relist',
      watch({ error: error(0, 'Garbage') }),
      0,
      { failures: 1, delayMs: 1_200, relist: 'unreadable' },
    ],
    [
      'a server that keeps answering with errors: doubt the version',
      watch({ error: error(504), lastedMs: 1, events: 0 }),
      5,
      { failures: 6, delayMs: 15_400, relist: 'stuck' },
    ],
    [
      'an outage behind a balancer: never doubt the version',
      watch({ error: error(503), lastedMs: 1, events: 0 }),
      50,
      { failures: 51, delayMs: 15_400 },
    ],
    [
      'too many requests: as long as the server says',
      watch({ error: error(429, 'x', 9_000) }),
      0,
      { failures: 1, delayMs: 9_000 },
    ],
    ['but not shorter than the own back-off', list({ error: error(503, 'x', 1) }), 0, { failures: 1, delayMs: 1_200 }],
    [
      'forbidden what was allowed before: the API server has just started and not read its roles, so soon again',
      watch({ error: error(403), lastedMs: 1, events: 0, readBefore: true }),
      0,
      { failures: 1, delayMs: 1_200, trouble: 'forbidden' },
    ],
    [
      'forbidden again and again what was allowed before: somebody has taken the right away, so slowly',
      list({ error: error(403), readBefore: true }),
      5,
      { failures: 6, delayMs: 22_500, trouble: 'forbidden' },
    ],
    ['forbidden: slowly', list({ error: error(403) }), 0, { failures: 1, delayMs: 22_500, trouble: 'forbidden' }],
    ['no such resource: slowly', list({ error: error(404) }), 0, { failures: 1, delayMs: 22_500, trouble: 'absent' }],
    ['an error that nobody expected: back off', watch({ error: new RangeError('bug') }), 0, { failures: 1, delayMs: 1_200 }],
  ])('%s', (_what, outcome, before, wanted) => {
    expect(decideNext(outcome, before, pace, half)).toEqual(wanted);
  });

  test('pauses stay between the first and the longest step, whatever happened', () => {
    const outcome = fc.record({
      phase: fc.constantFrom('list' as const, 'watch' as const),
      error: fc.oneof(
        fc.constantFrom(0, 400, 409, 410, 500, 503).map((s) => error(s)),
        fc.string(),
      ),
      lastedMs: fc.nat(),
      events: fc.nat(5),
    });
    fc.assert(
      fc.property(outcome, fc.nat(1_000), fc.double({ min: 0, max: 0.999, noNaN: true }), (o, before, random) => {
        const { delayMs } = decideNext(o, before, pace, () => random);
        expect(delayMs).toBeGreaterThanOrEqual(800);
        expect(delayMs).toBeLessThanOrEqual(30_000);
      }),
    );
  });
});
