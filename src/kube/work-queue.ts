import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';

/** What a reconcile asks for next; `after` in milliseconds. */
export interface Result {
  after?: number;
}

/** Retrying cannot help: the key rests until it is added again. */
export class Terminal extends Error {}

/** Not a failure: look again in `ms` milliseconds. */
export class Waiting extends Error {
  readonly ms: number;
  constructor(message: string, ms: number) {
    super(message);
    this.ms = ms;
  }
}

export interface WorkQueueOptions {
  name: string;
  concurrency: number;
  reconcile: (key: string, signal: AbortSignal) => Promise<Result>;
  clock: Clock;
  log: Log;
  metrics?: Metrics;
}

export class WorkQueue {
  constructor(_options: WorkQueueOptions) {}
  add(_key: string): void {}
  addAfter(_key: string, _ms: number): void {}
  start(): void {}
  stop(): Promise<void> {
    return Promise.resolve();
  }
}
