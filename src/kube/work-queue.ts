import PQueue from 'p-queue';
import type { Clock, Timer } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { isConflict } from './errors.js';
import { queueMeter, type QueueMeter } from './work-queue-metrics.js';

/** What a reconcile asks for next; `after` in milliseconds. */
export interface Result {
  after?: number;
}

/** Retrying cannot help: the key rests until it is added again. */
export class Terminal extends Error {
  override readonly name = 'Terminal';
}

/** Not a failure: look again in `ms` milliseconds. */
export class Waiting extends Error {
  override readonly name = 'Waiting';
  readonly ms: number;
  constructor(message: string, ms: number) {
    super(message);
    this.ms = ms;
  }
}

export interface WorkQueueOptions {
  name: string;
  concurrency: number;
  /** The signal aborts when the queue stops: long reconciles should end then. */
  reconcile: (key: string, signal: AbortSignal) => Promise<Result>;
  clock: Clock;
  log: Log;
  metrics?: Metrics;
  /** Longest pause after a failure, ms, whatever the server asks for: for keys that must not be late. */
  longestRetryMs?: number;
}

interface Due {
  at: number;
  timer: Timer;
}

const FIRST_RETRY_MS = 5;
const LONGEST_RETRY_MS = 300_000;
/** Conflicts of a key in a row that are everyday life; more of them are a fight with another writer. */
const USUAL_CONFLICTS = 4;

/**
 * Runs one reconcile per key at a time and none in vain: keys that are added while they wait are one run, keys that are added while
 * they run get exactly one more (the semantics of client-go's work queue). Failures of a key are retried after 5 ms, 10 ms, ... 5 min
 * (or what `longestRetryMs` says),
 * or later when the error carries `retryAfterMs`; an `add` in that pause does not cut it short, or a busy watch would undo all back-off.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #meter: QueueMeter;
  readonly #workers: PQueue;
  readonly #stopping = new AbortController();
  /** Keys to be run, with the time of their add: those that wait for a worker and those that run and were added again. */
  readonly #dirty = new Map<string, number>();
  readonly #running = new Map<string, number>();
  readonly #later = new Map<string, Due>();
  readonly #backingOff = new Map<string, Timer>();
  readonly #failures = new Map<string, number>();

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    this.#workers = new PQueue({ concurrency: options.concurrency, autoStart: false });
    this.#meter = queueMeter(
      options.metrics,
      options.name,
      () => options.clock.now(),
      () => this.#running.values(),
    );
  }

  /** Keys that wait for a worker. */
  get depth(): number {
    return this.#workers.size;
  }

  add(key: string): void {
    if (this.#stopping.signal.aborted || this.#dirty.has(key)) return;
    this.#dirty.set(key, this.#options.clock.now());
    if (!this.#running.has(key) && !this.#backingOff.has(key)) this.#enqueue(key);
    this.#meter.added(this.depth);
  }

  /** Adds the key in `ms` milliseconds; of several pending times the earliest stays. */
  addAfter(key: string, ms: number): void {
    if (this.#stopping.signal.aborted) return;
    if (ms <= 0) return this.add(key);
    const { clock } = this.#options;
    const at = clock.now() + ms;
    const pending = this.#later.get(key);
    if (pending !== undefined && pending.at <= at) return;
    pending?.timer.cancel();
    const timer = clock.setTimeout(() => {
      this.#later.delete(key);
      this.add(key);
    }, ms);
    this.#later.set(key, { at, timer });
  }

  /** Keys that were added before are kept and run now. */
  start(): void {
    if (!this.#stopping.signal.aborted) this.#workers.start();
  }

  /** Final: waits for the runs in progress; waiting, delayed and backing-off keys are dropped, the next start finds them again. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const { timer } of this.#later.values()) timer.cancel();
    for (const timer of this.#backingOff.values()) timer.cancel();
    this.#later.clear();
    this.#backingOff.clear();
    this.#dirty.clear();
    this.#workers.clear();
    // A queue that was never started holds no runs, and p-queue would wait for its start.
    if (this.#running.size > 0) await this.#workers.onIdle();
  }

  #enqueue(key: string): void {
    void this.#workers.add(() => this.#work(key));
  }

  async #work(key: string): Promise<void> {
    const { clock } = this.#options;
    const began = clock.now();
    this.#meter.started(began - (this.#dirty.get(key) ?? began), this.depth);
    this.#dirty.delete(key);
    this.#running.set(key, began);
    try {
      const { after } = await this.#options.reconcile(key, this.#stopping.signal);
      this.#failures.delete(key);
      if (after !== undefined) this.addAfter(key, after);
    } catch (error) {
      this.#failed(key, error);
    } finally {
      this.#running.delete(key);
      this.#meter.finished(clock.now() - began);
      if (this.#dirty.has(key) && !this.#backingOff.has(key)) this.#enqueue(key);
    }
  }

  #failed(key: string, error: unknown): void {
    const { log, name } = this.#options;
    if (this.#stopping.signal.aborted) return;
    if (error instanceof Waiting) {
      this.#failures.delete(key);
      this.addAfter(key, error.ms);
    } else if (error instanceof Terminal) {
      this.#failures.delete(key);
      log.error({ err: error, queue: name, key }, 'reconcile failed for good; the object has to change');
    } else {
      const delayMs = this.#backOff(key, error);
      const fields = { err: error, queue: name, key, failures: this.#failures.get(key) ?? 0, retryInMs: delayMs };
      if (isConflict(error) && fields.failures <= USUAL_CONFLICTS) log.debug(fields, 'somebody else wrote first');
      else log.warn(fields, 'reconcile failed');
    }
  }

  #backOff(key: string, error: unknown): number {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    const own = FIRST_RETRY_MS * 2 ** Math.min(failures, 30);
    const asked = (error as { retryAfterMs?: unknown } | undefined)?.retryAfterMs;
    const longest = this.#options.longestRetryMs ?? LONGEST_RETRY_MS;
    const delayMs = Math.min(longest, Math.max(own, typeof asked === 'number' ? asked : 0));
    this.#meter.retried();
    const timer = this.#options.clock.setTimeout(() => {
      this.#backingOff.delete(key);
      if (!this.#dirty.has(key)) this.#dirty.set(key, this.#options.clock.now());
      this.#enqueue(key);
    }, delayMs);
    this.#backingOff.set(key, timer);
    return delayMs;
  }
}
