import { randomBytes } from 'node:crypto';
import type { KubeObject } from '../api/object.js';
import { sleep, type Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { isNotFound } from './errors.js';
import { microTime } from './micro-time.js';
import type { KubePort } from './port.js';
import { RESOURCE } from './resources.js';

export interface ObjectReference {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
  uid?: string;
}

export function referenceOf(object: KubeObject): ObjectReference {
  const { namespace, name, uid } = object.metadata;
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
}

export interface EventInput {
  regarding: ObjectReference;
  type: 'Normal' | 'Warning';
  /** Why it happened, PascalCase: `NoCandidateNodes`. */
  reason: string;
  /** What was done or tried, PascalCase: `Prewarm`. */
  action: string;
  /** For people; cut at 1 KiB, the API server's limit. */
  note: string;
}

export interface EventRecorderOptions {
  client: Pick<KubePort, 'create' | 'patch'>;
  /** `reportingController`, e.g. `harbinger.dev/controller`. */
  controller: string;
  /** `reportingInstance`: the Pod name. */
  instance: string;
  clock: Clock;
  log: Log;
  metrics?: Metrics;
}

/** One text about one object, told once or many times. */
interface Series {
  input: EventInput;
  /** Where the Event lives once it was created. */
  at: { namespace: string; name: string } | undefined;
  count: number;
  firstMs: number;
  lastMs: number;
  /** Repetitions are written at most this often, so the next write is not before. */
  quietUntilMs: number;
  queued: boolean;
}

const MAX_NOTE_BYTES = 1024;
/** Reasons and actions are limited to 128 bytes by the API server. */
const MAX_WORD = 128;
const MAX_SERIES = 1_000;
const SERIES_WRITE_MS = 30_000;
/** The API server forgets Events after an hour; a series that rested this long starts a new Event. */
const SERIES_REST_MS = 6 * 60_000;
const WRITES_PER_SECOND = 10;
const BURST = 50;

/**
 * Writes events.k8s.io/v1 Events in the background. Equal texts about one object become one Event with a series; the queue and the
 * rate are bounded and what does not fit is dropped and counted, since an Event is a courtesy and must not cost the work behind it.
 */
export class EventRecorder {
  readonly #o: EventRecorderOptions;
  readonly #series = new Map<string, Series>();
  readonly #queue: Series[] = [];
  readonly #stopping = new AbortController();
  readonly #told: (result: 'written' | 'dropped' | 'failed') => void;
  /** Going down: repetitions that only wait for their quiet time are written now, since later there is nobody to do it. */
  #draining = false;
  #sending: Promise<void> | undefined;
  #tokens = BURST;
  #refilledMs: number;
  /** Replicas that tell the same in the same millisecond must not fight over a name. */
  readonly #salt = randomBytes(3).toString('hex');
  #serial = 0;

  constructor(options: EventRecorderOptions) {
    this.#o = options;
    this.#refilledMs = options.clock.now();
    const counter = options.metrics?.counter('harbinger_kube_events_total', 'Kubernetes Events by what became of them.', {
      result: ['written', 'dropped', 'failed'],
    });
    this.#told = (result) => counter?.inc({ result });
  }

  /** Never throws and never waits. */
  event(input: EventInput): void {
    if (this.#draining) return;
    const now = this.#o.clock.now();
    const key = JSON.stringify([
      input.regarding.uid ?? '',
      input.regarding.kind,
      input.regarding.namespace,
      input.regarding.name,
      input.type,
      input.reason,
      input.action,
      input.note,
    ]);
    const known = this.#series.get(key);
    const series = known !== undefined && now - known.lastMs < SERIES_REST_MS ? known : this.#begin(key, input, now);
    series.count++;
    series.lastMs = now;
    if (!series.queued) this.#enqueue(series);
  }

  /** Sends what is queued for at most `timeoutMs`, then drops the rest. */
  async stop(timeoutMs = 2_000): Promise<void> {
    this.#draining = true;
    const timer = this.#o.clock.setTimeout(() => this.#stopping.abort(), timeoutMs);
    await this.#sending;
    timer.cancel();
    this.#stopping.abort();
  }

  #begin(key: string, input: EventInput, now: number): Series {
    const series: Series = { input, at: undefined, count: 0, firstMs: now, lastMs: now, quietUntilMs: 0, queued: false };
    // Deleting first moves the key to the young end of the map, whose old end is forgotten.
    this.#series.delete(key);
    this.#series.set(key, series);
    if (this.#series.size > MAX_SERIES) this.#series.delete(this.#series.keys().next().value as string);
    return series;
  }

  #enqueue(series: Series): void {
    if (this.#queue.length >= MAX_SERIES) return this.#told('dropped');
    series.queued = true;
    this.#queue.push(series);
    this.#sending ??= this.#send().finally(() => (this.#sending = undefined));
  }

  async #send(): Promise<void> {
    const { clock } = this.#o;
    const { signal } = this.#stopping;
    for (let next = this.#due(); this.#queue.length > 0; next = this.#due()) {
      if (signal.aborted) return;
      if (next === undefined) {
        await sleep(clock, this.#untilDue(), signal);
        continue;
      }
      this.#queue.splice(this.#queue.indexOf(next), 1);
      next.queued = false;
      this.#tokens--;
      await this.#write(next);
    }
  }

  /** The first series that may be written now, if the rate allows one. */
  #due(): Series | undefined {
    const now = this.#o.clock.now();
    this.#tokens = Math.min(BURST, this.#tokens + Math.max(0, now - this.#refilledMs) * (WRITES_PER_SECOND / 1000));
    this.#refilledMs = now;
    return this.#tokens < 1 ? undefined : this.#queue.find((series) => this.#draining || series.quietUntilMs <= now);
  }

  #untilDue(): number {
    const now = this.#o.clock.now();
    if (this.#tokens < 1) return ((1 - this.#tokens) * 1000) / WRITES_PER_SECOND;
    // New events do not wake the sleeper, so it never sleeps long.
    return Math.min(1_000, ...this.#queue.map((series) => Math.max(1, series.quietUntilMs - now)));
  }

  async #write(series: Series): Promise<void> {
    const { client, clock, log } = this.#o;
    try {
      if (series.at === undefined) {
        const object = this.#object(series);
        await client.create(RESOURCE.events, object);
        series.at = { namespace: object.metadata.namespace ?? 'default', name: object.metadata.name };
      } else {
        const body = { series: { count: series.count, lastObservedTime: microTime(series.lastMs) } };
        await client.patch(RESOURCE.events, series.at, { type: 'merge', body });
      }
      this.#told('written');
    } catch (err) {
      // The Event expired on the server: the next repetition writes a new one.
      if (isNotFound(err)) series.at = undefined;
      this.#told('failed');
      log.debug({ err, reason: series.input.reason, regarding: series.input.regarding }, 'an Event could not be written');
    }
    series.quietUntilMs = clock.now() + SERIES_WRITE_MS;
  }

  #object(series: Series): KubeObject {
    const { regarding, type, reason, action, note } = series.input;
    const { namespace = 'default' } = regarding;
    const unique = `${series.firstMs.toString(16)}${this.#salt}${(this.#serial++).toString(16)}`;
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { namespace, name: `${regarding.name.slice(0, 200)}.${unique}` },
      eventTime: microTime(series.firstMs),
      reportingController: this.#o.controller,
      reportingInstance: this.#o.instance.slice(0, MAX_WORD),
      regarding,
      type,
      reason: reason.slice(0, MAX_WORD),
      action: action.slice(0, MAX_WORD),
      note: cutBytes(note, MAX_NOTE_BYTES),
      ...(series.count > 1 ? { series: { count: series.count, lastObservedTime: microTime(series.lastMs) } } : {}),
    } as KubeObject;
  }
}

/** Cuts at a number of UTF-8 bytes without leaving half a character. */
export function cutBytes(text: string, maxBytes: number): string {
  if (Buffer.byteLength(text) <= maxBytes) return text;
  const mark = '…';
  const kept = Buffer.from(text).subarray(0, maxBytes - Buffer.byteLength(mark));
  return new TextDecoder('utf-8', { fatal: false }).decode(kept).replace(/�+$/, '') + mark;
}
