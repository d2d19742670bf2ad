import type { Clock, Timer } from '../observe/clock.js';

export interface OverloadLimits {
  maxInFlightRequests: number;
  maxInFlightBytes: number;
  eventLoopLagMs: number;
}

export const SHED_REASONS = ['requests', 'bytes', 'event-loop-lag', 'body-too-large'] as const;
/** Why a body is not read. */
export type ShedReason = (typeof SHED_REASONS)[number];

/** The place that one admission takes while it is in flight. */
export interface Ticket {
  /** Books bytes that came in; a reason means that they must not be kept. */
  take(bytes: number): ShedReason | undefined;
  /** Gives the place back; once. */
  leave(): void;
}

/**
 * Counts what is in flight. An answer that comes too late costs every Pod of the cluster the webhook's timeout; an unread one costs
 * only this Pod its faster image.
 */
export class Overload {
  readonly #limits: () => OverloadLimits;
  readonly #lagMs: () => number;
  readonly #maxBody: number;
  #requests = 0;
  #bytes = 0;

  constructor(options: { limits: () => OverloadLimits; lagMs: () => number; maxBodyBytes: number }) {
    this.#limits = options.limits;
    this.#lagMs = options.lagMs;
    this.#maxBody = options.maxBodyBytes;
  }

  get requests(): number {
    return this.#requests;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A place, or why there is none. */
  enter(): Ticket | ShedReason {
    const limits = this.#limits();
    if (this.#requests >= limits.maxInFlightRequests) return 'requests';
    if (this.#lagMs() > limits.eventLoopLagMs) return 'event-loop-lag';
    this.#requests++;
    return this.#ticket();
  }

  #ticket(): Ticket {
    let held = 0;
    let left = false;
    return {
      take: (bytes) => {
        if (held + bytes > this.#maxBody) return 'body-too-large';
        if (this.#bytes + bytes > this.#limits().maxInFlightBytes) return 'bytes';
        held += bytes;
        this.#bytes += bytes;
        return undefined;
      },
      leave: () => {
        if (left) return;
        left = true;
        this.#requests--;
        this.#bytes -= held;
      },
    };
  }
}

const SAMPLE_MS = 50;
const KEPT_SAMPLES = 3;

/**
 * Measures how late timers fire, as the least of the last three samples: a standing delay means more work than time, while one
 * stall (a garbage collection, a busy node) is over when it is seen, and shedding would only add to its harm. The idea is CoDel's
 * (RFC 8289 section 3.2). `monotonic` must not jump with the wall clock.
 */
export class LagMeter {
  readonly #clock: Clock;
  readonly #monotonic: () => number;
  #samples: number[] = [];
  #timer: Timer | undefined;

  constructor(clock: Clock, monotonic: () => number) {
    this.#clock = clock;
    this.#monotonic = monotonic;
  }

  get lagMs(): number {
    return this.#samples.length < KEPT_SAMPLES ? 0 : Math.max(0, Math.min(...this.#samples));
  }

  start(): void {
    const due = this.#monotonic() + SAMPLE_MS;
    this.#timer = this.#clock.setTimeout(() => {
      this.#samples = [...this.#samples.slice(1 - KEPT_SAMPLES), this.#monotonic() - due];
      this.start();
    }, SAMPLE_MS);
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
