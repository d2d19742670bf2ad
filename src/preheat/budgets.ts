import type { Puller } from './puller.js';

export interface Limits {
  /** Nodes that pull at once in the cluster. */
  maxPullingNodes: number;
  /** Nodes that pull at once from one registry. */
  maxPullingNodesPerRegistry: number;
  /** Nodes that pull at once for ImagePrewarms of one namespace; no limit where absent. */
  maxPullingNodesPerNamespace?: number | undefined;
  /** Compressed GiB under way at once for ImagePrewarms of one namespace; no limit where absent. */
  maxPullingGiBPerNamespace?: number | undefined;
}

/** Why a pull may not begin now. */
export type Refusal = 'cluster' | 'registry' | 'namespace' | 'bytes' | 'node';

/**
 * Counts pulls in flight against the limits. Each pull takes one unit of the cluster's and one of its registry's limit, and a
 * node has one unit in all: kubelets serialise pulls, so a second one would only wait in front of the gang's own Pods.
 */
export class Meter {
  readonly #limits: Limits;
  readonly #byRegistry = new Map<string, number>();
  readonly #byPuller = new Map<string, number>();
  readonly #busy = new Map<string, number>();
  #total = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Counts a pull that is in flight already; it is counted even beyond the limits, since it cannot be taken back. */
  count(puller: Puller, node: string): void {
    this.#total += 1;
    bump(this.#byRegistry, puller.registry);
    bump(this.#byPuller, puller.hash);
    bump(this.#busy, node);
  }

  refusal(puller: Puller, node: string): Refusal | undefined {
    if (this.#busy.has(node)) return 'node';
    if (this.#total >= this.#limits.maxPullingNodes) return 'cluster';
    if ((this.#byRegistry.get(puller.registry) ?? 0) >= this.#limits.maxPullingNodesPerRegistry) return 'registry';
    return undefined;
  }

  inFlight(puller: Puller): number {
    return this.#byPuller.get(puller.hash) ?? 0;
  }
}

function bump(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
