import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request, type RequestOptions } from 'node:https';
import { createInterface } from 'node:readline';
import { parse, parseAllDocuments } from 'yaml';
import { notYet, until } from './until.js';

/** An object as the API server sends it; tests look into it freely. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the open ends of raw objects are the point of this client
export type Raw = Record<string, any> & { apiVersion: string; kind: string; metadata: Metadata };

export interface Metadata {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }[];
  [more: string]: unknown;
}

/** An object as a test writes it. */
export type Draft = Record<string, unknown> & {
  apiVersion: string;
  kind: string;
  metadata: { name?: string; generateName?: string; namespace?: string } & Record<string, unknown>;
};

/** An answer of the API server that is not 2xx; `reason` is that of the Status object (NotFound, Conflict...). */
export class ApiError extends Error {
  readonly status: number;
  readonly reason: string;
  constructor(status: number, reason: string, message: string) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

export interface ListOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
}
export interface PatchOptions {
  /** Default merge. */
  type?: 'merge' | 'json' | 'strategic';
  subresource?: string;
}
export interface DeleteOptions {
  gracePeriodSeconds?: number;
  propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
}
export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: Raw;
}
interface ResourceInfo {
  name: string;
  kind: string;
  namespaced: boolean;
}
interface Answer {
  status: number;
  body: unknown;
}

const PATCH_TYPES = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
} as const;

/**
 * The tests' own view of a cluster. It shares nothing with src/kube, so that a defect there cannot hide itself.
 * Kinds are written `apiVersion/Kind` (`v1/Pod`, `kueue.x-k8s.io/v1beta2/Workload`), objects `name` or `namespace/name`.
 */
export class ClusterClient {
  readonly #agent: Agent;
  readonly #server: URL;
  readonly #headers: Record<string, string>;
  readonly #resources = new Map<string, ResourceInfo[]>();

