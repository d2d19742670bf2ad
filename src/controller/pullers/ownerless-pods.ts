import type { PullerPod } from '../../preheat/evidence.js';
import type { PullerSet } from '../../preheat/world.js';

/**
 * How long garbage collection is waited for, ms. Its watches begin anew up to a minute after an API server has come back (30 s, with
 * as much jitter: client-go's reflector).
 */
export const COLLECTED_WITHIN_MS = 90_000;

/**
 * Puller Pods whose DaemonSet is gone and which nobody has begun to delete: garbage collection has not caught up. A set that is made
 * again under its name before that is, to a collector that was away meanwhile, the old one changed, and it never learns that the owner
 * of those Pods is gone (GraphBuilder.processGraphChanges of kube-controller-manager): they stay until that is started again.
 */
export class OwnerlessPods {
  readonly #now: () => number;
  /** Since when a Pod has no owner, by UID. Lost at a restart, after which the wait merely begins anew. */
  readonly #since = new Map<string, number>();

  /** @param now milliseconds that never jump */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Namespaces and hashes, `namespace/hash`, of pullers that have such Pods and are to wait for the collection of those. */
  look(pods: readonly PullerPod[], sets: readonly PullerSet[]): ReadonlySet<string> {
    const now = this.#now();
    const owners = new Set(sets.map((s) => s.uid));
    const ownerless = pods.filter((p) => !p.deleting && p.ownerUid !== undefined && !owners.has(p.ownerUid));
    const uids = new Set(ownerless.map((p) => p.uid));
    for (const uid of this.#since.keys()) if (!uids.has(uid)) this.#since.delete(uid);
    for (const uid of uids) if (!this.#since.has(uid)) this.#since.set(uid, now);
    const waitedFor = ownerless.filter((p) => now - (this.#since.get(p.uid) ?? now) < COLLECTED_WITHIN_MS);
    return new Set(waitedFor.map((p) => `${p.namespace}/${p.hash}`));
  }
}
