import type { Clock } from './clock.js';

interface Flow {
  left: number;
  done: () => void;
  carried: (bytes: number) => void;
}

// Rounding of shares must not leave a flow with a millionth of a byte.
const EPSILON = 1e-3;

/**
 * One link that all transfers share evenly, as TCP flows from one registry do: n transfers at a time get a n-th of the rate each.
 * What it has carried is counted as it goes, so that a running pull shows up too.
 */
export class SharedLink {
  readonly #bytesPerMs: number;
  readonly #clock: Clock;
  readonly #flows = new Set<Flow>();
  #since: number;
  #timer: { cancel(): void } | undefined;

  constructor(rateMbit: number, clock: Clock) {
    this.#bytesPerMs = (rateMbit * 1e6) / 8 / 1000;
    this.#clock = clock;
    this.#since = clock.now();
  }

  /** Resolves when `bytes` have come through. `carried` is told of each part. */
  transfer(bytes: number, carried: (bytes: number) => void): Promise<void> {
    this.#advance();
    return new Promise((done) => {
      this.#flows.add({ left: bytes, done, carried });
      this.#plan();
    });
  }

  /** Counts up to now: for a reader of the counters between two events. */
  settle(): void {
    this.#advance();
    this.#plan();
  }

  #advance(): void {
    const now = this.#clock.now();
    const share = ((now - this.#since) * this.#bytesPerMs) / Math.max(this.#flows.size, 1);
    this.#since = now;
    for (const flow of [...this.#flows]) {
      const part = Math.min(share, flow.left);
      flow.left -= part;
      flow.carried(part);
      if (flow.left > EPSILON) continue;
      this.#flows.delete(flow);
      flow.done();
    }
  }

  // The next change is the end of the smallest flow; until then all shares stay as they are.
  #plan(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#flows.size === 0) return;
    const smallest = Math.min(...[...this.#flows].map((flow) => flow.left));
    this.#timer = this.#clock.setTimeout(() => this.settle(), Math.ceil((smallest * this.#flows.size) / this.#bytesPerMs));
  }
}
