import type { KubeObject } from '../api/object.js';

/**
 * UIDs under which the gang of a Pod may be recorded, nearest owner first: what a webhook can know from the Pod alone.
 * The controller's record of a gang carries the UID of the *job*, so a Pod whose controller is the job is found directly;
 * gangs whose Pods stand two owners below the job need a label that names it, and this is where such labels are listed.
 * Returns [] for a Pod without a controller.
 */
export function gangUidsOfPod(pod: KubeObject): string[] {
  const owners = pod.metadata.ownerReferences;
  if (!Array.isArray(owners)) return [];
  return owners.filter((o) => o.controller === true && typeof o.uid === 'string').map((o) => o.uid);
}
