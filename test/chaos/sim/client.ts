import type { KubeObject } from '../../../src/api/object.js';
import type { Page, PageOptions, WatchEvent, WatchOptions, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import { readPages } from '../../../src/kube/pages.js';
import type { CallOptions, KubePort, ListOptions, ObjectName, Patch } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import type { Raw } from '../invariants/history.js';
import type { Random } from './random.js';
import { refusal } from './store/errors.js';
import { selects } from './store/selectors.js';
import type { Store } from './store/store.js';
import { Stream } from './stream.js';
import type { Host, Timeline } from './timeline.js';

/** What goes wrong with one call: refused by a status, or without an answer after the write was done (`lost`) or not (`unreached`). */
export type CallFault =
  { kind: 'refused'; status: number; reason: string; retryAfterMs?: number } | { kind: 'lost' | 'unreached' };

export interface SimClientOptions {
  store: Store;
  timeline: Timeline;
  host: Host;
  random: Random;
  /** Asked for every call. */
  fault: (call: { verb: string; resource: Resource }) => CallFault | undefined;
  /** Objects on a page; small, so that lists have pages here too. */
  pageSize?: number;
}

const TIMEOUT_MS = 10_000;
const TRAVEL_MS = [1, 15] as const;
const LONGEST_LAG_MS = 60;
const BOOKMARK_MS = 60_000;

/** The connection of one process to the store, with the time and the trouble that a network makes. */
export class SimClient implements KubePort, WatchPort {
  readonly #o: SimClientOptions;
  readonly #streams = new Set<Stream>();
  readonly #pages = new Map<string, { items: Raw[]; version: number }>();
  #tokens = 0;
  #stalledUntil = 0;
  /** Events for people that were sent: they are kept out of the store, since nothing reads them back. */
  readonly told: string[] = [];

  constructor(options: SimClientOptions) {
    this.#o = options;
  }

  /** Ends all watches; how often something was ended. */
  breakWatches(): number {
    const error = new KubeError('the connection was reset', { status: 0, reason: 'Unreachable' });
    for (const stream of this.#streams) stream.fail(error);
    return this.#streams.size;
  }

  /** Says in all watches that their version is gone. */
  expireWatches(): number {
    for (const stream of this.#streams) stream.fail(refusal.expired('watch'));
    return this.#streams.size;
  }

  /** Withholds what watches would tell. */
  stall(ms: number): void {
    this.#stalledUntil = this.#o.timeline.now + ms;
  }

  get<T extends KubeObject>(resource: Resource, name: ObjectName): Promise<T> {
    return this.#call('get', resource, () => this.#o.store.get(resource, name) as KubeObject as T);
  }

  create<T extends KubeObject>(resource: Resource, object: KubeObject): Promise<T> {
    if (resource.kind === 'Event') return this.#event(object);
    return this.#call('create', resource, () => this.#o.store.create(resource, object as Raw) as KubeObject as T);
  }

  patch<T extends KubeObject>(resource: Resource, name: ObjectName, patch: Patch, options: CallOptions = {}): Promise<T> {
    if (resource.kind === 'Event') return this.#event({ apiVersion: '', kind: 'Event', metadata: { ...name } });
    return this.#call(
      'patch',
      resource,
      () => this.#o.store.patch(resource, name, patch, options.subresource) as KubeObject as T,
    );
  }

  apply<T extends KubeObject>(resource: Resource, object: KubeObject, manager: string, options: CallOptions = {}): Promise<T> {
    return this.#call(
      'apply',
      resource,
      () => this.#o.store.apply(resource, object as Raw, manager, options.subresource) as KubeObject as T,
    );
  }

  async delete(resource: Resource, name: ObjectName, preconditions?: { uid?: string; resourceVersion?: string }): Promise<void> {
    try {
      await this.#call('delete', resource, () => this.#o.store.delete(resource, name, preconditions));
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 404)) throw error;
    }
  }

  async *list<T extends KubeObject>(resource: Resource, options: ListOptions = {}): AsyncGenerator<T[]> {
    for await (const page of readPages<T>(this, resource, options)) yield page.items;
  }

  listPage<T extends KubeObject>(resource: Resource, options: PageOptions = {}): Promise<Page<T>> {
    return this.#call('list', resource, () => this.#page(resource, options) as unknown as Page<T>);
  }

  async *watch<T extends KubeObject>(resource: Resource, options: WatchOptions = {}): AsyncGenerator<WatchEvent<T>> {
    const { store, timeline, host } = this.#o;
    const { resourceVersion = '0', timeoutSeconds = 600, namespace, signal } = options;
    const selected = selects(resource.kind, options);
    const since = await this.#call('watch', resource, () => {
      store.list(resource);
      if (Number(resourceVersion) < store.compactedAt) throw refusal.expired(`watch ${resource.plural}`);
      return Number(resourceVersion);
    });
    const stream = new Stream({
      store,
      timeline,
      host,
      resource,
      since,
      matches: (o) => (namespace === undefined || o.metadata.namespace === namespace) && selected(o),
      lagMs: () => Math.max(this.#stalledUntil - timeline.now, this.#o.random.int(1, LONGEST_LAG_MS)),
      lastsMs: timeoutSeconds * 1000,
      bookmarkMs: BOOKMARK_MS,
    });
    const aborted = (): void => stream.fail(new Error('aborted'));
    signal?.addEventListener('abort', aborted, { once: true });
    if (signal?.aborted === true) aborted();
    this.#streams.add(stream);
    options.onOpen?.();
    try {
      for (let event = await stream.next(); event !== undefined; event = await stream.next())
        yield event as unknown as WatchEvent<T>;
    } finally {
      this.#streams.delete(stream);
      stream.close();
      signal?.removeEventListener('abort', aborted);
    }
  }

  async #call<T>(verb: string, resource: Resource, work: () => T): Promise<T> {
    const { host, random, fault } = this.#o;
    await host.pause(random.int(...TRAVEL_MS));
    const trouble = fault({ verb, resource });
    if (trouble?.kind === 'refused')
      throw new KubeError(`${verb} ${resource.plural}: ${trouble.status} ${trouble.reason}: injected`, trouble);
    if (trouble?.kind !== 'unreached') {
      const result = settled(work);
      if (trouble === undefined) {
        await host.pause(random.int(...TRAVEL_MS));
        if (!result.ok) throw result.error;
        return result.value;
      }
    }
    await host.pause(TIMEOUT_MS);
    throw new KubeError(`${verb} ${resource.plural}: no answer within ${TIMEOUT_MS} ms`, { status: 0, reason: 'Timeout' });
  }

  async #event<T>(object: KubeObject): Promise<T> {
    this.told.push(JSON.stringify(object));
    await this.#o.host.pause(this.#o.random.int(...TRAVEL_MS));
    return object as unknown as T;
  }

  /** Pages of one list come from one moment, whatever happens between them. */
  #page(resource: Resource, options: PageOptions): { items: Raw[]; resourceVersion: string; continue?: string } {
    const { store } = this.#o;
    const pageSize = Math.min(options.limit ?? Number.POSITIVE_INFINITY, this.#o.pageSize ?? 20);
    const known = options.continue === undefined ? undefined : this.#pages.get(options.continue);
    if (options.continue !== undefined && (known === undefined || known.version < store.compactedAt))
      throw refusal.expired(`list ${resource.plural}`);
    const selected = selects(resource.kind, options);
    const { items, version } = known ?? {
      items: store.list(resource, options.namespace).filter(selected),
      version: store.version,
    };
    const [page, rest] = [items.slice(0, pageSize), items.slice(pageSize)];
    const answer = { items: page, resourceVersion: String(version) };
    if (rest.length === 0) return answer;
    const token = `page-${this.#tokens++}`;
    this.#pages.set(token, { items: rest, version });
    return { ...answer, continue: token };
  }
}

/** What was done, or why it was refused: the answer comes later than the deed. */
function settled<T>(work: () => T): { ok: true; value: T } | { ok: false; error: unknown } {
  try {
    return { ok: true, value: work() };
  } catch (error) {
    return { ok: false, error };
  }
}
