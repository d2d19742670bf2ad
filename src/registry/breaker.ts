import type { Clock } from '../observe/clock.js';

/** Failures in a row after which a host is left alone. */
const THRESHOLD = 5;
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
}

export type BreakerState = 'closed' | 'open' | 'half-open';

interface Host {
  failures: number;
  /** Length of the last pause; 0 while closed. */
  pauseMs: number;
  openUntil: number;
  /** One trial call is under way while half-open. */
  trial: boolean;
  cause: string;
}

/**
 * A circuit breaker per host: a registry that is down must cost each admission nothing, and must not be hammered while it recovers.
 * An answer of any kind, also "not found" or "denied", shows that the host lives.
 */
export class Breaker {
  readonly #hosts = new Map<string, Host>();
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Asks to call `host`: undefined if it may be called (then succeed or fail must follow), else why not and for how long. */
  enter(host: string): { cause: string; waitMs: number } | undefined {
    const entry = this.#hosts.get(host);
    if (entry === undefined || entry.pauseMs === 0) return undefined;
    const waitMs = entry.openUntil - this.#clock.now();
    if (waitMs > 0) return { cause: entry.cause, waitMs };
    if (entry.trial) return { cause: entry.cause, waitMs: 1000 };
    entry.trial = true;
    return undefined;
  }

  succeed(host: string): void {
    this.#hosts.delete(host);
  }

  /** Counts a failure. */
  fail(host: string, { cause, askedMs, atOnce = false }: Failure): void {
    const entry = this.#hosts.get(host) ?? { failures: 0, pauseMs: 0, openUntil: 0, trial: false, cause };
    this.#hosts.set(host, entry);
    entry.failures += 1;
    entry.cause = cause;
    if (askedMs !== undefined) entry.pauseMs = Math.min(Math.max(askedMs, 1000), MAX_ASKED_MS);
    else if (entry.trial) entry.pauseMs = Math.min(Math.max(entry.pauseMs * 2, FIRST_PAUSE_MS), MAX_PAUSE_MS);
    else if (atOnce || entry.failures >= THRESHOLD) entry.pauseMs = Math.max(entry.pauseMs, FIRST_PAUSE_MS);
    entry.trial = false;
    const jitterMs = atOnce && askedMs === undefined ? entry.pauseMs * JITTER * this.#random() : 0;
    if (entry.pauseMs > 0) entry.openUntil = Math.max(entry.openUntil, this.#clock.now() + entry.pauseMs + jitterMs);
  }

  /** A call ended without an answer from the host (the caller gave up): a trial is given back. */
  abandon(host: string): void {
    const entry = this.#hosts.get(host);
    if (entry !== undefined) entry.trial = false;
  }

  state(host: string): BreakerState {
    const entry = this.#hosts.get(host);
    if (entry === undefined || entry.pauseMs === 0) return 'closed';
    return entry.openUntil > this.#clock.now() ? 'open' : 'half-open';
  }
}
