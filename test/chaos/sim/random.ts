/** Random numbers of which equal seeds give equal rows (mulberry32). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number of [low, high]. */
  int(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of the values; undefined where there is none. */
  pick<T>(values: readonly T[]): T | undefined {
    return values[Math.floor(this.next() * values.length)];
  }

  /** The values in another order. */
  shuffle<T>(values: readonly T[]): T[] {
    const left = [...values];
    for (let i = left.length - 1; i > 0; i--) {
      const j = this.int(0, i);
      [left[i], left[j]] = [left[j] as T, left[i] as T];
    }
    return left;
  }

  /** A row of its own, so that one more question here changes nothing there. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32));
  }
}
