import type { ProcessHandle, Spawn } from '../../cluster/network/spawn.js';

export interface FakeNodesOptions {
  count: number;
  /** Names are `<prefix>1`, ...; default `fake-`. */
  prefix?: string;
  /** Path of a kubeconfig with cluster-admin rights. */
  kubeconfig: string;
  spawn: Spawn;
  /** Rate of the one link from the registries that all fake nodes share, in Mbit/s. */
  linkMbit: number;
  /** `ip:port` of registries spoken to over plain HTTP. Loopback always is. */
  registries?: readonly string[];
  labels?: Readonly<Record<string, string>>;
  /** Default: cpu 8, memory 32Gi, pods 110, ephemeral-storage 100Gi. */
  allocatable?: Readonly<Record<string, string>>;
}

export interface FakeNodes {
  readonly names: string[];
  readonly process: ProcessHandle;
  /** What the simulated registry link has carried. */
  bytes(): Promise<{ total: number; byNode: Record<string, number>; byImage: Record<string, number> }>;
}

/** Starts one process that plays `count` kubelets; resolves when all Nodes are registered. */
export function startFakeNodes(_options: FakeNodesOptions): Promise<FakeNodes> {
  return Promise.reject(new Error('not built yet'));
}
