import { LRUCache } from 'lru-cache';
import type { Clock } from '../observe/clock.js';
import type { Metrics } from '../observe/metrics.js';

/** What a registry said of its limit last. */
interface Allowance {
  remaining: number;
  limit: number;
  /** Earliest time of the next request, epoch milliseconds. */
  nextAt: number;
}

/** Below this part of its limit a registry is asked slowly: nodes that pull under the same address need the rest. */
const LOW = 0.1;
const MAX_INTERVAL_MS = 60_000;
/** Allowances that are remembered: Pods bring any number of credentials. */
const MAX_ENTRIES = 5000;

/**
 * Registries that count requests say how many are left (`RateLimit-Remaining`, as Docker Hub sends it). Near the end requests are
 * spread over the window, so that Harbinger is not what exhausts it. Each credential has an allowance of its own.
 */
export class RateLimits {
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #known = new LRUCache<string, Allowance>({ max: MAX_ENTRIES });

  constructor({ clock, metrics }: { clock: Clock; metrics: Metrics }) {
    this.#clock = clock;
    this.#metrics = metrics;
  }

  /**
   * Reads the headers of an answer of a listed host.
   * @param asker host and who asked
   * @param shown host whose metric this is; absent for credentials that are not Harbinger's
   */
  learn(asker: string, headers: Readonly<Record<string, string>>, shown?: string): void {
    const remaining = parse(headers['ratelimit-remaining']);
    const limit = parse(headers['ratelimit-limit']);
    if (remaining === undefined) return;
    const help = 'Requests that a registry still allows, as it says itself.';
    const gauge = this.#metrics.gauge('harbinger_registry_rate_limit_remaining', help, ['host']);
    if (shown !== undefined) gauge.set({ host: shown }, remaining.count);
    const windowMs = remaining.windowMs ?? limit?.windowMs;
    if (limit === undefined || windowMs === undefined || limit.count === 0) return;
    const now = this.#clock.now();
    const low = remaining.count < limit.count * LOW;
    const intervalMs = low ? Math.min(MAX_INTERVAL_MS, windowMs / Math.max(1, remaining.count)) : 0;
    this.#known.set(asker, { remaining: remaining.count, limit: limit.count, nextAt: now + intervalMs });
  }

  /** How long to wait before the next request and why; undefined if it may be sent now. */
  wait(asker: string): { cause: string; waitMs: number } | undefined {
    const known = this.#known.get(asker);
    const waitMs = (known?.nextAt ?? 0) - this.#clock.now();
    if (known === undefined || waitMs <= 0) return undefined;
    return { waitMs, cause: `it allows ${known.remaining} more of ${known.limit} requests; a credential or a mirror may help` };
  }
}

/** `100;w=21600`: how many, and the seconds in which. */
function parse(header: string | undefined): { count: number; windowMs?: number } | undefined {
  const match = /^\s*(\d{1,9})\s*(?:;\s*w=(\d{1,9}))?/.exec(header ?? '');
  if (match === null) return undefined;
  return { count: Number(match[1]), ...(match[2] === undefined ? {} : { windowMs: Number(match[2]) * 1000 }) };
}