  /** From a kubeconfig with embedded certificates or a token, as this test ground writes them. */
  constructor(kubeconfig: string) {
    const config = parse(readFileSync(kubeconfig, 'utf8'));
    const decode = (text?: string): Buffer | undefined => (text ? Buffer.from(text, 'base64') : undefined);
    const cluster = config.clusters[0].cluster;
    const user = config.users[0].user;
    this.#server = new URL(cluster.server);
    this.#agent = new Agent({
      keepAlive: true,
      ca: decode(cluster['certificate-authority-data']),
      cert: decode(user['client-certificate-data']),
      key: decode(user['client-key-data']),
    });
    this.#headers = { 'user-agent': 'harbinger-test', ...(user.token ? { authorization: `Bearer ${user.token}` } : {}) };
  }

  close(): void {
    this.#agent.destroy();
  }

  /** The object; throws ApiError (404 when absent). */
  async get(kind: string, key: string): Promise<Raw> {
    return (await this.request('GET', await this.#path(kind, key))) as Raw;
  }

  /** The object, or undefined when it does not exist. */
  async find(kind: string, key: string): Promise<Raw | undefined> {
    return this.get(kind, key).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    });
  }

  /** Items of all namespaces, or of one. */
  async list(kind: string, options: ListOptions = {}): Promise<Raw[]> {
    const { namespace, ...selectors } = options;
    const query = new URLSearchParams(selectors as Record<string, string>).toString();
    const path = await this.#collection(kind, namespace);
    const list = (await this.request('GET', query ? `${path}?${query}` : path)) as { items: Raw[] };
    // Items of a list carry no kind of their own.
    return list.items.map((item) => ({ ...item, ...splitKind(kind) }));
  }

  async create(object: Draft): Promise<Raw> {
    return (await this.request('POST', await this.#collection(kindOf(object), object.metadata.namespace), object)) as Raw;
  }

  /** PUT: replaces the object; the resourceVersion in it is honoured. */
  async replace(object: Draft, { subresource }: { subresource?: string } = {}): Promise<Raw> {
    return (await this.request('PUT', await this.#path(kindOf(object), keyOf(object), subresource), object)) as Raw;
  }

  async patch(kind: string, key: string, patch: unknown, { type = 'merge', subresource }: PatchOptions = {}): Promise<Raw> {
    const path = await this.#path(kind, key, subresource);
    return (await this.request('PATCH', path, patch, PATCH_TYPES[type])) as Raw;
  }

  /** Deletes the object; one that does not exist is fine. */
  async delete(kind: string, key: string, options: DeleteOptions = {}): Promise<void> {
    try {
      await this.request('DELETE', await this.#path(kind, key), { propagationPolicy: 'Background', ...options });
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  /** Server-side apply, forced, of objects or of a YAML text with any number of documents, in order. */
  async apply(
    objects: string | Draft | readonly Draft[],
    { fieldManager = 'harbinger-test', subresource = '' } = {},
  ): Promise<Raw[]> {
    const applied: Raw[] = [];
    for (const object of drafts(objects)) {
      const path = await this.#path(kindOf(object), keyOf(object), subresource || undefined);
      const query = new URLSearchParams({ fieldManager, force: 'true' }).toString();
      applied.push((await this.request('PATCH', `${path}?${query}`, object, 'application/apply-patch+yaml')) as Raw);
    }
    return applied;
  }

  /** Polls one object until `check` accepts it; an absent object counts as not yet. Prints the last object on failure. */
  async watchUntil(kind: string, key: string, check: (object: Raw) => boolean, timeoutMs = 30_000): Promise<Raw> {
    return until(
      `${kind} ${key} to be as expected`,
      async () => {
        const object = await this.find(kind, key);
        if (!object) return notYet('it does not exist');
        return check(object) ? object : notYet({ ...object, metadata: { ...object.metadata, managedFields: undefined } });
      },
      { timeoutMs },
    );
  }

  /** Waits until the object is gone. */
  async untilGone(kind: string, key: string, timeoutMs = 30_000): Promise<void> {
    await until(`${kind} ${key} to be gone`, async () => ((await this.find(kind, key)) ? notYet('it still exists') : true), {
      timeoutMs,
    });
  }

  /**
   * Events of all objects of a kind: first each existing one as ADDED, then a BOOKMARK, then what changes. Ends when the server ends the
   * watch or `signal` aborts it.
   */
  async *watch(
    kind: string,
    { namespace, signal }: { namespace?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<WatchEvent> {
    const initial = {
      watch: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
    };
    const path = `${await this.#collection(kind, namespace)}?${new URLSearchParams(initial).toString()}`;
    const response = await this.#open({
      method: 'GET',
      path,
      headers: { ...this.#headers, accept: 'application/json' },
      ...(signal && { signal }),
    });
    if (response.statusCode !== 200) throw new ApiError(response.statusCode ?? 0, '', `watch ${path}: ${response.statusCode}`);
    try {
      for await (const line of createInterface({ input: response })) {
        const event = JSON.parse(line) as
          WatchEvent | { type: 'ERROR'; object: { code: number; reason: string; message: string } };
        if (event.type === 'ERROR')
          throw new ApiError(event.object.code, event.object.reason, `watch ${path}: ${event.object.message}`);
        yield event;
      }
    } finally {
      response.destroy();
    }
  }

  /** One raw request; throws ApiError for anything but 2xx. Text goes and comes back as it is, all else as JSON. */
  async request(method: string, path: string, body?: unknown, contentType = 'application/json'): Promise<unknown> {
    const payload = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const headers: Record<string, string> = { ...this.#headers, accept: 'application/json' };
    if (payload !== undefined) {
      headers['content-type'] = contentType;
      // Node sends the body of a DELETE without a length, and the server then takes it for the next request on the connection.
      headers['content-length'] = String(Buffer.byteLength(payload));
    }
    const answer = await this.#send({ method, path, headers }, payload);
    if (answer.status >= 200 && answer.status < 300) return answer.body;
    const status = (typeof answer.body === 'object' ? answer.body : { message: answer.body }) as {
      reason?: string;
      message?: string;
    };
    throw new ApiError(answer.status, status.reason ?? '', `${method} ${path}: ${answer.status} ${status.message ?? ''}`);
  }

  #send(options: RequestOptions, payload: string | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const call = request({
        ...options,
        host: this.#server.hostname,
        port: this.#server.port,
        agent: this.#agent,
        timeout: 30_000,
      });
      call.on('error', (error) => reject(new Error(`${options.method} ${options.path}: ${error.message}`)));
      call.on('timeout', () => call.destroy(new Error('no answer for 30 s')));
      call.on('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: decodeBody(Buffer.concat(chunks).toString()) }),
        );
      });
      call.end(payload);
    });
  }

  #open(options: RequestOptions): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      // An agent of its own: a watch must not take a connection from the pool of short calls.
      const call = request({
        ...options,
        host: this.#server.hostname,
        port: this.#server.port,
        agent: new Agent({ ...this.#agent.options, keepAlive: false }),
      });
      call.on('error', reject);
      call.on('response', resolve);
      call.end();
    });
  }

  async #path(kind: string, key: string, subresource?: string): Promise<string> {
    const [namespace, name] = key.includes('/') ? key.split('/') : [undefined, key];
    const info = await this.#resource(kind);
    const collection = await this.#collection(kind, info.namespaced ? (namespace ?? 'default') : undefined);
    return `${collection}/${encodeURIComponent(name ?? '')}${subresource ? `/${subresource}` : ''}`;
  }

  async #collection(kind: string, namespace?: string): Promise<string> {
    const { name } = await this.#resource(kind);
    return `${apiRoot(splitKind(kind).apiVersion)}${namespace ? `/namespaces/${namespace}` : ''}/${name}`;
  }

  // A CRD's resource appears in discovery a moment after it was created: look again before giving up.
  async #resource(kind: string): Promise<ResourceInfo> {
    const { apiVersion, kind: name } = splitKind(kind);
    const known = this.#resources.get(apiVersion)?.find((r) => r.kind === name);
    if (known) return known;
    return until(
      `the API server to serve ${kind}`,
      async () => {
        const list = (await this.request('GET', apiRoot(apiVersion))) as { resources: ResourceInfo[] };
        const main = list.resources.filter((r) => !r.name.includes('/'));
        this.#resources.set(apiVersion, main);
        return main.find((r) => r.kind === name) ?? notYet(`${apiVersion} has ${main.map((r) => r.kind).join(', ')}`);
      },
      { timeoutMs: 30_000 },
    );
  }
}

