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
 * do not. What a tenant copies to the letter is a puller, and proves no more than one.
 */
export function isOurs(set: PullerSet, own: string): boolean {
  if (set.namespace === own) return true;
  return set.harmless && set.name === setName(set.hash, set.shard) && pullerOfSet(set, own) !== undefined;
}
