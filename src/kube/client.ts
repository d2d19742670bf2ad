import type { KubeObject } from '../api/object.js';
import type { CallOptions, KubePort, ListOptions, ObjectName, Patch } from './port.js';
import type { Resource } from './resources.js';

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  resourceVersion?: string;
  /** The server ends the watch after so many seconds. */
  timeoutSeconds?: number;
  signal?: AbortSignal;
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

export class KubeClient implements KubePort, WatchPort {
  static fromKubeconfig(_path: string | undefined, _options: { userAgent: string }): Promise<KubeClient> {
    return Promise.reject(new Error('being written'));
  }
  get<T extends KubeObject>(_resource: Resource, _name: ObjectName, _options?: CallOptions): Promise<T> {
    return Promise.reject(new Error('being written'));
  }
  list<T extends KubeObject>(_resource: Resource, _options?: ListOptions): AsyncIterable<T[]> {
    throw new Error('being written');
  }
  listPage<T extends KubeObject>(_resource: Resource, _options?: PageOptions): Promise<Page<T>> {
    return Promise.reject(new Error('being written'));
  }
  create<T extends KubeObject>(_resource: Resource, _object: KubeObject, _options?: CallOptions): Promise<T> {
    return Promise.reject(new Error('being written'));
  }
  patch<T extends KubeObject>(_resource: Resource, _name: ObjectName, _patch: Patch, _options?: CallOptions): Promise<T> {
    return Promise.reject(new Error('being written'));
  }
  apply<T extends KubeObject>(_resource: Resource, _object: KubeObject, _fieldManager: string, _options?: CallOptions): Promise<T> {
    return Promise.reject(new Error('being written'));
  }
  delete(_resource: Resource, _name: ObjectName, _preconditions?: { uid?: string; resourceVersion?: string }, _options?: CallOptions): Promise<void> {
    return Promise.reject(new Error('being written'));
  }
  watch<T extends KubeObject>(_resource: Resource, _options?: WatchOptions): AsyncIterable<WatchEvent<T>> {
    throw new Error('being written');
  }
  close(): Promise<void> {
    return Promise.resolve();
  }
}
