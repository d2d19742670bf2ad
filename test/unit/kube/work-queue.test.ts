import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { KubeError } from '../../../src/kube/errors.js';
import { Terminal, Waiting, WorkQueue, type Result } from '../../../src/kube/work-queue.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { FakeClock, keepLog, settle } from './fake-clock.js';

/** A queue whose runs end when the test says so. */
function gated(concurrency = 1, more: { longestRetryMs?: number } = {}) {
  const clock = new FakeClock();
  const { log, lines } = keepLog();
  const runs: { key: string; end: (result?: Result) => void; fail: (error: unknown) => void }[] = [];
  const started: string[] = [];
  const queue = new WorkQueue({
    name: 'test',
    concurrency,
    ...more,
    clock,
    log,
    reconcile: (key) =>
      new Promise((resolve, reject) => {
        started.push(key);
        runs.push({ key, end: (result = {}) => resolve(result), fail: reject });
      }),
  });
  const next = async (): Promise<(typeof runs)[number]> => {
    await settle();
    const run = runs.shift();
    if (run === undefined) throw new Error(`nothing runs; started so far: ${started.join(', ')}`);
    return run;
  };
  return { clock, queue, started, next, lines };
}

describe('the work queue', () => {
  test('conflicts are everyday life and not worth a warning, unless they do not end', async () => {
    const { clock, queue, next, lines } = gated();
    queue.start();
    queue.add('a');
    for (let i = 0; i < 6; i++) {
      (await next()).fail(new KubeError('the object has been modified', { status: 409, reason: 'Conflict' }));
      await clock.advance(1_000);
    }
    expect(lines.filter((l) => l.level >= 40).map((l) => l['failures'])).toEqual([5, 6]);
  });

  test('runs a key once however often it was added while it waited', async () => {
    const { queue, next, started } = gated();
    for (let i = 0; i < 1000; i++) queue.add('a');
    queue.start();
    (await next()).end();
    await settle();
    expect(started).toEqual(['a']);
  });

  test('runs a key exactly once more when it was added while it ran, and never beside itself', async () => {
    const { queue, next, started } = gated(4);
    queue.start();
    queue.add('a');
    const first = await next();
    for (let i = 0; i < 10; i++) queue.add('a');
    await settle();
    expect(started).toEqual(['a']);
    first.end();
    (await next()).end();
    await settle();
    expect(started).toEqual(['a', 'a']);
  });

  test('runs as many keys at once as it has workers, in the order of their adds', async () => {
    const { queue, next, started } = gated(2);
    queue.start();
    for (const key of ['a', 'b', 'c']) queue.add(key);
    const a = await next();
    expect(started).toEqual(['a', 'b']);
    a.end();
    await settle();
    expect(started).toEqual(['a', 'b', 'c']);
  });

  test('backs off 5, 10, 20 ms ... up to 5 min, and starts over after a success', async () => {
    const { queue, next, clock } = gated();
    queue.start();
    queue.add('a');
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      (await next()).fail(new Error('no'));
      await settle();
      waits.push(clock.untilNext ?? -1);
      await clock.advance(clock.untilNext ?? 0);
    }
    expect(waits.slice(0, 4)).toEqual([5, 10, 20, 40]);
    expect(waits.at(-1)).toBe(300_000);
    (await next()).end();
    queue.add('a');
    (await next()).fail(new Error('no'));
    await settle();
    expect(clock.untilNext).toBe(5);
  });

  test('waits as long as the server asked for, when that is longer than its own step', async () => {
    const { queue, next, clock } = gated();
    queue.start();
    queue.add('a');
    (await next()).fail(Object.assign(new Error('slow down'), { retryAfterMs: 7_000 }));
    await settle();
    expect(clock.untilNext).toBe(7_000);
  });

  test.each([
    ['for minutes', {}, 81_920],
    ['no longer than it may', { longestRetryMs: 5_000 }, 5_000],
  ])('waits after many failures %s', async (_title, more, expected) => {
    const { queue, next, clock } = gated(1, more);
    queue.start();
    queue.add('a');
    for (let i = 0; i < 15; i++) {
      (await next()).fail(new KubeError('away', { status: 500, reason: 'InternalError', retryAfterMs: 1 }));
      await settle();
      if (i < 14) await clock.advance(300_000);
    }
    expect(clock.untilNext).toBe(expected);
  });

  test('does not let an add cut a back-off short, but does not lose it either', async () => {
    const { queue, next, clock, started } = gated();
    queue.start();
    queue.add('a');
    (await next()).fail(Object.assign(new Error('no'), { retryAfterMs: 1_000 }));
    await settle();
    queue.add('a');
    await clock.advance(999);
    expect(started).toEqual(['a']);
    await clock.advance(1);
    expect(started).toEqual(['a', 'a']);
    (await next()).end();
    await clock.advance(600_000);
    expect(started).toEqual(['a', 'a']);
  });

  test('an add does run a key at once that only waits for its next look', async () => {
    const { queue, next, clock, started } = gated();
    queue.start();
    queue.add('a');
    (await next()).end({ after: 60_000 });
    await settle();
    queue.add('a');
    await settle();
    expect(started).toEqual(['a', 'a']);
    (await next()).end();
    await clock.advance(60_000);
    expect(started).toEqual(['a', 'a', 'a']);
  });

  test.each([
    ['the earlier one stays when a later one follows', [100, 500], 100],
    ['an earlier one replaces a later one', [500, 100], 100],
  ])('addAfter keeps the earliest time: %s', async (_what, delays, wanted) => {
    const { queue, clock, started } = gated();
    queue.start();
    for (const ms of delays) queue.addAfter('a', ms);
    expect(clock.pending).toBe(1);
    await clock.advance(wanted - 1);
    expect(started).toEqual([]);
    await clock.advance(1);
    expect(started).toEqual(['a']);
  });

  test('rests a key after Terminal and looks again after Waiting, without counting a failure', async () => {
    const { queue, next, clock, lines, started } = gated();
    queue.start();
    queue.add('a');
    (await next()).fail(new Terminal('spec is wrong'));
    await clock.advance(600_000);
    expect(started).toEqual(['a']);
    expect(lines.filter((l) => l.level >= 50)).toHaveLength(1);
    queue.add('b');
    (await next()).fail(new Waiting('node is booting', 3_000));
    await settle();
    expect(clock.untilNext).toBe(3_000);
    await clock.advance(3_000);
    (await next()).fail(new Error('no'));
    await settle();
    expect(clock.untilNext).toBe(5);
  });

  test('stop waits for what runs, drops back-off and delays, and starts nothing more', async () => {
    const { queue, next, clock, started } = gated();
    queue.start();
    queue.add('failing');
    (await next()).fail(new Error('no'));
    await settle();
    queue.addAfter('later', 100);
    queue.add('running');
    queue.add('waiting');
    const run = await next();
    let stopped = false;
    const stopping = queue.stop().then(() => (stopped = true));
    await settle();
    expect(stopped).toBe(false);
    run.fail(new Error('interrupted'));
    await stopping;
    queue.add('new');
    await clock.advance(600_000);
    expect(started).toEqual(['failing', 'running']);
    expect(clock.pending).toBe(0);
  });

  test('stop of a queue that never started returns', async () => {
    const { queue } = gated();
    queue.add('a');
    await queue.stop();
  });

  test("shows client-go's metrics", async () => {
    const clock = new FakeClock();
    const metrics = new Metrics();
    let end: () => void = () => undefined;
    const reconcile = (): Promise<Result> => new Promise((resolve) => (end = () => resolve({})));
    const queue = new WorkQueue({ name: 'gangs', concurrency: 1, clock, log: keepLog().log, metrics, reconcile });
    queue.start();
    queue.add('a');
    queue.add('b');
    await clock.advance(2_000);
    const busy = await metrics.text();
    expect(busy).toContain('workqueue_depth{name="gangs"} 1');
    expect(busy).toContain('workqueue_unfinished_work_seconds{name="gangs"} 2');
    expect(busy).toContain('workqueue_longest_running_processor_seconds{name="gangs"} 2');
    end();
    await settle();
    end();
    await settle();
    const done = await metrics.text();
    expect(done).toContain('workqueue_adds_total{name="gangs"} 2');
    expect(done).toContain('workqueue_work_duration_seconds_count{name="gangs"} 2');
    expect(done).toContain('workqueue_longest_running_processor_seconds{name="gangs"} 0');
  });
});

