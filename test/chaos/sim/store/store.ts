import { applyPatch } from 'rfc6902';
import { record } from '../../../../src/api/json.js';
import { keyOf } from '../../../../src/api/object.js';
import type { ObjectName, Patch } from '../../../../src/kube/port.js';
import { apiVersionOf, type Resource } from '../../../../src/kube/resources.js';
import type { Change, Raw } from '../../invariants/history.js';
import { refusal } from './errors.js';
import { fieldsOf, merge, removeField } from './fields.js';
import { WITH_STATUS, admit } from './schema.js';

/** A change with the place in the order of all changes. */
export interface Stored extends Change {
  version: number;
  resource: string;
  /** What stood before; undefined for the first version. */
  before: Raw | undefined;
}

interface Entry {
  object: Raw;
  /** Fields by who applied them; those of plain writes belong to `''`. */
  owners: Map<string, Set<string>>;
}

export type Subresource = 'status' | undefined;
const NAME_LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

/**
 * The objects of a cluster with the rules of the API server: versions, preconditions, subresources, server-side apply, finalizers.
 * It takes no time and knows no network; `SimClient` adds both.
 */
export class Store {
  readonly log: Stored[] = [];
  /** Watches from a version before this one get 410. */
  compactedAt = 0;
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #entries = new Map<string, Map<string, Entry>>();
  readonly #listeners = new Set<(change: Stored) => void>();
  /** Streams hear only of their own kind: there are many of them. */
  readonly #byKind = new Map<string, Set<(change: Stored) => void>>();
  readonly #sorted = new Map<string, Raw[]>();
  readonly #absent = new Set<string>();
  #version = 1000;
  #uids = 0;

  constructor({ now, random }: { now: () => number; random: () => number }) {
    this.#now = now;
    this.#random = random;
  }

  get version(): number {
    return this.#version;
  }

  onChange(listener: (change: Stored) => void): void {
    this.#listeners.add(listener);
  }

