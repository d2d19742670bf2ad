import type { Network } from '../network/index.js';
import type { Spawn } from '../network/spawn.js';

export interface RegistryOptions {
  /** Unique in the cluster, e.g. `registry`. */
  name: string;
  spawn: Spawn;
  /** Directory of the built tools (crane). */
  bin: string;
  /** Where blobs and manifests are kept. */
  dir: string;
  port: number;
  /** Absent: the registry listens on loopback. Present: in a namespace of its own on this network, at `slot` (2..9). */
  network?: { network: Network; slot: number; rateMbit?: number };
}

/** A plain-HTTP registry process. */
export interface Registry {
  /** `ip:port` as image references name it. */
  readonly host: string;
  readonly url: string;
  /** Bytes sent to its clients since it was made; 0 on loopback. */
  bytesSent(): Promise<number>;
  /** Limits its egress (namespace only). */
  shape(rateMbit: number | undefined): Promise<void>;
  stop(): Promise<void>;
  /** Starts it again on the same address with the content it had. */
  start(): Promise<void>;
}

export function startRegistry(_options: RegistryOptions): Promise<Registry> {
  return Promise.reject(new Error('not built yet'));
}
