import { describe, expect, test } from '@jest/globals';
import { sleep, systemClock } from '../../../src/observe/clock.js';
import { FakeClock } from '../kube/fake-clock.js';

describe('sleep', () => {
  test('ends when the time has passed, and not before', async () => {
    const clock = new FakeClock();
    let done = false;
    const slept = sleep(clock, 1000).then(() => (done = true));
    await clock.advance(999);
    await Promise.resolve();
    expect(done).toBe(false);
    await clock.advance(1);
    await slept;
    expect(done).toBe(true);
  });

  test('ends at once on abort and leaves no timer', async () => {
    const clock = new FakeClock();
    const abort = new AbortController();
    const slept = sleep(clock, 1000, abort.signal);
    abort.abort();
    await slept;
    expect(clock.pending).toBe(0);
    await sleep(clock, 1000, abort.signal);
    expect(clock.pending).toBe(0);
  });
});

test('a delay beyond what timers take does not fire at once', async () => {
  let fired = false;
  const timer = systemClock.setTimeout(() => (fired = true), 2 ** 40);
  await new Promise((resolve) => setImmediate(resolve));
  timer.cancel();
  expect(fired).toBe(false);
});
