import type { Puller } from './puller.js';
import { pullerOf } from './puller.js';
import type { PullerSet } from './world.js';

/** Name of a DaemonSet of pullers. */
export function setName(hash: string, shard: number): string {
  return shard === 0 ? `puller-${hash}` : `puller-${hash}-${shard}`;
}

/**
 * What a DaemonSet warms; undefined where label and content disagree, which proves nothing.
 * @param own Harbinger's own namespace: sets elsewhere pull with the rights of the tenant there
 * @param bytes compressed bytes of the image, as far as known
 */
export function pullerOfSet(set: PullerSet, own: string, bytes?: number): Puller | undefined {
  const { namespace, pullSecrets: secrets, serviceAccountName } = set;
  const tenant = namespace === own ? undefined : { namespace, secrets, serviceAccountName };
  const puller = pullerOf(set.image, { runtimeClassName: set.runtimeClassName, bytes, tenant });
  return puller?.hash === set.hash ? puller : undefined;
}

/**
 * Whether a DaemonSet with our label is ours to count, change and delete. In Harbinger's own namespace nobody else makes any. Anywhere
 * else the label proves nothing, since tenants write labels: there it is ours only if it is, in all that matters, what we would have
 * made. Its name is the one that follows from its image, namespace, secrets and runtime class, and its Pods can do nothing that pullers
 * do not. Which puller program it has does not matter: that of another version is put right, and none proves an image that is not there.
 */
export function isOurs(set: PullerSet, own: string): boolean {
  if (set.namespace === own) return true;
  return set.harmless && set.name === setName(set.hash, set.shard) && pullerOfSet(set, own) !== undefined;
}

/** How far a DaemonSet counts: with all nodes that it names, with the Pods only that are there, or not at all. */
export type Standing = 'named' | 'pods' | 'none';

/**
 * How far a DaemonSet counts. What we would make is public, so a tenant can make it to the letter, with every node of the cluster in it
 * and without a single pull: a set elsewhere counts only as long as a prewarm there has such a puller on its record, and what it names
 * only as long as it is for us to put right. After that the pulls count that its Pods show.
 * @param ground recorded: hashes of pullers of tenants on record; known: those that were, of sets still there; refused: not ours to write
 */
export function standingOf(
  set: PullerSet,
  ground: {
    namespace: string;
    recorded: ReadonlySet<string>;
    known: ReadonlySet<string>;
    refused: ReadonlyMap<string, string>;
  },
): Standing {
  if (set.namespace === ground.namespace) return 'named';
  if (!(ground.recorded.has(set.hash) || ground.known.has(set.hash)) || !isOurs(set, ground.namespace)) return 'none';
  return ground.recorded.has(set.hash) && !ground.refused.has(set.hash) ? 'named' : 'pods';
}
