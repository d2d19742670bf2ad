import type { Clock, Timer } from '../observe/clock.js';
import { onAbort } from './deadline.js';

/** Ends a watch on which nothing is heard any more. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #controller = new AbortController();
  readonly #unfollow: () => void;
  #endMs = 0;
  #silenceMs = Infinity;
  #timer: Timer | undefined;
  barked = false;

  constructor(clock: Clock, outer: AbortSignal) {
    this.#clock = clock;
    this.#unfollow = onAbort(outer, () => this.#controller.abort());
    if (outer.aborted) this.#controller.abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  guard(ms: number): void {
    this.#endMs = this.#clock.now() + ms;
    this.heard();
  }

  watchSilence(ms: number): void {
    this.#silenceMs = ms;
  }

  heard(): void {
    this.#timer?.cancel();
    const left = Math.min(this.#endMs - this.#clock.now(), this.#silenceMs);
    this.#timer = this.#clock.setTimeout(() => {
      this.barked = true;
      this.#controller.abort();
    }, left);
  }

  leave(): void {
    this.#timer?.cancel();
    this.#unfollow();
  }
}
