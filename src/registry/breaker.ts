import { LRUCache } from 'lru-cache';
import type { Clock } from '../observe/clock.js';

/** Failures in a row after which something is left alone. */
const THRESHOLD = 5;
/** Most that failed and are remembered: tenants decide how many there can be. */
const MAX_ENTRIES = 5000;
const FIRST_PAUSE_MS = 15_000;
const MAX_PAUSE_MS = 120_000;
/** Longest pause that a registry can ask for (Retry-After). */
const MAX_ASKED_MS = 5 * 60_000;
/** Replicas and clusters that were limited together must not come back together. */
const JITTER = 0.2;

export interface Failure {
  cause: string;
  /** How long the registry itself asked to be left alone, milliseconds: that opens the breaker at once. */
  askedMs?: number;
  /** One failure is enough: the registry said that it has enough, or there is another host to ask instead. */
  atOnce?: boolean;
  /** What it was seen with: failures of one witness count once, however many there are. */
  witness?: string;
}

export type BreakerState = 'closed' | 'open' | 'half-open';

interface Entry {
  failures: number;
  witnesses: Set<string>;
  /** Length of the last pause; 0 while closed. */
  pauseMs: number;
  openUntil: number;
  /** One trial call is under way while half-open. */
  trial: boolean;
  cause: string;
}

/**
 * Circuit breakers by key: a registry that is down must cost each admission nothing, and must not be hammered while it recovers.
 * An answer of any kind, also "not found" or "denied", shows that it lives. The caller chooses what a key stands for.
 */
export class Breaker {
  readonly #entries = new LRUCache<string, Entry>({ max: MAX_ENTRIES });
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Asks to call `key`: undefined if it may be called (then succeed or fail must follow), else why not and for how long. */
  enter(key: string): { cause: string; waitMs: number } | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.pauseMs === 0) return undefined;
    const waitMs = entry.openUntil - this.#clock.now();
    if (waitMs > 0) return { cause: entry.cause, waitMs };
    if (entry.trial) return { cause: entry.cause, waitMs: 1000 };
    entry.trial = true;
    return undefined;
  }

  succeed(key: string): void {
    const entry = this.#entries.get(key);
    // A call that began before the pause says nothing of what came then.
    if (entry === undefined || (entry.openUntil > this.#clock.now() && !entry.trial)) return;
    this.#entries.delete(key);
  }

  /** Counts a failure. */
  fail(key: string, { cause, askedMs, atOnce = false, witness }: Failure): void {
    const known = this.#entries.get(key);
    const entry = known ?? { failures: 0, witnesses: new Set(), pauseMs: 0, openUntil: 0, trial: false, cause };
    this.#entries.set(key, entry);
    if (witness === undefined) entry.failures += 1;
    else entry.witnesses.add(witness);
    entry.cause = cause;
    if (askedMs !== undefined) entry.pauseMs = Math.min(Math.max(askedMs, 1000), MAX_ASKED_MS);
    else if (entry.trial) entry.pauseMs = Math.min(Math.max(entry.pauseMs * 2, FIRST_PAUSE_MS), MAX_PAUSE_MS);
    else if (atOnce || entry.failures + entry.witnesses.size >= THRESHOLD)
      entry.pauseMs = Math.max(entry.pauseMs, FIRST_PAUSE_MS);
    entry.trial = false;
    const jitterMs = atOnce && askedMs === undefined ? entry.pauseMs * JITTER * this.#random() : 0;
    if (entry.pauseMs > 0) entry.openUntil = Math.max(entry.openUntil, this.#clock.now() + entry.pauseMs + jitterMs);
  }

  /** A call ended without an answer from the host (the caller gave up): a trial is given back. */
  abandon(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) entry.trial = false;
  }

  state(key: string): BreakerState {
    const entry = this.#entries.peek(key);
    if (entry === undefined || entry.pauseMs === 0) return 'closed';
    return entry.openUntil > this.#clock.now() ? 'open' : 'half-open';
  }

  /** The worst state of all keys that begin with `prefix`. */
  worst(prefix: string): BreakerState {
    const states = [...this.#entries.keys()].filter((key) => key.startsWith(prefix)).map((key) => this.state(key));
    return (['open', 'half-open'] as const).find((state) => states.includes(state)) ?? 'closed';
  }
}
