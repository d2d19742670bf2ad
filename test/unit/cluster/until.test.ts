import { describe, expect, test } from '@jest/globals';
import { GiveUp, notYet, until } from '../../cluster/until.js';

describe('until', () => {
  test('returns what the probe returns once that is not a form of "not yet"', async () => {
    const answers = [undefined, false, null, notYet('almost'), 0];
    expect(await until('a number', () => answers.shift(), { everyMs: 1 })).toBe(0);
  });

  test.each([
    ['a state', () => notYet({ ready: 2, of: 3 }), /3 pods: not within 0.03 s. Last state: \{ ready: 2, of: 3 \}/],
    ['an error', () => Promise.reject(new Error('connection refused')), /Last state: connection refused/],
    ['nothing', () => undefined, /Last state: undefined/],
  ])('names the last state when time is up: %s', async (_, probe, message) => {
    await expect(until<boolean>('3 pods', probe as () => undefined, { timeoutMs: 30, everyMs: 5 })).rejects.toThrow(message);
  });

  test('a probe that never answers does not carry the wait past its deadline', async () => {
    const begun = performance.now();
    await expect(until('an answer', () => new Promise<true>(() => undefined), { timeoutMs: 40, everyMs: 5 })).rejects.toThrow(
      /the probe has not returned once/,
    );
    expect(performance.now() - begun).toBeLessThan(2_000);
  });

  test('giving up ends the wait at once', async () => {
    let calls = 0;
    const probe = (): never => {
      calls++;
      throw new GiveUp('etcd has exited (1)');
    };
    await expect(until('the API server', probe)).rejects.toThrow('gave up waiting for the API server: etcd has exited (1)');
    expect(calls).toBe(1);
  });
});
