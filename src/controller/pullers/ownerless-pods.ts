import { SHARD_NODES } from '../../preheat/backends/daemonset/shards.js';
import type { PullerPod } from '../../preheat/evidence.js';
import type { PullerSet } from '../../preheat/world.js';

/**
 * How long garbage collection is waited for, ms. Its watches begin anew up to a minute after an API server has come back (30 s, with
 * as much jitter: client-go's reflector).
 */
export const COLLECTED_WITHIN_MS = 90_000;

/** What is to wait for the collection of such Pods. */
export interface Ownerless {
  /** Namespaces and hashes, `namespace/hash`, of pullers that have such Pods: no set is made under a name of theirs. */
  keys: ReadonlySet<string>;
  /**
   * Those of which no set that is there takes further nodes, so that none of their pulls can begin; without a namespace where it is
   * Harbinger's own.
   */
  awaited: ReadonlySet<string>;
  /** When the first of the waits ends, ms from now. */
  leftMs: number | undefined;
}

/**
 * Puller Pods whose DaemonSet is gone and which nobody has begun to delete: garbage collection has not caught up. A set that is made
 * again under its name before that is, to a collector that was away meanwhile, the old one changed, and it never learns that the owner
 * of those Pods is gone (GraphBuilder.processGraphChanges of kube-controller-manager): they stay until that is started again.
 */
export class OwnerlessPods {
  readonly #now: () => number;
  readonly #own: string;
  /** Since when a Pod has no owner, by UID. Lost at a restart, after which the wait merely begins anew. */
  readonly #since = new Map<string, number>();

  /**
   * @param now milliseconds that never jump
   * @param own Harbinger's own namespace
   */
  constructor(now: () => number, own: string) {
    [this.#now, this.#own] = [now, own];
  }

  look(pods: readonly PullerPod[], sets: readonly PullerSet[]): Ownerless {
    const now = this.#now();
    const owners = new Set(sets.map((s) => s.uid));
    const ownerless = pods.filter((p) => !p.deleting && p.ownerUid !== undefined && !owners.has(p.ownerUid));
    const uids = new Set(ownerless.map((p) => p.uid));
    for (const uid of this.#since.keys()) if (!uids.has(uid)) this.#since.delete(uid);
    for (const uid of uids) if (!this.#since.has(uid)) this.#since.set(uid, now);
    const leftMs = (p: PullerPod): number => (this.#since.get(p.uid) ?? now) + COLLECTED_WITHIN_MS - now;
    const waitedFor = ownerless.filter((p) => leftMs(p) > 0);
    const present = new Map<string, PullerSet[]>();
    for (const set of sets) present.set(keyOf(set), [...(present.get(keyOf(set)) ?? []), set]);
    const open = new Set([...present].filter(([, all]) => takesMore(all)).map(([key]) => key));
    return {
      keys: new Set(waitedFor.map(keyOf)),
      awaited: new Set(
        waitedFor
          .filter((p) => !open.has(keyOf(p)))
          .map((p) => (p.namespace === this.#own ? keyOf({ ...p, namespace: '' }) : keyOf(p))),
      ),
      leftMs: waitedFor.length === 0 ? undefined : Math.min(...waitedFor.map(leftMs)),
    };
  }
}

/** Whether the next node of an image goes to a set that is there: to the first that has room, and one that is missing has the most. */
function takesMore(sets: readonly PullerSet[]): boolean {
  const inOrder = [...sets].sort((a, b) => a.shard - b.shard);
  const first = inOrder.findIndex((set, index) => set.shard !== index || set.nodes.length < SHARD_NODES);
  return inOrder[first]?.shard === first;
}

function keyOf({ namespace, hash }: { namespace: string; hash: string }): string {
  return `${namespace}/${hash}`;
}
