import type { Json } from '../api/json.js';
import { record, records, string } from '../api/json.js';
import type { KubeObject } from '../api/object.js';
import { parseJson, readBody, readLines } from './body.js';
import { Credentials } from './credentials.js';
import { networkError, onAbort, withDeadline } from './deadline.js';
import { KubeError, errorOfAnswer, errorOfStatus } from './errors.js';
import { readPages } from './pages.js';
import { collectionPath, objectPath, queryString, resourceName } from './paths.js';
import type { CallOptions, DiscoveryPort, KubePort, ListOptions, ObjectName, Patch } from './port.js';
import { apiVersionOf, type Resource } from './resources.js';
import { Transport, type Outgoing } from './transport.js';

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  resourceVersion?: string;
  /** The server ends the watch after so many seconds. */
  timeoutSeconds?: number;
  signal?: AbortSignal;
  /** Called when the server has accepted the watch, which may be long before the first event. */
  onOpen?: () => void;
}

export interface WatchEvent<T extends KubeObject = KubeObject> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
}

export interface PageOptions extends ListOptions {
  continue?: string;
  resourceVersion?: string;
}

export interface Page<T extends KubeObject> {
  items: T[];
  resourceVersion: string;
  continue?: string;
}

/** What a reflector needs of the API server. */
export interface WatchPort {
  listPage<T extends KubeObject>(resource: Resource, options?: PageOptions): Promise<Page<T>>;
  watch<T extends KubeObject>(resource: Resource, options?: WatchOptions): AsyncIterable<WatchEvent<T>>;
}

interface Call extends Omit<Outgoing, 'signal'> {
  what: string;
  maxBytes: number;
  /** Repeating it does no harm. */
  safe: boolean;
  quiet: boolean;
}

const CALL_TIMEOUT_MS = 10_000;
/** A page of 500 Pods is 2 MB; slow links get more time for it than for one object. */
const LIST_TIMEOUT_MS = 30_000;
const WATCH_HEADERS_TIMEOUT_MS = 30_000;
const PAGE_SIZE = 500;
/** etcd takes objects of 1.5 MiB; the JSON may be a few times that. */
const MAX_OBJECT_BYTES = 8 << 20;
const MAX_PAGE_BYTES = 128 << 20;
const MAX_ERROR_BYTES = 64 << 10;
/** Longest Retry-After that is sat out inside a call; with a longer one the caller's own back-off is the better place. */
const MAX_INNER_WAIT_MS = 2_000;

/** The API server, as raw JSON. Safe to share by the whole process; see KubePort for the verbs. */
export class KubeClient implements KubePort, WatchPort, DiscoveryPort {
  readonly #transport: Transport;

  private constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * @param path kubeconfig; when absent KUBECONFIG, ~/.kube/config, then the Pod's service account
   * @param options.context of the kubeconfig; its current one when absent
   * @throws Error naming the file when it cannot be used; the server itself is not asked yet
   */
  static async fromKubeconfig(
    path: string | undefined,
    { userAgent, context }: { userAgent: string; context?: string },
  ): Promise<KubeClient> {
    return new KubeClient(new Transport(await Credentials.load(path, Date.now, context), userAgent));
  }

  /** Address of the API server, for messages. */
  get server(): string {
    return this.#transport.server;
  }

  /** Namespace of the kubeconfig's context, if it names one. */
  get namespace(): string | undefined {
    return this.#transport.namespace;
  }

