import type { Clock, Timer } from '../../../src/observe/clock.js';

interface Due {
  at: number;
  serial: number;
  fn: () => void;
  cancelled: boolean;
}

/** Time that only passes from one timer to the next: all processes of a simulated cluster share it. */
export class Timeline {
  #now: number;
  #serial = 0;
  /** A binary heap by time, then by order of setting. */
  readonly #heap: Due[] = [];

  constructor(start: number) {
    this.#now = start;
  }

  /** Epoch ms by the one clock that is right. */
  get now(): number {
    return this.#now;
  }

  after(ms: number, fn: () => void): Timer {
    const due: Due = { at: this.#now + Math.max(0, ms), serial: this.#serial++, fn, cancelled: false };
    this.#push(due);
    return { cancel: () => void (due.cancelled = true) };
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  /** Fires all timers up to `end` in their order; after each everything that needs no time runs to its end. */
  async run(end: number): Promise<void> {
    await settle();
    for (let due = this.#heap[0]; due !== undefined && due.at <= end; due = this.#heap[0]) {
      this.#pop();
      if (due.cancelled) continue;
      this.#now = Math.max(this.#now, due.at);
      due.fn();
      await settle();
    }
    this.#now = Math.max(this.#now, end);
  }

  #push(due: Due): void {
    this.#heap.push(due);
    for (let i = this.#heap.length - 1; i > 0;) {
      const parent = (i - 1) >> 1;
      if (!this.#before(i, parent)) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  #pop(): void {
    const last = this.#heap.pop();
    if (last === undefined || this.#heap.length === 0) return;
    this.#heap[0] = last;
    for (let i = 0; ;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) if (child < this.#heap.length && this.#before(child, least)) least = child;
      if (least === i) return;
      this.#swap(i, least);
      i = least;
    }
  }

  #before(i: number, j: number): boolean {
    const [a, b] = [this.#heap[i] as Due, this.#heap[j] as Due];
    return a.at !== b.at ? a.at < b.at : a.serial < b.serial;
  }

  #swap(i: number, j: number): void {
    [this.#heap[i], this.#heap[j]] = [this.#heap[j] as Due, this.#heap[i] as Due];
  }
}

/** Lets every promise settle that needs neither time nor IO. */
const settle = (): Promise<void> => new Promise((done) => setImmediate(done));

/** One operating-system process: it can freeze, die, and have a clock that is wrong. */
export class Host {
  readonly name: string;
  readonly #timeline: Timeline;
  #dead = false;
  #frozenUntil = 0;
  /** How far its wall clock is ahead, ms. */
  skewMs = 0;

  constructor(name: string, timeline: Timeline) {
    this.name = name;
    this.#timeline = timeline;
  }

  get dead(): boolean {
    return this.#dead;
  }

  get frozen(): boolean {
    return this.#timeline.now < this.#frozenUntil;
  }

  /** SIGKILL: nothing of it happens any more, and nobody is told. */
  kill(): void {
    this.#dead = true;
  }

  freeze(ms: number): void {
    this.#frozenUntil = this.#timeline.now + ms;
  }

  /** The clock that the process reads; its timers run by real time, and late if it was frozen then. */
  get clock(): Clock {
    return { now: () => this.#timeline.now + this.skewMs, setTimeout: (fn, ms) => this.#timer(fn, ms) };
  }

  /** Milliseconds that never jump. */
  readonly monotonic = (): number => this.#timeline.now;

  /** Runs `fn` in the process: at once, after its thaw, or never. */
  enter(fn: () => void): void {
    if (this.#dead) return;
    const left = this.#frozenUntil - this.#timeline.now;
    if (left <= 0) fn();
    else this.#timeline.after(left, () => this.enter(fn));
  }

  /** The value, as soon as the process can take it. */
  receive<T>(value: T): Promise<T> {
    return new Promise((resolve) => this.enter(() => resolve(value)));
  }

  /** Waits by real time and until the process runs. */
  pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#timer(resolve, ms));
  }

  #timer(fn: () => void, ms: number): Timer {
    let cancelled = false;
    const timer = this.#timeline.after(ms, () =>
      this.enter(() => {
        if (!cancelled) fn();
      }),
    );
    return {
      cancel: () => {
        cancelled = true;
        timer.cancel();
      },
    };
  }
}
