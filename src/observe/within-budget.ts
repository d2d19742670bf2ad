import type { Clock } from './clock.js';

/**
 * Waits for all of `running` together, at most `ms`, and returns what has come by then. What is late goes on: its answer is
 * cached for those that follow. Promises must not reject.
 */
export function withinBudget<T>(running: ReadonlyMap<string, Promise<T>>, ms: number, clock: Clock): Promise<Map<string, T>> {
  const arrived = new Map<string, T>();
  if (running.size === 0) return Promise.resolve(arrived);
  return new Promise((resolve) => {
    const timer = clock.setTimeout(() => resolve(new Map(arrived)), ms);
    for (const [key, promise] of running) {
      void promise.then((value) => {
        arrived.set(key, value);
        if (arrived.size < running.size) return;
        timer.cancel();
        resolve(arrived);
      });
    }
  });
}
