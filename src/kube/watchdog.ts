import type { Clock, Timer } from '../observe/clock.js';

/** Ends a watch on which nothing is heard any more. */
export class Watchdog {
  readonly #clock: Clock;
  readonly #outer: AbortSignal;
  readonly #controller = new AbortController();
  readonly #forward = (): void => this.#controller.abort();
  #endMs = 0;
  #silenceMs = Infinity;
  #timer: Timer | undefined;
  barked = false;

  constructor(clock: Clock, outer: AbortSignal) {
    this.#clock = clock;
    this.#outer = outer;
    outer.addEventListener('abort', this.#forward, { once: true });
    if (outer.aborted) this.#forward();
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
    this.#outer.removeEventListener('abort', this.#forward);
  }
}
