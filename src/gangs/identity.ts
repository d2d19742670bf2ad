import { string, stringMap } from '../api/json.js';
import type { KubeObject } from '../api/object.js';
import { kindName } from './kinds.js';

/**
 * Labels by which Pods two owners below their job name its UID. JobSet writes its own on its Jobs and on their Pods
 * (jobset.sigs.k8s.io, "JobSet labels"). Kueue's `kueue.x-k8s.io/job-uid` is missing: it stands on Workloads and never on Pods.
 */
const JOB_UID_LABELS = ['jobset.sigs.k8s.io/jobset-uid'] as const;

/** A label of a Pod that gives the name of its job, where another object stands between them and nothing gives the UID. */
interface NameLabel {
  label: string;
  group: string;
  kinds: readonly string[];
  /** The name of the job in the value of the label; the value itself where absent. */
  nameIn?: RegExp;
}

/** What operators write on Pods, read from the constants of each; where the job controls its Pods no entry is needed. */
const JOB_NAME_LABELS: readonly NameLabel[] = [
  // A TrainJob makes one JobSet of its own name.
  { label: 'jobset.sigs.k8s.io/jobset-name', group: 'trainer.kubeflow.org', kinds: ['TrainJob'] },
  // The launcher belongs to a Job.
  { label: 'training.kubeflow.org/job-name', group: 'kubeflow.org', kinds: ['MPIJob'] },
  // KubeRay names the cluster of a RayJob or RayService NAME-xxxxx, and tells its Pods nothing else of where they come from.
  { label: 'ray.io/cluster', group: 'ray.io', kinds: ['RayJob', 'RayService'], nameIn: /^(.+)-[a-z0-9]{5}$/ },
  // The submitter of a RayJob is a Job of its name.
  { label: 'batch.kubernetes.io/job-name', group: 'ray.io', kinds: ['RayJob'] },
  { label: 'workload.codeflare.dev/appwrapper', group: 'workload.codeflare.dev', kinds: ['AppWrapper'] },
  // Executors belong to the driver, which is a Pod.
  { label: 'sparkoperator.k8s.io/app-name', group: 'sparkoperator.k8s.io', kinds: ['SparkApplication'] },
];

/**
 * UIDs under which the gang of a Pod may be recorded, nearest owner first: what can be known from the Pod alone. A Pod whose controller
 * is the job is found directly, and one that stands lower by a label. Returns [] for a Pod with neither; each UID once.
 */
export function gangUidsOfPod(pod: KubeObject): string[] {
  const owners: unknown = pod.metadata.ownerReferences;
  const controllers = Array.isArray(owners) ? pod.metadata.ownerReferences?.filter((o) => o.controller === true) : [];
  const labels = stringMap(pod.metadata.labels);
  const uids = [...(controllers ?? []).map((o) => string(o.uid)), ...JOB_UID_LABELS.map((name) => labels[name])];
  return [...new Set(uids.filter((uid) => uid !== undefined && uid !== ''))] as string[];
}

/**
 * Keys under which the gang of a Pod may be recorded: the UIDs, and after them names (see gangKeys), which are no proof and count
 * only where one record has them. Labels are written by anybody who may create Pods; that is harmless, since records are only looked
 * up in the Pod's own namespace and only give its own images by digest. Returns [] for a Pod with none of these; each key once.
 */
export function gangKeysOfPod(pod: KubeObject): string[] {
  const labels = stringMap(pod.metadata.labels);
  const names = JOB_NAME_LABELS.flatMap(({ label, group, kinds, nameIn }) => {
    const value = labels[label];
    const name = nameIn === undefined || value === undefined ? value : nameIn.exec(value)?.[1];
    return name ? kinds.map((kind) => nameKey({ kind, group }, name)) : [];
  });
  return [...new Set([...gangUidsOfPod(pod), ...names])];
}

/** Keys of the record of a gang, from its `gangRef`: the UID of the job, and kind and name. */
export function gangKeys(ref: { apiGroup?: unknown; kind?: unknown; name?: unknown; uid?: unknown }): string[] {
  const [uid, kind, name] = [string(ref.uid), string(ref.kind), string(ref.name)];
  const named = kind === undefined || name === undefined ? undefined : nameKey({ kind, group: string(ref.apiGroup) ?? '' }, name);
  return [uid, named].filter((key) => key !== undefined);
}

/** Key of a gang or job in an index over all namespaces: a UID that was seen elsewhere, or made up, must not reach over. */
export function gangIndex(namespace: string | undefined, key: string): string {
  return `${namespace ?? ''}/${key}`;
}

/** Whether a key is a name, of which there may be several over time. A UID has no slash. */
export function isNameKey(key: string): boolean {
  return key.includes('/');
}

function nameKey(kind: { kind: string; group: string }, name: string): string {
  return `${kindName(kind)}/${name}`;
}