type Step = { do: 'add' | 'addAfter' | 'finish' | 'fail' | 'wait'; key: number; ms: number };
const step: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom('add', 'addAfter', 'finish', 'fail', 'wait'),
  key: fc.nat(3),
  ms: fc.integer({ min: 1, max: 400 }),
});

/** A queue with what it was asked and what it did; the rules are checked while it runs. */
class Observed {
  readonly clock = new FakeClock();
  readonly queue: WorkQueue;
  /** Per key: the state that the last add announced, and the state that the last run saw. */
  readonly announced = new Map<string, number>();
  readonly seen = new Map<string, number>();
  readonly #running: { key: string; resolve: (r: Result) => void; reject: (e: unknown) => void }[] = [];
  readonly #busy = new Set<string>();
  allowed = 0;
  runs = 0;

  constructor(concurrency: number) {
    const reconcile = (key: string): Promise<Result> => {
      expect(this.#busy.has(key)).toBe(false);
      this.#busy.add(key);
      expect(this.#busy.size).toBeLessThanOrEqual(concurrency);
      this.runs++;
      this.seen.set(key, this.announced.get(key) ?? 0);
      return new Promise((resolve, reject) => this.#running.push({ key, resolve, reject }));
    };
    this.queue = new WorkQueue({ name: 'p', concurrency, clock: this.clock, log: keepLog().log, reconcile });
    this.queue.start();
  }

  async take({ do: what, key, ms }: Step): Promise<void> {
    const name = `k${key}`;
    if (what === 'add' || what === 'addAfter') {
      this.allowed++;
      this.announced.set(name, (this.announced.get(name) ?? 0) + 1);
      if (what === 'add') this.queue.add(name);
      else this.queue.addAfter(name, ms);
    } else if (what === 'wait') await this.clock.advance(ms);
    else this.#leave(key, what);
    await settle();
  }

  /** Everything succeeds from here on; what is pending has to run. */
  async finish(): Promise<void> {
    for (let i = 0; i < 500 && (this.#running.length > 0 || this.clock.pending > 0); i++) {
      while (this.#running.length > 0) {
        this.#leave(0, 'finish');
        await settle();
      }
      await this.clock.advance(this.clock.untilNext ?? 0);
    }
    await this.queue.stop();
  }

  #leave(pick: number, how: 'finish' | 'fail'): void {
    const [run] = this.#running.splice(pick % Math.max(1, this.#running.length), 1);
    if (run === undefined) return;
    this.#busy.delete(run.key);
    if (how === 'finish') return run.resolve({});
    this.allowed++;
    run.reject(new Error('no'));
  }
}

describe('the work queue under any order of events', () => {
  test('serialises each key, loses no add, and runs no more often than it was asked to', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 3 }), async (steps, concurrency) => {
        const observed = new Observed(concurrency);
        for (const each of steps) await observed.take(each);
        await observed.finish();
        for (const [key, state] of observed.announced) expect([key, observed.seen.get(key)]).toEqual([key, state]);
        expect(observed.runs).toBeLessThanOrEqual(observed.allowed);
      }),
      { numRuns: 150 },
    );
  });
});
