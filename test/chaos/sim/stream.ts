import type { WatchEvent } from '../../../src/kube/client.js';
import type { Timer } from '../../../src/observe/clock.js';
import type { Resource } from '../../../src/kube/resources.js';
import type { Raw } from '../invariants/history.js';
import { idOf, type Store, type Stored } from './store/store.js';
import type { Host, Timeline } from './timeline.js';

export interface StreamOptions {
  store: Store;
  timeline: Timeline;
  host: Host;
  resource: Resource;
  /** Changes after this version are told. */
  since: number;
  matches: (object: Raw) => boolean;
  /** How long the next event takes. */
  lagMs: () => number;
  lastsMs: number;
  bookmarkMs: number;
}

type Event = WatchEvent<Raw>;

/** One open watch: events in the order of the store, each a while after it happened. */
export class Stream {
  readonly #o: StreamOptions;
  readonly #events: Event[] = [];
  /** Events up to this place have arrived. */
  #arrived = 0;
  #taken = 0;
  #end: { error?: unknown } | undefined;
  #wake: () => void = () => undefined;
  #closed = false;
  readonly #unfollow: () => void;
  #bookmarkTimer: Timer | undefined;
  readonly #endTimer: Timer;

  constructor(options: StreamOptions) {
    this.#o = options;
    const { store, timeline, since } = options;
    for (let i = firstAfter(store.log, since); i < store.log.length; i++) this.#take(store.log[i] as Stored);
    this.#unfollow = store.follow(options.resource, (change) => this.#take(change));
    this.#endTimer = timeline.after(options.lastsMs, () => options.host.enter(() => this.#finish({})));
    this.#bookmark();
  }

  /** The next event; undefined at the end of the watch, and rejected at a bad one. */
  async next(): Promise<Event | undefined> {
    while (this.#taken >= this.#arrived && this.#end === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#taken < this.#arrived) return this.#events[this.#taken++];
    if (this.#end?.error !== undefined) throw this.#end.error as Error;
    return undefined;
  }

  /** Ends the watch with an error, once the process can hear of it. */
  fail(error: unknown): void {
    this.#o.host.enter(() => this.#finish({ error }));
  }

  close(): void {
    this.#closed = true;
    this.#unfollow();
    this.#endTimer.cancel();
    this.#bookmarkTimer?.cancel();
  }

  #finish(end: { error?: unknown }): void {
    this.#end ??= end;
    this.#wake();
  }

  #take(change: Stored): void {
    if (this.#closed || change.resource !== idOf(this.#o.resource)) return;
    if (this.#o.host.dead) return this.close();
    const [is, was] = [
      change.type !== 'DELETED' && this.#o.matches(change.object),
      change.before !== undefined && this.#o.matches(change.before),
    ];
    if (!is && !was) return;
    // What a selector does not match any more is gone for whoever asked by it.
    this.#send({ type: is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED', object: change.object });
  }

  #send(event: Event): void {
    const { timeline, host, lagMs } = this.#o;
    const place = this.#events.push(event);
    timeline.after(lagMs(), () =>
      host.enter(() => {
        if (place <= this.#arrived) return;
        // One connection keeps the order: with a later event all before it are there.
        this.#arrived = place;
        this.#wake();
      }),
    );
  }

  #bookmark(): void {
    const { timeline, store, resource, bookmarkMs, host } = this.#o;
    this.#bookmarkTimer = timeline.after(bookmarkMs, () => {
      if (this.#closed || this.#end !== undefined || host.dead) return;
      const metadata = { name: '', resourceVersion: String(store.version) };
      this.#send({ type: 'BOOKMARK', object: { apiVersion: '', kind: resource.kind, metadata } });
      this.#bookmark();
    });
  }
}

/** Place of the first change after a version; the log is sorted by it. */
function firstAfter(log: readonly Stored[], version: number): number {
  let [low, high] = [0, log.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((log[middle]?.version ?? 0) <= version) low = middle + 1;
    else high = middle;
  }
  return low;
}
