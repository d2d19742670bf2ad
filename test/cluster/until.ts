import { inspect } from 'node:util';

/** What a probe returns when the condition does not hold yet and there is something to say about how far it is. */
export class NotYet {
  readonly state: unknown;
  constructor(state: unknown) {
    this.state = state;
  }
}

/** Thrown by a probe when waiting longer cannot help (the process under test has exited, say): `until` stops at once. */
export class GiveUp extends Error {}

/** `return notYet(state)` in a probe: the state is printed if the deadline passes. */
export const notYet = (state: unknown): NotYet => new NotYet(state);

type Pending = NotYet | undefined | null | false;

/**
 * Polls `probe` until it returns something other than undefined, null, false or `notYet(...)`, and returns that.
 *
 * A probe that throws counts as "not yet" (an API server that restarts refuses connections for a while), except GiveUp.
 * After `timeoutMs` (default 30 s) it throws with the last state, which is what one needs to know at that moment.
 */
export async function until<T>(
  what: string,
  probe: () => T | Pending | Promise<T | Pending>,
  { timeoutMs = 30_000, everyMs = 100 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let last: unknown = 'the probe has not returned once';
  for (;;) {
    try {
      const answer = await within(Math.max(deadline - performance.now(), 1), probe);
      if (answer instanceof NotYet) last = answer.state;
      else if (answer === undefined || answer === null || answer === false) last = answer;
      else return answer;
    } catch (error) {
      if (error instanceof GiveUp) throw new Error(`gave up waiting for ${what}: ${error.message}`, { cause: error });
      if (!(error instanceof ProbeTimeout)) last = error instanceof Error ? error.message : error;
    }
    if (performance.now() + everyMs > deadline) {
      throw new Error(`${what}: not within ${timeoutMs / 1000} s. Last state: ${show(last)}`);
    }
    await sleep(everyMs);
  }
}

/** Resolves after `ms`. Only for `until` and for pacing loops: tests wait on conditions. */
export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

class ProbeTimeout extends Error {}

// A probe that hangs (a paused API server) must not carry the wait past its deadline.
async function within<T>(ms: number, probe: () => T | Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ProbeTimeout()), ms);
  });
  try {
    return await Promise.race([Promise.resolve().then(probe), late]);
  } finally {
    clearTimeout(timer);
  }
}

const show = (state: unknown): string =>
  typeof state === 'string' ? state : inspect(state, { depth: 6, breakLength: 120, maxStringLength: 2000 });
