import { string, stringMap } from '../api/json.js';
import type { KubeObject } from '../api/object.js';

/**
 * Labels by which Pods two owners below their job name its UID. JobSet writes its own on its Jobs and on their Pods
 * (jobset.sigs.k8s.io, "JobSet labels"). Kueue's `kueue.x-k8s.io/job-uid` is missing: it stands on Workloads and never on Pods.
 */
const JOB_UID_LABELS = ['jobset.sigs.k8s.io/jobset-uid'] as const;

/**
 * UIDs under which the gang of a Pod may be recorded, nearest owner first: what a webhook can know from the Pod alone.
 * The controller's record of a gang carries the UID of the *job*, so a Pod whose controller is the job is found directly, and
 * one that stands lower by a label. Labels are written by anybody who may create Pods; that is harmless, since records are only
 * looked up in the Pod's own namespace and only give its own images by digest.
 * Returns [] for a Pod with neither; each UID once.
 */
export function gangUidsOfPod(pod: KubeObject): string[] {
  const owners: unknown = pod.metadata.ownerReferences;
  const controllers = Array.isArray(owners) ? pod.metadata.ownerReferences?.filter((o) => o.controller === true) : [];
  const labels = stringMap(pod.metadata.labels);
  const uids = [...(controllers ?? []).map((o) => string(o.uid)), ...JOB_UID_LABELS.map((name) => labels[name])];
  return [...new Set(uids.filter((uid) => uid !== undefined && uid !== ''))] as string[];
}
