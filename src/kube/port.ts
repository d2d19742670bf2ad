import type { KubeObject } from '../api/object.js';
import type { Resource } from './resources.js';

/** Name of one object; `namespace` is absent for cluster-scoped resources. */
export interface ObjectName {
  namespace?: string;
  name: string;
}

/** RFC 6902 operation. */
export type PatchOp = { op: 'add' | 'replace' | 'test'; path: string; value: unknown } | { op: 'remove'; path: string };

export type Patch = { type: 'json'; ops: readonly PatchOp[] } | { type: 'merge'; body: unknown };

export interface CallOptions {
  subresource?: 'status';
  /** Deadline of the whole call in milliseconds; a default applies when absent. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

export interface ListOptions extends CallOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Objects per page. */
  limit?: number;
}

/**
 * The API server as Harbinger uses it: raw JSON in and out, deadlines on every call, KubeError on failure.
 * `KubeClient` is the real one; unit tests hand in their own.
 */
export interface KubePort {
  get<T extends KubeObject>(resource: Resource, name: ObjectName, options?: CallOptions): Promise<T>;
  /** Reads page after page; never one unbounded list. */
  list<T extends KubeObject>(resource: Resource, options?: ListOptions): AsyncIterable<T[]>;
  create<T extends KubeObject>(resource: Resource, object: KubeObject, options?: CallOptions): Promise<T>;
  patch<T extends KubeObject>(resource: Resource, name: ObjectName, patch: Patch, options?: CallOptions): Promise<T>;
  /** Server-side apply with `force`; `object` holds only the fields that the manager owns. */
  apply<T extends KubeObject>(resource: Resource, object: KubeObject, fieldManager: string, options?: CallOptions): Promise<T>;
  /** `uid` and `resourceVersion` become preconditions. Absent objects are not an error. */
  delete(
    resource: Resource,
    name: ObjectName,
    preconditions?: { uid?: string; resourceVersion?: string },
    options?: CallOptions,
  ): Promise<void>;
}

/** A cache of one resource that follows the API server; `T` is the projection that is kept. */
export interface Cache<T> {
  get(key: string): T | undefined;
  list(): T[];
  /** Objects whose index function gave `value`. */
  byIndex(index: string, value: string): T[];
  readonly hasSynced: boolean;
}

/** What the API server serves. */
export interface DiscoveryPort {
  /** Resources of these groups, each `group/version/plural`; of groups that are not served none. Rejects with KubeError. */
  served(groups: ReadonlySet<string>): Promise<ReadonlySet<string>>;
}