  /** Hears of one kind until the returned function is called. */
  follow(resource: Resource, listener: (change: Stored) => void): () => void {
    const listeners = this.#byKind.get(idOf(resource)) ?? new Set();
    this.#byKind.set(idOf(resource), listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Takes a kind away, as if its CRD were gone (404 for everything), or brings it back. */
  serve(resource: Resource, served: boolean): void {
    if (served) this.#absent.delete(idOf(resource));
    else this.#absent.add(idOf(resource));
  }

  isServed(resource: Resource): boolean {
    return !this.#absent.has(idOf(resource));
  }

  get(resource: Resource, name: ObjectName): Raw {
    return this.#entry(resource, name).object;
  }

  find(resource: Resource, name: ObjectName): Raw | undefined {
    return this.#kind(resource).get(keyOf({ metadata: name }))?.object;
  }

  /** All objects in the order of their keys, as etcd gives them. */
  list(resource: Resource, namespace?: string): Raw[] {
    const id = idOf(resource);
    const kind = this.#kind(resource);
    const all = this.#sorted.get(id) ?? [...kind].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry.object);
    this.#sorted.set(id, all);
    return namespace === undefined ? all : all.filter((o) => o.metadata.namespace === namespace);
  }

  /** Every object there is. */
  all(): Raw[] {
    return [...this.#entries.values()].flatMap((kind) => [...kind.values()].map((e) => e.object));
  }

  create(resource: Resource, draft: Raw): Raw {
    const { generateName, ...metadata } = draft.metadata;
    const name = metadata.name ?? `${generateName ?? ''}${this.#suffix()}`;
    const kind = this.#kind(resource);
    if (kind.has(keyOf({ metadata: { ...metadata, name } }))) throw refusal.exists(`create ${resource.plural} ${name}`);
    const { status, ...rest } = draft as Raw & { status?: unknown };
    const object = {
      ...(WITH_STATUS.has(resource.kind) && resource.group !== ''
        ? rest
        : { ...rest, ...(status === undefined ? {} : { status }) }),
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { ...metadata, name, uid: this.#uid(), creationTimestamp: seconds(this.#now()), generation: 1 },
    } as Raw;
    return this.#put(resource, admit(object, undefined), { manager: '', fields: undefined });
  }

  patch(resource: Resource, name: ObjectName, patch: Patch, subresource?: Subresource): Raw {
    const { object } = this.#entry(resource, name);
    const changed = patch.type === 'json' ? jsonPatched(object, patch.ops) : (mergePatched(object, patch.body) as Raw);
    const asked = changed.metadata.resourceVersion;
    if (asked !== undefined && asked !== object.metadata.resourceVersion)
      throw refusal.conflict(`patch ${resource.plural} ${name.name}`);
    if (changed.metadata.uid !== object.metadata.uid) throw refusal.conflict(`patch ${resource.plural} ${name.name}`);
    return this.#write(resource, changed, { manager: '', subresource });
  }

  /** Server-side apply with force. */
  apply(resource: Resource, config: Raw, fieldManager: string, subresource?: Subresource): Raw {
    const manager = `${fieldManager}/${subresource ?? ''}`;
    const key = keyOf(config);
    const entry = this.#kind(resource).get(key);
    const { resourceVersion, uid } = config.metadata;
    if (entry === undefined) {
      if (subresource !== undefined) throw refusal.notFound(`apply ${resource.plural} ${key}`);
      if (uid !== undefined || resourceVersion !== undefined) throw refusal.conflict(`apply ${resource.plural} ${key}`);
      return this.#createApplied(resource, config, manager);
    }
    const before = entry.object.metadata;
    if (resourceVersion !== undefined && resourceVersion !== before.resourceVersion)
      throw refusal.conflict(`apply ${resource.plural} ${key}`);
    if (uid !== undefined && uid !== before.uid) throw refusal.conflict(`apply ${resource.plural} ${key}`);
    const part = partOf(config, resource, subresource);
    const mine = fieldsOf(part);
    const whole = merge(entry.object, {
      ...part,
      metadata: { ...part.metadata, resourceVersion: before.resourceVersion },
    }) as Raw;
    const others = new Set([...entry.owners].filter(([who]) => who !== manager).flatMap(([, fields]) => [...fields]));
    const gone = [...(entry.owners.get(manager) ?? [])].filter((f) => !mine.has(f) && !others.has(f));
    const merged = gone.length === 0 ? whole : structuredClone(whole);
    // Items of lists before their fields, by one of which they are found.
    for (const field of gone.sort((a, b) => a.length - b.length)) removeField(merged, field);
    return this.#write(resource, merged, { manager, subresource, fields: new Set(mine.keys()) });
  }

  delete(resource: Resource, name: ObjectName, preconditions: { uid?: string; resourceVersion?: string } = {}): void {
    const { object } = this.#entry(resource, name);
    for (const field of ['uid', 'resourceVersion'] as const)
      if (preconditions[field] !== undefined && preconditions[field] !== object.metadata[field])
        throw refusal.conflict(`delete ${resource.plural} ${name.name}: precondition of ${field}`);
    const held =
      (object.metadata.finalizers ?? []).length > 0 ||
      (resource.kind === 'Pod' && record(object['spec'])?.['nodeName'] !== undefined);
    if (!held) return this.remove(resource, name);
    if (object.metadata.deletionTimestamp !== undefined) return;
    const metadata = { ...object.metadata, deletionTimestamp: seconds(this.#now()) };
    this.#put(resource, { ...object, metadata }, { manager: '', fields: undefined });
  }

  /** The end of an object, whatever holds it: what a kubelet does with a Pod that has ended. */
  remove(resource: Resource, name: ObjectName): void {
    const { object } = this.#entry(resource, name);
    this.#kind(resource).delete(keyOf(object));
    this.#version += 1;
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } };
    this.#tell({
      at: this.#now(),
      type: 'DELETED',
      object: last,
      version: this.#version,
      resource: idOf(resource),
      before: object,
    });
  }

  #createApplied(resource: Resource, config: Raw, manager: string): Raw {
    const { metadata, ...rest } = partOf(config, resource, undefined);
    const object = {
      ...rest,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: { ...metadata, uid: this.#uid(), creationTimestamp: seconds(this.#now()), generation: 1 },
    } as Raw;
    return this.#put(resource, admit(object, undefined), { manager, fields: new Set(fieldsOf(config).keys()) });
  }

  /** Keeps the part that the subresource does not write, and makes no version of what is the same. */
  #write(resource: Resource, changed: Raw, by: { manager: string; subresource: Subresource; fields?: Set<string> }): Raw {
    const { object: before } = this.#entry(resource, changed.metadata);
    const { uid = '', creationTimestamp = '', generation = 1, resourceVersion = '' } = before.metadata;
    const own = { uid, creationTimestamp, resourceVersion };
    const whole = WITH_STATUS.has(resource.kind)
      ? by.subresource === 'status'
        ? { ...before, status: changed['status'] }
        : { ...changed, status: before['status'] }
      : changed;
    const metadata = by.subresource === 'status' ? before.metadata : { ...changed.metadata, ...own };
    let next = admit({ ...whole, metadata }, before);
    const moved = !same(next['spec'], before['spec']);
    next = { ...next, metadata: { ...next.metadata, generation: moved ? generation + 1 : generation } };
    if (next['status'] === undefined) delete next['status'];
    const put = { manager: by.manager, fields: by.fields };
    if (same(next, before)) return this.#own(resource, next, put);
    const stored = this.#put(resource, next, put);
    const done = stored.metadata.deletionTimestamp !== undefined && (stored.metadata.finalizers ?? []).length === 0;
    if (done && resource.kind !== 'Pod') this.remove(resource, stored.metadata);
    return stored;
  }

