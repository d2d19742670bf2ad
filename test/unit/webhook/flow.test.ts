import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../kube/fake-clock.js';
import { withinBudget } from '../../../src/observe/within-budget.js';
import { drain } from '../../../src/webhook/drain.js';
import { LagMeter, Overload } from '../../../src/webhook/overload.js';

describe('withinBudget', () => {
  test('waits for all, and no longer than for all', async () => {
    const clock = new FakeClock();
    const all = await withinBudget(
      new Map([
        ['a', Promise.resolve(1)],
        ['b', Promise.resolve(2)],
      ]),
      1000,
      clock,
    );
    expect([...all]).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
    expect(clock.pending).toBe(0);
  });

  test('returns what has come when the budget is over, and never more', async () => {
    const clock = new FakeClock();
    const late: { resolve?: (n: number) => void } = {};
    const slow = new Promise<number>((resolve) => (late.resolve = resolve));
    const result = withinBudget(
      new Map([
        ['fast', Promise.resolve(1)],
        ['slow', slow],
      ]),
      1000,
      clock,
    );
    await clock.advance(1000);
    const arrived = await result;
    late.resolve?.(2);
    await settle();
    expect([...arrived]).toEqual([['fast', 1]]);
  });

  test('of nothing takes no time', async () => {
    expect(await withinBudget(new Map(), 1000, new FakeClock())).toEqual(new Map());
  });
});

describe('Overload', () => {
  const make = (lag = 0): Overload =>
    new Overload({
      limits: () => ({ maxInFlightRequests: 2, maxInFlightBytes: 100, eventLoopLagMs: 200 }),
      lagMs: () => lag,
      maxBodyBytes: 60,
    });
  const enter = (o: Overload) => {
    const ticket = o.enter();
    if (typeof ticket === 'string') throw new Error(ticket);
    return ticket;
  };

  test('lets in as many as allowed, and again when one leaves', () => {
    const overload = make();
    const [a] = [enter(overload), enter(overload)];
    expect(overload.enter()).toBe('requests');
    a.leave();
    a.leave();
    expect(overload.requests).toBe(1);
    expect(typeof overload.enter()).toBe('object');
  });

  test('counts the bytes of all together and of each', () => {
    const overload = make();
    const [a, b] = [enter(overload), enter(overload)];
    expect([a.take(50), a.take(20), b.take(50), b.take(1)]).toEqual([undefined, 'body-too-large', undefined, 'bytes']);
    a.leave();
    expect([overload.bytes, b.take(5)]).toEqual([50, undefined]);
    b.leave();
    expect([overload.bytes, overload.requests]).toEqual([0, 0]);
  });

  test('lets nobody in while the event loop lags', () => {
    expect(make(201).enter()).toBe('event-loop-lag');
    expect(typeof make(200).enter()).toBe('object');
  });
});

describe('LagMeter', () => {
  test.each<[string, number[], number]>([
    ['one stall does not count', [0, 0, 300], 0],
    ['a standing delay counts with its least', [300, 250, 400], 250],
    ['a delay that is over does not count', [300, 300, 0], 0],
    ['too few samples say nothing', [300, 300], 0],
  ])('%s', async (_, delays, want) => {
    const clock = new FakeClock();
    let now = 0;
    const meter = new LagMeter(clock, () => now);
    meter.start();
    for (const delay of delays) {
      now += 50 + delay;
      await clock.advance(50);
    }
    expect(meter.lagMs).toBe(want);
    meter.stop();
    expect(clock.pending).toBe(0);
  });
});

describe('drain', () => {
  const make = () => {
    const steps: string[] = [];
    const open: { resolve?: () => void } = {};
    const server = {
      sayGoodbye: () => void steps.push('goodbye'),
      close: () => {
        steps.push('close');
        return new Promise<void>((resolve) => (open.resolve = resolve));
      },
      closeIdle: () => void steps.push('idle'),
      closeAll: () => {
        steps.push('all');
        open.resolve?.();
      },
    };
    return { steps, open, server, unready: () => void steps.push('unready') };
  };

  test('keeps serving for the propagation delay, then closes idle connections until all are gone', async () => {
    const clock = new FakeClock();
    const { steps, open, server, unready } = make();
    const done = drain({ server, unready, clock, propagationMs: 5_000, deadlineMs: 10_000 });
    await clock.advance(4_999);
    expect(steps).toEqual(['unready', 'goodbye']);
    await clock.advance(300);
    expect(steps).toEqual(['unready', 'goodbye', 'close', 'idle', 'idle']);
    open.resolve?.();
    await done;
    expect(steps.at(-1)).toBe('all');
  });

  test('cuts what is left at the deadline', async () => {
    const clock = new FakeClock();
    const { steps, server, unready } = make();
    const done = drain({ server, unready, clock, propagationMs: 0, deadlineMs: 1_000 });
    await clock.advance(1_250);
    await done;
    expect(steps.filter((s) => s === 'idle')).toHaveLength(4);
    expect(steps.at(-1)).toBe('all');
  });
});
