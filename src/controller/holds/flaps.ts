import type { ReadyReason } from '../../api/reasons.js';
import type { Warmth } from './decide.js';

/** How long a check that was taken back stays so, by how often that happened lately, ms. */
const FIRST_MS = 10_000;
const LONGEST_MS = 120_000;
/** A gang that was quiet for so long begins anew, ms. */
const FORGIVEN_MS = 600_000;

/** What is said of a gang whose turn is not now: it has lost nothing, however often somebody takes it out of its queue. */
const OUT_OF_TURN: ReadonlySet<string> = new Set<ReadyReason>(['Suspended', 'Pending', 'Observing', 'SwitchedOff', 'Finished']);

/** Whether nodes of a gang have lost its images: its turn that passes, or a status on its way, is no such thing. */
export function hasLost(warmth: Warmth | undefined): boolean {
  return warmth !== undefined && warmth.warm < warmth.desired && !OUT_OF_TURN.has(warmth.reason);
}

/**
 * Damps checks whose nodes come and go: each change of a check wakes Kueue, and a gang that is Ready for a second at a time starts
 * on nodes that are about to go. Only the way back to Ready waits; losing it never does, nor does a gang that has quota.
 */
export class Flaps {
  readonly #taken = new Map<string, { at: number; times: number }>();

  /** The check of a gang was Ready and is not any more. */
  takenBack(key: string, now: number): void {
    const before = this.#taken.get(key);
    const times = before === undefined || now >= before.at + FORGIVEN_MS ? 1 : before.times + 1;
    this.#taken.set(key, { at: now, times });
  }

  /** How long the check has to wait until it may be Ready again, ms; 0 where it need not. A clock that goes back makes nobody wait longer. */
  waitMs(key: string, now: number): number {
    const taken = this.#taken.get(key);
    if (taken === undefined || now < taken.at) return 0;
    return Math.max(0, taken.at + Math.min(LONGEST_MS, FIRST_MS * 2 ** (taken.times - 1)) - now);
  }

  forget(key: string): void {
    this.#taken.delete(key);
  }
}