  async get<T extends KubeObject>(resource: Resource, name: ObjectName, options: CallOptions = {}): Promise<T> {
    return this.#object(
      describe('get', resource, name),
      resource,
      { method: 'GET', path: objectPath(resource, name, options.subresource) },
      options,
    );
  }

  async create<T extends KubeObject>(resource: Resource, object: KubeObject, options: CallOptions = {}): Promise<T> {
    const outgoing = {
      method: 'POST',
      path: collectionPath(resource, object.metadata.namespace),
      body: JSON.stringify(object),
      contentType: 'application/json',
    } as const;
    return this.#object(describe('create', resource, object.metadata), resource, outgoing, options);
  }

  async patch<T extends KubeObject>(resource: Resource, name: ObjectName, patch: Patch, options: CallOptions = {}): Promise<T> {
    const outgoing = {
      method: 'PATCH',
      path: objectPath(resource, name, options.subresource),
      body: JSON.stringify(patch.type === 'json' ? patch.ops : patch.body),
      contentType: patch.type === 'json' ? 'application/json-patch+json' : 'application/merge-patch+json',
    } as const;
    return this.#object(describe('patch', resource, name), resource, outgoing, options);
  }

  async apply<T extends KubeObject>(
    resource: Resource,
    object: KubeObject,
    fieldManager: string,
    options: CallOptions = {},
  ): Promise<T> {
    const outgoing = {
      method: 'PATCH',
      path: `${objectPath(resource, object.metadata, options.subresource)}${queryString({ fieldManager, force: true })}`,
      body: JSON.stringify(object),
      // JSON is YAML; the JSON spelling of this type is younger than some API servers in use.
      contentType: 'application/apply-patch+yaml',
    } as const;
    return this.#object(describe('apply', resource, object.metadata), resource, outgoing, options);
  }

  async delete(
    resource: Resource,
    name: ObjectName,
    preconditions?: { uid?: string; resourceVersion?: string },
    options: CallOptions = {},
  ): Promise<void> {
    const body = JSON.stringify({
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: 'Background',
      ...(preconditions && { preconditions }),
    });
    try {
      await this.#object(
        describe('delete', resource, name),
        resource,
        { method: 'DELETE', path: objectPath(resource, name), body, contentType: 'application/json' },
        options,
      );
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 404)) throw error;
    }
  }

  /** Page after page; see readPages for what happens when the list takes too long. */
  async *list<T extends KubeObject>(resource: Resource, options: ListOptions = {}): AsyncGenerator<T[]> {
    for await (const page of readPages<T>(this, resource, options)) yield page.items;
  }

  /** @throws KubeError 410 when `continue` or `resourceVersion` has expired */
  async listPage<T extends KubeObject>(resource: Resource, options: PageOptions = {}): Promise<Page<T>> {
    const { namespace, labelSelector, fieldSelector, limit = PAGE_SIZE, resourceVersion } = options;
    const query = queryString({ labelSelector, fieldSelector, limit, continue: options.continue, resourceVersion });
    const what = describe('list', resource, { namespace });
    const call: Call = {
      what,
      method: 'GET',
      path: `${collectionPath(resource, namespace)}${query}`,
      accept: acceptOf(resource, 'PartialObjectMetadataList'),
      maxBytes: MAX_PAGE_BYTES,
      safe: true,
      quiet: isSecret(resource),
    };
    const answer = await this.#call(call, { timeoutMs: LIST_TIMEOUT_MS, ...options });
    return pageOf(what, resource, answer);
  }

  /**
   * Events after `resourceVersion`, bookmarks included, until the server ends the watch. Endings that are not clean throw.
   * @throws KubeError 410 when the version has expired, whether the server said so by status or in band
   */
  async *watch<T extends KubeObject>(resource: Resource, options: WatchOptions = {}): AsyncGenerator<WatchEvent<T>> {
    const { namespace, labelSelector, fieldSelector, resourceVersion, timeoutSeconds, signal } = options;
    const what = describe('watch', resource, { namespace });
    const query = queryString({
      watch: true,
      allowWatchBookmarks: true,
      labelSelector,
      fieldSelector,
      resourceVersion,
      timeoutSeconds,
    });
    const outgoing: Omit<Outgoing, 'signal'> = {
      method: 'GET',
      path: `${collectionPath(resource, namespace)}${query}`,
      accept: acceptOf(resource, 'PartialObjectMetadata'),
      watch: true,
    };
    const connection = new AbortController();
    const unfollow = onAbort(signal, () => connection.abort());
    try {
      const body = await this.#openWatch(what, outgoing, connection, signal);
      options.onOpen?.();
      for await (const line of readLines(what, body, MAX_OBJECT_BYTES)) yield eventOf<T>(what, line, isSecret(resource));
    } catch (error) {
      signal?.throwIfAborted();
      throw networkError(what, error);
    } finally {
      unfollow();
      connection.abort();
    }
  }

  async #openWatch(
    what: string,
    outgoing: Omit<Outgoing, 'signal'>,
    connection: AbortController,
    signal: AbortSignal | undefined,
  ): Promise<AsyncIterable<Buffer>> {
    return withDeadline(what, WATCH_HEADERS_TIMEOUT_MS, signal, async (deadline) => {
      // The deadline is for the headers only; the connection outlives it.
      onAbort(deadline, () => connection.abort());
      const answer = await this.#transport.send({ ...outgoing, signal: connection.signal });
      if (answer.statusCode === 200) return answer.body as AsyncIterable<Buffer>;
      throw errorOfAnswer({
        what,
        status: answer.statusCode,
        body: await readBody(what, answer.body, MAX_ERROR_BYTES),
        retryAfter: header(answer.headers, 'retry-after'),
      });
    });
  }

  /** See DiscoveryPort. Two small answers, and one for each group that is asked about and served. */
  async served(groups: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const all = await this.#document('list API groups', '/apis');
    const present = records(all['groups']).filter((g) => groups.has(string(g['name']) ?? ''));
    const versions = present.flatMap((g) => records(g['versions']).map((v) => string(v['groupVersion'])));
    const found = await Promise.all(
      versions.map(async (version) => {
        if (version === undefined) return [];
        const resources = records((await this.#document(`list resources of ${version}`, `/apis/${version}`))['resources']);
        return resources.map((r) => `${version}/${string(r['name']) ?? ''}`);
      }),
    );
    return new Set(found.flat());
  }

  async #document(what: string, path: string): Promise<Json> {
    const call: Call = { what, method: 'GET', path, maxBytes: MAX_OBJECT_BYTES, safe: true, quiet: false };
    return record(await this.#call(call, {})) ?? {};
  }

  /** Ends all connections; calls in flight fail. */
  close(): Promise<void> {
    return this.#transport.close();
  }

  async #object<T extends KubeObject>(
    what: string,
    resource: Resource,
    outgoing: Omit<Outgoing, 'signal'>,
    options: CallOptions,
  ): Promise<T> {
    const call: Call = {
      ...outgoing,
      what,
      maxBytes: MAX_OBJECT_BYTES,
      safe: outgoing.method === 'GET',
      quiet: isSecret(resource),
    };
    return (await this.#call(call, options)) as T;
  }

  async #call(call: Call, options: CallOptions): Promise<unknown> {
    try {
      return await this.#withinDeadline(call, options);
    } catch (error) {
      if (error instanceof KubeError && error.reason === 'Timeout') this.#transport.suspect();
      throw error;
    }
  }

  #withinDeadline(call: Call, { timeoutMs = CALL_TIMEOUT_MS, signal }: CallOptions): Promise<unknown> {
    const end = performance.now() + timeoutMs;
    return withDeadline(call.what, timeoutMs, signal, async (deadline) => {
      try {
        return await this.#attempt(call, deadline);
      } catch (error) {
        const wait = call.safe ? secondTry(error, end - performance.now()) : undefined;
        if (wait === undefined || deadline.aborted) throw error;
        await pause(wait, deadline);
        return this.#attempt(call, deadline);
      }
    });
  }

  async #attempt(call: Call, signal: AbortSignal): Promise<unknown> {
    const { what, maxBytes, safe: _safe, quiet, ...outgoing } = call;
    const answer = await this.#transport.send({ ...outgoing, signal });
    const ok = answer.statusCode < 300;
    const body = await readBody(what, answer.body, ok ? maxBytes : MAX_ERROR_BYTES);
    if (!ok)
      throw errorOfAnswer({ what, status: answer.statusCode, body, retryAfter: header(answer.headers, 'retry-after'), quiet });
    return parseJson(what, body);
  }
}

