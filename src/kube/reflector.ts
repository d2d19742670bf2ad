import type { KubeObject } from '../api/object.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { WatchPort } from './client.js';
import type { Cache } from './port.js';
import type { Resource } from './resources.js';

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
}

export class Reflector<T> implements Cache<T> {
  readonly synced: Promise<void> = Promise.resolve();
  problem: string | undefined;
  lastContactMs = 0;
  constructor(_options: ReflectorOptions<T>) {}
  start(): void {}
  stop(): Promise<void> {
    return Promise.resolve();
  }
  onChange(_handler: ChangeHandler<T>): void {}
  get(_key: string): T | undefined {
    return undefined;
  }
  list(): T[] {
    return [];
  }
  byIndex(_index: string, _value: string): T[] {
    return [];
  }
  get hasSynced(): boolean {
    return false;
  }
}
