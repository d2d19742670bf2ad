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
 * So many nodes may fail and be tried again by their kubelets before anything else waits for them: a few bad nodes are no reason to
 * stop, and what comes back by itself, after an outage say, exceeds a limit by no more than these.
 */
export const FAILING_FREE = 5;

interface Share {
  pulls: number;
  bytes: number;
  /** Nodes on which a pull may begin by itself. */
  mayBegin: number;
}

const NOTHING: Share = { pulls: 0, bytes: 0, mayBegin: 0 };

/**
 * Counts pulls in flight against the limits. Each pull takes one unit of the cluster's and one of its registry's limit, and a
 * node has one unit in all: kubelets serialise pulls, so a second one would only wait in front of the gang's own Pods.
 * Pulls are shared by namespaces and counted for one of them: that of the first ImagePrewarm in the line that has the node.
 *
 * Nodes on which a pull may begin by itself stand beside them. Once both together exceed a limit by FAILING_FREE, only images none
 * of whose nodes is such a one go on, on one node at a time each, in half of the limit: what fails neither grows nor stops the rest.
 */
export class Meter {
  readonly #limits: Limits;
  readonly #cluster: Share = { ...NOTHING };
  readonly #byRegistry = new Map<string, Share>();
  readonly #byPuller = new Map<string, Share>();
  readonly #byNamespace = new Map<string, Share>();
  /** Pulls on each node that has any. */
  readonly #busy = new Map<string, number>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Whether it matters for which namespace a pull is. */
  get limitsNamespaces(): boolean {
    return this.#limits.maxPullingNodesPerNamespace !== undefined || this.#limits.maxPullingGiBPerNamespace !== undefined;
  }

  /** Counts a pull that is in flight already; it is counted even beyond the limits, since it cannot be taken back. */
  count(puller: Puller, node: string): void {
    for (const share of this.#sharesOf(puller)) share.pulls += 1;
    this.#busy.set(node, (this.#busy.get(node) ?? 0) + 1);
  }

  /** Counts a node on which a pull may begin by itself. */
  expect(puller: Puller): void {
    for (const share of this.#sharesOf(puller)) share.mayBegin += 1;
  }

  /** Counts a pull for a namespace, besides `count` or `expect`. */
  charge(namespace: string, puller: Puller, inFlight = true): void {
    const share = shareIn(this.#byNamespace, namespace);
    if (inFlight) share.pulls += 1;
    else share.mayBegin += 1;
    share.bytes += inFlight ? puller.bytes : 0;
  }

  /** @param counted whether this very pull is counted already: it may not be what exceeds a limit */
  refusal(
    puller: Puller,
    node: string,
    { namespace, counted }: { namespace?: string | undefined; counted: boolean },
  ): Refusal | undefined {
    const own = counted ? 1 : 0;
    if ((this.#busy.get(node) ?? 0) > own) return 'node';
    if (this.#isFull(puller, less(this.#cluster, own), this.#limits.maxPullingNodes)) return 'cluster';
    const registry = less(shareIn(this.#byRegistry, puller.registry), own);
    if (this.#isFull(puller, registry, this.#limits.maxPullingNodesPerRegistry)) return 'registry';
    return namespace === undefined ? undefined : this.#refusalOf(namespace, puller, own);
  }

  #refusalOf(namespace: string, puller: Puller, counted: number): Refusal | undefined {
    const { maxPullingNodesPerNamespace: nodes, maxPullingGiBPerNamespace: gib } = this.#limits;
    const share = less(this.#byNamespace.get(namespace) ?? NOTHING, counted, puller.bytes);
    if (nodes !== undefined && this.#isFull(puller, share, nodes)) return 'namespace';
    if (gib === undefined || share.bytes + puller.bytes <= gib * 2 ** 30) return undefined;
    // One image may be larger than the limit: alone it goes through, or it would wait for ever. 0 stops the namespaces' pulls.
    return gib > 0 && share.pulls === 0 ? undefined : 'bytes';
  }

  #isFull(puller: Puller, { pulls, mayBegin }: Share, limit: number): boolean {
    if (pulls >= limit) return true;
    if (pulls + mayBegin < limit + FAILING_FREE) return false;
    const own = this.#byPuller.get(puller.hash) ?? NOTHING;
    return own.mayBegin > 0 || own.pulls > 0 || pulls >= Math.ceil(limit / 2);
  }

  /** Whether anything of the puller is counted. */
  hasAny(puller: Puller): boolean {
    return this.#byPuller.has(puller.hash);
  }

  #sharesOf(puller: Puller): Share[] {
    return [this.#cluster, shareIn(this.#byRegistry, puller.registry), shareIn(this.#byPuller, puller.hash)];
  }
}

function less({ pulls, bytes, mayBegin }: Share, count: number, size = 0): Share {
  return { pulls: Math.max(0, pulls - count), bytes: Math.max(0, bytes - count * size), mayBegin };
}

function shareIn(shares: Map<string, Share>, key: string): Share {
  const known = shares.get(key) ?? { ...NOTHING };
  shares.set(key, known);
  return known;
}
