/** A timer that has not fired yet. */
export interface Timer {
  cancel(): void;
}

/** Time as a dependency: everything that waits or stamps takes a Clock, so that no test sleeps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  setTimeout(fn: () => void, ms: number): Timer;
}

/** Longest delay that Node's timers take; a longer one would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout(fn, ms) {
    const timer = setTimeout(fn, Math.min(Math.max(0, ms), MAX_DELAY_MS));
    return { cancel: () => clearTimeout(timer) };
  },
};

/** Resolves after `ms`, or at once when `signal` aborts; it never rejects, so loops test the signal themselves. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      timer.cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.setTimeout(done, ms);
    signal?.addEventListener('abort', done, { once: true });
  });
}
