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

interface Share {
  pulls: number;
  bytes: number;
}

/**
 * Counts pulls in flight against the limits. Each pull takes one unit of the cluster's and one of its registry's limit, and a
 * node has one unit in all: kubelets serialise pulls, so a second one would only wait in front of the gang's own Pods.
 * Pulls are shared by namespaces and counted for one of them: that of the first ImagePrewarm in the line that has the node.
 */
export class Meter {
  readonly #limits: Limits;
  readonly #byRegistry = new Map<string, number>();
  readonly #byPuller = new Map<string, number>();
  readonly #byNamespace = new Map<string, Share>();
  readonly #busy = new Map<string, number>();
  #total = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Whether it matters for which namespace a pull is. */
  get limitsNamespaces(): boolean {
    return this.#limits.maxPullingNodesPerNamespace !== undefined || this.#limits.maxPullingGiBPerNamespace !== undefined;
  }

  /** Counts a pull that is in flight already; it is counted even beyond the limits, since it cannot be taken back. */
  count(puller: Puller, node: string): void {
    this.#total += 1;
    bump(this.#byRegistry, puller.registry);
    bump(this.#byPuller, puller.hash);
    bump(this.#busy, node);
  }

  /** Counts a pull for a namespace, besides `count`. */
  charge(namespace: string, puller: Puller): void {
    const share = this.#byNamespace.get(namespace) ?? { pulls: 0, bytes: 0 };
    this.#byNamespace.set(namespace, { pulls: share.pulls + 1, bytes: share.bytes + puller.bytes });
  }

  refusal(puller: Puller, node: string, namespace?: string): Refusal | undefined {
    if (this.#busy.has(node)) return 'node';
    if (this.#total >= this.#limits.maxPullingNodes) return 'cluster';
    if ((this.#byRegistry.get(puller.registry) ?? 0) >= this.#limits.maxPullingNodesPerRegistry) return 'registry';
    return namespace === undefined ? undefined : this.#refusalOf(namespace, puller.bytes);
  }

  #refusalOf(namespace: string, bytes: number): Refusal | undefined {
    const { maxPullingNodesPerNamespace: nodes, maxPullingGiBPerNamespace: gib } = this.#limits;
    const share = this.#byNamespace.get(namespace) ?? { pulls: 0, bytes: 0 };
    if (nodes !== undefined && share.pulls >= nodes) return 'namespace';
    if (gib === undefined || share.bytes + bytes <= gib * 2 ** 30) return undefined;
    // One image may be larger than the limit: alone it goes through, or it would wait for ever. 0 stops the namespaces' pulls.
    return gib > 0 && share.pulls === 0 ? undefined : 'bytes';
  }

  inFlight(puller: Puller): number {
    return this.#byPuller.get(puller.hash) ?? 0;
  }
}

function bump(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