  #put(resource: Resource, object: Raw, by: { manager: string; fields: Set<string> | undefined }): Raw {
    const kind = this.#kind(resource);
    const before = kind.get(keyOf(object))?.object;
    this.#version += 1;
    const stored = frozen({ ...object, metadata: { ...object.metadata, resourceVersion: String(this.#version) } });
    this.#own(resource, stored, by);
    const type = before === undefined ? 'ADDED' : 'MODIFIED';
    this.#tell({ at: this.#now(), type, object: stored, version: this.#version, resource: idOf(resource), before });
    return stored;
  }

  /** Who applies a field owns it; a plain write takes those that it changes away from everybody. */
  #own(resource: Resource, object: Raw, { manager, fields }: { manager: string; fields: Set<string> | undefined }): Raw {
    const kind = this.#kind(resource);
    const key = keyOf(object);
    const entry = kind.get(key);
    const owners = entry?.owners ?? new Map<string, Set<string>>();
    // Of what nobody ever applied nobody asks who owns it.
    if (fields !== undefined || owners.size > 0) {
      const [was, is] = [entry === undefined ? new Map<string, string>() : fieldsOf(entry.object), fieldsOf(object)];
      if (owners.size === 0) owners.set('', new Set(was.keys()));
      const changed = new Set([...is].filter(([field, value]) => was.get(field) !== value).map(([field]) => field));
      const others = [...owners].filter(([who]) => who !== manager);
      for (const [who, set] of others) owners.set(who, new Set([...set].filter((f) => is.has(f) && !changed.has(f))));
      owners.set(manager, fields ?? new Set([...(owners.get(manager) ?? []), ...changed]));
    }
    kind.set(key, { object, owners });
    return object;
  }

  #tell(change: Stored): void {
    this.log.push(change);
    this.#sorted.delete(change.resource);
    for (const listener of this.#listeners) listener(change);
    for (const listener of this.#byKind.get(change.resource) ?? []) listener(change);
  }

  #entry(resource: Resource, name: ObjectName): Entry {
    const entry = this.#kind(resource).get(keyOf({ metadata: name }));
    if (entry === undefined) throw refusal.notFound(`${resource.plural} "${name.name}" not found`);
    return entry;
  }

  #kind(resource: Resource): Map<string, Entry> {
    const id = idOf(resource);
    if (this.#absent.has(id)) throw refusal.notFound('the server could not find the requested resource');
    const kind = this.#entries.get(id) ?? new Map<string, Entry>();
    this.#entries.set(id, kind);
    return kind;
  }

  #uid(): string {
    this.#uids += 1;
    return `00000000-0000-4000-8000-${this.#uids.toString(16).padStart(12, '0')}`;
  }

  #suffix(): string {
    return Array.from({ length: 5 }, () => NAME_LETTERS[Math.floor(this.#random() * NAME_LETTERS.length)]).join('');
  }
}

export const idOf = ({ group, plural }: Resource): string => `${plural}.${group}`;

/** Whole seconds, as the API server keeps times. */
export const seconds = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');

/** Equal as JSON, whatever the order of fields. */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || Array.isArray(a) !== Array.isArray(b))
    return false;
  const [left, right] = [Object.entries(a).filter(defined), Object.entries(b).filter(defined)];
  return left.length === right.length && left.every(([name, value]) => same(value, (b as Record<string, unknown>)[name]));
}

const defined = ([, value]: [string, unknown]): boolean => value !== undefined;

/** Of an applied object what counts: its status through the subresource, the rest otherwise. */
function partOf(config: Raw, resource: Resource, subresource: Subresource): Raw {
  if (!WITH_STATUS.has(resource.kind)) return config;
  const { status, metadata, ...rest } = config as Raw & { status?: unknown };
  const { name, namespace } = metadata;
  const bare = { name, ...(namespace === undefined ? {} : { namespace }) };
  if (subresource === undefined) return { ...rest, metadata };
  return { apiVersion: config.apiVersion, kind: config.kind, metadata: bare, status };
}

function jsonPatched(object: Raw, ops: Extract<Patch, { type: 'json' }>['ops']): Raw {
  const copy = structuredClone(object);
  const failed = applyPatch(copy, ops as Parameters<typeof applyPatch>[1]).find((error) => error !== null);
  // A test that fails and a path that leads nowhere are the same answer (apiserver, jsonPatcher.applyPatchToCurrentObject).
  if (failed !== undefined)
    throw refusal.invalid(`the server rejected our request due to an error in our request: ${failed?.message ?? ''}`);
  return copy;
}

/** RFC 7396. */
function mergePatched(target: unknown, patch: unknown): unknown {
  const map = record(patch);
  if (map === undefined) return patch;
  const merged: Record<string, unknown> = { ...record(target) };
  for (const [name, value] of Object.entries(map)) {
    if (value === null) delete merged[name];
    else merged[name] = mergePatched(merged[name], value);
  }
  return merged;
}

/** A copy that nobody can change: watches give the same object to everybody. What is frozen already is shared. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  const copy: unknown = Array.isArray(value)
    ? value.map((inner: unknown) => frozen(inner))
    : Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, frozen(inner) as unknown]));
  return Object.freeze(copy) as T;
}
