import { KubeError, isExpired, isForbidden, isNotFound, isUnauthorized, isUnreachable } from './errors.js';

/** How one list or one watch ended. */
export interface Outcome {
  phase: 'list' | 'watch';
  /** Absent when it ended as it should. */
  error?: unknown;
  lastedMs: number;
  /** Lines received, bookmarks included. */
  events: number;
  /** Whether this resource has been read whole before. */
  readBefore?: boolean;
}

export type RelistCause = 'initial' | 'expired' | 'stuck' | 'unreadable' | 'safety';

/** What the reflector does next. */
export interface Next {
  /** Failures in a row, this one included. */
  failures: number;
  delayMs: number;
  /** Forget the resource version and list again. */
  relist?: RelistCause;
  /** A state that only a person can end; it is shown and retried slowly. */
  trouble?: 'forbidden' | 'absent' | 'unauthorized';
}

export interface Pace {
  backoffMs: readonly [first: number, longest: number];
  slowRetryMs: number;
}

/** A watch that ends sooner than this without a line did not work, whatever its status was. */
const SHORTEST_WATCH_MS = 1_000;
/** Answered failures in a row after which the resource version itself is doubted: after an etcd restore it may lie in the future. */
const STUCK_AFTER = 6;

/**
 * Decides pause and relist after a list or watch ended. Total: an error of any kind leads to a retry.
 * Only an expired version, an unreadable stream and a stuck one cause a relist; a server that is away does not, since all clients
 * would list at once when it comes back.
 *
 * @param random uniform in [0, 1)
 */
export function decideNext(outcome: Outcome, failuresBefore: number, pace: Pace, random: () => number): Next {
  const { error, phase } = outcome;
  const worked = outcome.events > 0 || outcome.lastedMs >= SHORTEST_WATCH_MS;
  if (error === undefined && (phase === 'list' || worked)) return { failures: 0, delayMs: 0 };
  // A watch that worked for a while before it broke starts a new count: the breaks are not related.
  const failures = (phase === 'watch' && worked ? 0 : failuresBefore) + 1;
  const delayMs = Math.max(backoff(failures, pace, random), retryAfter(error));
  const trouble = troubleOf(error);
  if (trouble !== undefined) {
    const passing = mayPass(outcome, trouble, failures);
    return { failures, delayMs: passing ? delayMs : Math.max(delayMs, slow(pace, random)), trouble };
  }
  const relist = phase === 'list' ? undefined : relistCause(error, failures);
  return { failures, delayMs, ...(relist === undefined ? {} : { relist }) };
}

/** An API server that has just started forbids everything until it has read its roles: who was allowed before soon is again. */
function mayPass({ readBefore = false }: Outcome, trouble: Next['trouble'], failures: number): boolean {
  return readBefore && trouble !== 'absent' && failures < STUCK_AFTER;
}

function relistCause(error: unknown, failures: number): RelistCause | undefined {
  if (isExpired(error)) return 'expired';
  if (error instanceof KubeError && (error.reason === 'Garbage' || error.reason === 'TooLarge')) return 'unreadable';
  return failures >= STUCK_AFTER && !isOutage(error) ? 'stuck' : undefined;
}

/** The server, or what stands before it, is down or overloaded: that says nothing about the version, and lists would make it worse. */
function isOutage(error: unknown): boolean {
  return isUnreachable(error) || (error instanceof KubeError && [429, 502, 503].includes(error.status));
}

function troubleOf(error: unknown): Next['trouble'] {
  if (isForbidden(error)) return 'forbidden';
  if (isNotFound(error)) return 'absent';
  return isUnauthorized(error) ? 'unauthorized' : undefined;
}

/** Full jitter above the first step: clients that failed together must not come back together. */
function backoff(failures: number, { backoffMs: [first, longest] }: Pace, random: () => number): number {
  const ceiling = Math.min(longest, first * 2 ** Math.min(failures, 30));
  return first + random() * (ceiling - first);
}

function slow({ slowRetryMs }: Pace, random: () => number): number {
  return slowRetryMs * (0.5 + random() / 2);
}

function retryAfter(error: unknown): number {
  return error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
}