const apiRoot = (apiVersion: string): string => (apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`);

const kindOf = (object: Draft): string => `${object.apiVersion}/${object.kind}`;

const keyOf = (object: Draft): string =>
  object.metadata.namespace ? `${object.metadata.namespace}/${object.metadata.name}` : String(object.metadata.name);

function splitKind(kind: string): { apiVersion: string; kind: string } {
  const at = kind.lastIndexOf('/');
  return { apiVersion: kind.slice(0, at), kind: kind.slice(at + 1) };
}

function drafts(objects: string | Draft | readonly Draft[]): readonly Draft[] {
  if (typeof objects !== 'string') return Array.isArray(objects) ? (objects as readonly Draft[]) : [objects as Draft];
  return parseAllDocuments(objects)
    .map((document) => {
      if (document.errors[0]) throw document.errors[0];
      return document.toJS() as Draft | null;
    })
    .filter((object): object is Draft => object !== null);
}

function decodeBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The condition of this type in an object's status. */
export const condition = (object: Raw, type: string): { status: string; reason?: string; message?: string } | undefined =>
  (object['status']?.conditions as { type: string; status: string }[] | undefined)?.find((c) => c.type === type);

/** Whether the condition of this type is True. */
export const isTrue = (object: Raw, type: string): boolean => condition(object, type)?.status === 'True';
