import { keyOf, type KubeObject } from '../api/object.js';
import { sleep, type Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { WatchEvent, WatchPort } from './client.js';
import { decideNext, type Next, type Outcome, type Pace, type RelistCause } from './decide-next.js';
import { KubeError } from './errors.js';
import { readPages } from './pages.js';
import { resourceName } from './paths.js';
import type { Cache } from './port.js';
import { reflectorMeter, type ReflectorMeter } from './reflector-metrics.js';
import { apiVersionOf, type Resource } from './resources.js';
import { Store } from './store.js';
import { Watchdog } from './watchdog.js';

export type RawObject = KubeObject & Record<string, unknown>;
export type ChangeHandler<T> = (key: string, now: T | undefined, before: T | undefined) => void;

export interface ReflectorOptions<T> {
  client: WatchPort;
  resource: Resource;
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Objects per page of a list; 500 when absent. */
  pageSize?: number;
  /** What is kept of an object; the rest never reaches the cache. */
  project: (raw: RawObject) => T;
  indexes?: Record<string, (t: T) => string[]>;
  clock: Clock;
  log: Log;
  metrics?: Metrics;
  random?: () => number;
  pace?: Partial<ReflectorPace>;
}

/** All in milliseconds; pairs are ranges from which a value is drawn. */
export interface ReflectorPace extends Pace {
  /** How long one watch is asked to last. */
  watchMs: readonly [number, number];
  /** After the asked end without a word from the server the connection counts as half-open. */
  graceMs: number;
  /** Once bookmarks flow (one a minute) silence of this length counts as half-open too. */
  silenceMs: number;
  /** The slow full list that repairs what nobody thought of. */
  relistMs: readonly [number, number];
}

const PACE: ReflectorPace = {
  watchMs: [300_000, 600_000],
  graceMs: 5_000,
  silenceMs: 180_000,
  relistMs: [600_000, 1_800_000],
  backoffMs: [800, 30_000],
  slowRetryMs: 30_000,
};

/**
 * Keeps a cache of one resource equal to the API server: one paged list, then watches, for as long as it runs. Handlers hear of
 * changes; they should only put keys into queues. It never gives up: what keeps it from working is said in `problem`.
 *
 * Lists are made without a resource version: with `0` the API server ignores `limit` and sends everything at once (cacher.go,
 * computeListLimit), and may go back in time. Since 1.34 paged consistent lists are served from its cache as well.
 */
export class Reflector<T> implements Cache<T> {
  /** Resolves after the first complete list; never rejects. */
  readonly synced: Promise<void>;
  readonly #options: ReflectorOptions<T>;
  readonly #pace: ReflectorPace;
  readonly #random: () => number;
  readonly #store: Store<T>;
  readonly #meter: ReflectorMeter;
  readonly #handlers: ChangeHandler<T>[] = [];
  readonly #stopping = new AbortController();
  #markSynced: () => void = () => undefined;
  #hasSynced = false;
  #running: Promise<void> | undefined;
  #version: string | undefined;
  #relistCause: RelistCause = 'initial';
  #relistAt = 0;
  #problem: string | undefined;
  #lastContactMs = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#pace = { ...PACE, ...options.pace };
    this.#random = options.random ?? Math.random;
    this.#store = new Store(options.indexes);
    this.#meter = reflectorMeter(options.metrics, resourceName(options.resource));
    this.synced = new Promise((resolve) => (this.#markSynced = resolve));
  }

  get(key: string): T | undefined {
    return this.#store.get(key);
  }

  list(): T[] {
    return this.#store.list();
  }

  byIndex(index: string, value: string): T[] {
    return this.#store.byIndex(index, value);
  }

  get hasSynced(): boolean {
    return this.#hasSynced;
  }

  /** Why the cache does not follow the server at present, with the way out; undefined when it does. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** When the server was last heard of (epoch ms); 0 before the first time. */
  get lastContactMs(): number {
    return this.#lastContactMs;
  }

  /** Handlers that throw are logged; the others still run. */
  onChange(handler: ChangeHandler<T>): void {
    this.#handlers.push(handler);
  }

  /** Starting twice is starting once. */
  start(): void {
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run(this.#stopping.signal);
  }

  /** Final and silent: afterwards no handler is called and nothing is logged. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      const outcome = await (this.#listIsDue() ? this.#list(signal) : this.#watch(signal));
      if (signal.aborted) return;
      const next = decideNext({ ...outcome, readBefore: this.hasSynced }, failures, this.#pace, this.#random);
      failures = next.failures;
      this.#report(outcome, next);
      if (next.relist !== undefined) this.#forgetVersion(next.relist);
      if (next.delayMs > 0) await sleep(this.#options.clock, next.delayMs, signal);
    }
  }

  #listIsDue(): boolean {
    if (this.#version !== undefined && this.#options.clock.now() >= this.#relistAt) this.#forgetVersion('safety');
    return this.#version === undefined;
  }

  #forgetVersion(cause: RelistCause): void {
    this.#version = undefined;
    this.#relistCause = cause;
  }

  async #list(signal: AbortSignal): Promise<Outcome> {
    const began = this.#options.clock.now();
    const cause = this.#relistCause;
    try {
      const version = await this.#readAll(signal);
      this.#version = version;
      this.#relistAt = this.#options.clock.now() + this.#between(this.#pace.relistMs);
      this.#meter.listed(cause, true);
      this.#hasSynced = true;
      this.#markSynced();
      return { phase: 'list', lastedMs: this.#options.clock.now() - began, events: 0 };
    } catch (error) {
      if (!signal.aborted) this.#meter.listed(cause, false);
      return { phase: 'list', error, lastedMs: this.#options.clock.now() - began, events: 0 };
    }
  }

  /** Takes over page by page, so that only one page of whole objects is in memory; what no page held is gone. */
  async #readAll(signal: AbortSignal): Promise<string> {
    const { client, resource, pageSize } = this.#options;
    const seen = new Set<string>();
    let version = '';
    const request = { ...this.#scope(), ...(pageSize === undefined ? {} : { limit: pageSize }), signal };
    for await (const page of readPages<RawObject>(client, resource, request)) {
      signal.throwIfAborted();
      this.#contact();
      version ||= page.resourceVersion;
      for (const raw of page.items) {
        seen.add(keyOf(raw));
        this.#take(raw);
      }
    }
    for (const key of this.#store.keys()) if (!seen.has(key)) this.#drop(key);
    this.#meter.cached(this.#store.size);
    return version;
  }

  async #watch(signal: AbortSignal): Promise<Outcome> {
    const { client, resource, clock } = this.#options;
    const began = clock.now();
    const lastsMs = this.#between(this.#pace.watchMs);
    const dog = new Watchdog(clock, signal);
    let events = 0;
    dog.guard(lastsMs + this.#pace.graceMs);
    try {
      const timeoutSeconds = Math.ceil(lastsMs / 1000);
      const request = {
        ...this.#scope(),
        resourceVersion: this.#version ?? '',
        timeoutSeconds,
        signal: dog.signal,
        onOpen: () => this.#contact(),
      };
      for await (const event of client.watch<RawObject>(resource, request)) {
        signal.throwIfAborted();
        events++;
        this.#handle(event);
        if (event.type === 'BOOKMARK') dog.watchSilence(this.#pace.silenceMs);
        dog.heard();
      }
      this.#meter.watched(true);
      return { phase: 'watch', lastedMs: clock.now() - began, events };
    } catch (error) {
      if (!signal.aborted) this.#meter.watched(false);
      // The time until the dog barked says nothing good about the connection, so it counts as a failure of no duration.
      if (dog.barked) return { phase: 'watch', error: halfOpen(resource), lastedMs: 0, events };
      return { phase: 'watch', error, lastedMs: clock.now() - began, events };
    } finally {
      dog.leave();
    }
  }

  #handle(event: WatchEvent<RawObject>): void {
    this.#contact();
    this.#meter.event(event.type);
    if (event.type === 'DELETED') this.#drop(keyOf(event.object));
    else if (event.type !== 'BOOKMARK') this.#take(event.object);
    this.#version = event.object.metadata.resourceVersion ?? this.#version;
    this.#meter.cached(this.#store.size);
  }

  #take(raw: RawObject): void {
    const key = keyOf(raw);
    const version = raw.metadata.resourceVersion ?? '';
    if (version !== '' && this.#store.versionOf(key) === version) return;
    let now: T;
    let before: T | undefined;
    try {
      now = this.#options.project(raw);
      before = this.#store.set(key, version, now);
    } catch (err) {
      this.#meter.handlerFailed();
      this.#options.log.error(
        { err, resource: resourceName(this.#options.resource), key },
        'an object cannot be read and counts as absent',
      );
      this.#drop(key);
      return;
    }
    this.#tell(key, now, before);
  }

  #drop(key: string): void {
    const before = this.#store.delete(key);
    if (before !== undefined) this.#tell(key, undefined, before);
  }

  #tell(key: string, now: T | undefined, before: T | undefined): void {
    for (const handler of this.#handlers) {
      try {
        handler(key, now, before);
      } catch (err) {
        this.#meter.handlerFailed();
        this.#options.log.error({ err, resource: resourceName(this.#options.resource), key }, 'a change handler threw');
      }
    }
  }

  #contact(): void {
    this.#lastContactMs = this.#options.clock.now();
    this.#problem = undefined;
    this.#meter.contact(this.#lastContactMs);
  }

  /** A 404 does not empty the cache: taking a proxy's bad moment for "all objects are gone" would tear down what is in use. */
  #report(outcome: Outcome, next: Next): void {
    if (outcome.error === undefined) return;
    const { resource, log } = this.#options;
    const first = this.#problem === undefined;
    this.#problem = problemOf(resource, outcome.error, next.trouble);
    const fields = {
      resource: resourceName(resource),
      phase: outcome.phase,
      failures: next.failures,
      retryInMs: Math.round(next.delayMs),
      relist: next.relist,
    };
    if (next.trouble !== undefined && first) log.warn({ ...fields, problem: this.#problem }, 'cannot follow a resource');
    else if (next.failures > 1) log.warn({ ...fields, err: outcome.error }, 'following a resource fails');
    else log.debug({ ...fields, err: outcome.error }, 'a list or watch ended early');
  }

  #scope(): { namespace?: string; labelSelector?: string; fieldSelector?: string } {
    const { namespace, labelSelector, fieldSelector } = this.#options;
    return {
      ...(namespace === undefined ? {} : { namespace }),
      ...(labelSelector === undefined ? {} : { labelSelector }),
      ...(fieldSelector === undefined ? {} : { fieldSelector }),
    };
  }

  #between([low, high]: readonly [number, number]): number {
    return low + this.#random() * (high - low);
  }
}

function halfOpen(resource: Resource): KubeError {
  return new KubeError(`watch ${resourceName(resource)}: nothing was heard for too long; the connection is taken for dead`, {
    status: 0,
    reason: 'Timeout',
  });
}

function problemOf(resource: Resource, error: unknown, trouble: Next['trouble']): string {
  const name = resourceName(resource);
  const words = error instanceof Error ? error.message : String(error);
  if (trouble === 'forbidden')
    return `not allowed to list and watch ${name}: grant both verbs to Harbinger's service account (${words})`;
  if (trouble === 'absent')
    return `the API server does not serve ${name} in ${apiVersionOf(resource)}: install its CustomResourceDefinition (${words})`;
  if (trouble === 'unauthorized')
    return `the API server does not accept our credentials: check the token or client certificate (${words})`;
  return words;
}
