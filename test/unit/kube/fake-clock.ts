import { pino } from 'pino';
import type { Clock, Timer } from '../../../src/observe/clock.js';
import type { Log } from '../../../src/observe/log.js';

/** Time that moves only when told to. */
export class FakeClock implements Clock {
  #now: number;
  #serial = 0;
  readonly #timers = new Map<number, { at: number; fn: () => void }>();

  constructor(now = Date.parse('2026-01-01T00:00:00Z')) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  setTimeout(fn: () => void, ms: number): Timer {
    const id = this.#serial++;
    this.#timers.set(id, { at: this.#now + Math.max(0, ms), fn });
    return { cancel: () => void this.#timers.delete(id) };
  }

  get pending(): number {
    return this.#timers.size;
  }

  /** Milliseconds until the next timer; undefined without one. */
  get untilNext(): number | undefined {
    const times = [...this.#timers.values()].map((t) => t.at - this.#now);
    return times.length === 0 ? undefined : Math.min(...times);
  }

  /** Fires all timers of the next `ms` milliseconds in their order, letting promises settle after each. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter(([, t]) => t.at <= end).sort((a, b) => a[1].at - b[1].at || a[0] - b[0])[0];
      if (due === undefined) break;
      this.#timers.delete(due[0]);
      this.#now = Math.max(this.#now, due[1].at);
      due[1].fn();
      await settle();
    }
    this.#now = end;
  }

  /** The wall clock is set; timers keep their distance. */
  jump(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers.values()) timer.at += ms;
  }
}

/** Lets every promise that can settle without time or IO do so. */
export const settle = (): Promise<void> => new Promise((done) => setImmediate(done));

export interface LogLine {
  level: number;
  msg: string;
  [field: string]: unknown;
}

/** A log that keeps its lines. */
export function keepLog(): { log: Log; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const log = pino({ level: 'trace' }, { write: (text: string) => void lines.push(JSON.parse(text) as LogLine) });
  return { log, lines };
}