/** Milliseconds until a read is worth repeating inside its own deadline; undefined when it is not. */
function secondTry(error: unknown, leftMs: number): number | undefined {
  // A kept connection that the server closed in this very moment is no news about the server.
  if ((error as { code?: unknown }).code === 'UND_ERR_SOCKET' || (error as { code?: unknown }).code === 'ECONNRESET') return 0;
  if (!(error instanceof KubeError) || error.retryAfterMs === undefined) return undefined;
  return error.retryAfterMs <= MAX_INNER_WAIT_MS && error.retryAfterMs < leftMs / 2 ? error.retryAfterMs : undefined;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      unfollow();
      resolve();
    };
    const timer = setTimeout(done, ms);
    const unfollow = onAbort(signal, done);
  });
}

function describe(
  verb: string,
  resource: Resource,
  { namespace, name }: { namespace?: string | undefined; name?: string },
): string {
  const where =
    name === undefined
      ? namespace === undefined
        ? ''
        : ` in namespace ${namespace}`
      : ` ${namespace === undefined ? '' : `${namespace}/`}${name}`;
  return `${verb} ${resourceName(resource)}${where}`;
}

function acceptOf(resource: Resource, as: string): string | undefined {
  return resource.metadataOnly === true ? `application/json;as=${as};g=meta.k8s.io;v=v1` : undefined;
}

function isSecret(resource: Resource): boolean {
  return resource.group === '' && resource.plural === 'secrets';
}

function header(headers: Record<string, string | string[] | undefined>, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Items of built-in lists come without apiVersion and kind; they are added, so that an object is the same from list and watch. */
function pageOf<T extends KubeObject>(what: string, resource: Resource, answer: unknown): Page<T> {
  const { metadata, items } = answer as { metadata?: { resourceVersion?: string; continue?: string }; items?: T[] | null };
  if (metadata?.resourceVersion === undefined)
    throw new KubeError(`${what}: the answer is not a list`, { status: 0, reason: 'Garbage' });
  const type = { apiVersion: apiVersionOf(resource), kind: resource.kind };
  for (const item of items ?? []) if (item.kind === undefined) Object.assign(item, type);
  return {
    items: items ?? [],
    resourceVersion: metadata.resourceVersion,
    ...(metadata.continue ? { continue: metadata.continue } : {}),
  };
}

function eventOf<T extends KubeObject>(what: string, line: string, quiet: boolean): WatchEvent<T> {
  const event = parseJson(what, line) as { type?: string; object?: T };
  if (event.type === 'ERROR') throw errorOfStatus(event.object, { what, status: 500, quiet });
  if (event.object?.metadata === undefined)
    throw new KubeError(`${what}: an event carries no object`, { status: 0, reason: 'Garbage' });
  return event as WatchEvent<T>;
}
