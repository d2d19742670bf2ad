import { at, list, record, records, string, stringMap } from '../api/json.js';
import type { Json } from '../api/json.js';

/** What the record of a prewarmed gang goes by; the uid is absent where the object was not made yet. */
export interface GangName {
  apiGroup: string;
  kind: string;
  name: string;
  uid?: string;
}

/** A Pod that an object stands for. */
export interface PodOf {
  /** Where its template stands in the object, for example `spec.template`; empty for a Pod. */
  path: string;
  /** The Pod as its controller would send it to the API server. */
  pod: Json;
  gang?: GangName;
  /** `Kind.group` that is taken for the owner of the Pods, where it is not known whether this kind makes them itself. */
  assumedOwner?: string;
}

interface Owner {
  apiVersion: string;
  kind: string;
}

/** Who creates the Pods of kinds that leave that to another kind, be it by several in between. */
const CREATORS: Readonly<Record<string, Owner>> = {
  'Deployment.apps': { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  'CronJob.batch': { apiVersion: 'batch/v1', kind: 'Job' },
  'JobSet.jobset.x-k8s.io': { apiVersion: 'batch/v1', kind: 'Job' },
  'LeaderWorkerSet.leaderworkerset.x-k8s.io': { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  'RayJob.ray.io': { apiVersion: 'ray.io/v1', kind: 'RayCluster' },
  'RayService.ray.io': { apiVersion: 'ray.io/v1', kind: 'RayCluster' },
  'TrainJob.trainer.kubeflow.org': { apiVersion: 'batch/v1', kind: 'Job' },
  'TrainingRuntime.trainer.kubeflow.org': { apiVersion: 'batch/v1', kind: 'Job' },
  'ClusterTrainingRuntime.trainer.kubeflow.org': { apiVersion: 'batch/v1', kind: 'Job' },
  'Notebook.kubeflow.org': { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  'Rollout.argoproj.io': { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  'Service.serving.knative.dev': { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  'Configuration.serving.knative.dev': { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
  'ScaledJob.keda.sh': { apiVersion: 'batch/v1', kind: 'Job' },
  'DeploymentConfig.apps.openshift.io': { apiVersion: 'v1', kind: 'ReplicationController' },
};
/** Kinds that are known to create their Pods themselves; of others it is only assumed. */
const MAKERS: ReadonlySet<string> = new Set([
  'Pod',
  'ReplicationController',
  'Job.batch',
  'ReplicaSet.apps',
  'StatefulSet.apps',
  'DaemonSet.apps',
  'Job.batch.volcano.sh',
  'MPIJob.kubeflow.org',
  'PyTorchJob.kubeflow.org',
  'TFJob.kubeflow.org',
  'XGBoostJob.kubeflow.org',
  'PaddleJob.kubeflow.org',
  'JAXJob.kubeflow.org',
  'RayCluster.ray.io',
  'AppWrapper.workload.codeflare.dev',
]);
const JOBSET = 'JobSet.jobset.x-k8s.io';
const JOBSET_UID = 'jobset.sigs.k8s.io/jobset-uid';
const WORKLOAD = 'Workload.kueue.x-k8s.io';
const PLACEHOLDER_UID = '00000000-0000-0000-0000-000000000000';

/** A Pod template hangs a handful of levels deep (CronJob: 3, RayJob: 5); hostile files go deeper. */
const MAX_DEPTH = 12;
/** Objects that are looked through in one manifest. */
const MAX_VISITS = 20_000;

/**
 * The Pods that an object stands for: itself, or one for each Pod template anywhere in it. Templates are found by their shape
 * (`spec.containers` is a list), so that kinds which nobody has listed are read as well.
 */
export function podsOf(object: Json): PodOf[] {
  if (object['kind'] === 'Pod') return record(object['spec']) === undefined ? [] : [{ path: '', pod: object }];
  const budget = { visits: MAX_VISITS };
  return templatesIn(object, { object, path: [] }, budget).map(podFrom);
}

interface Found {
  path: string;
  template: Json;
  /** The innermost object around the template: one of an AppWrapper's, for example. */
  object: Json;
}

function templatesIn(
  value: Json,
  { object, path }: { object: Json; path: readonly string[] },
  budget: { visits: number },
): Found[] {
  if (path.length > MAX_DEPTH || budget.visits-- <= 0) return [];
  if (path.length > 0 && list(at(value, 'spec')['containers']) !== undefined)
    return [{ path: path.join('.'), template: value, object }];
  const inner = string(value['apiVersion']) !== undefined && string(value['kind']) !== undefined ? within(object, value) : object;
  const search = (below: unknown, step: string): Found[] => {
    const found = record(below);
    return found === undefined ? [] : templatesIn(found, { object: inner, path: [...path, step] }, budget);
  };
  return Object.entries(value).flatMap(([key, below]) => {
    // Status repeats templates of objects that exist, managedFields and annotations what was applied.
    if (path.length === 0 && (key === 'status' || key === 'metadata')) return [];
    const items = list(below);
    return items === undefined ? search(below, key) : items.flatMap((item, i) => search(item, `${key}[${i}]`));
  });
}

/** An object in another one is made in its namespace. */
function within(object: Json, inner: Json): Json {
  const { namespace } = at(object, 'metadata');
  return { ...inner, metadata: { ...(namespace === undefined ? {} : { namespace }), ...at(inner, 'metadata') } };
}

function podFrom({ object, path, template }: Found): PodOf {
  const metadata = at(object, 'metadata');
  const job = jobOf(object);
  const labels = stringMap(at(template, 'metadata')['labels']);
  const marks = keyOf(job) === JOBSET && job.uid !== undefined ? { [JOBSET_UID]: job.uid } : {};
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    ...template,
    metadata: {
      ...at(template, 'metadata'),
      labels: { ...labels, ...marks },
      generateName: `${string(metadata['name']) ?? 'pod'}-`,
      ...(string(metadata['namespace']) === undefined ? {} : { namespace: metadata['namespace'] }),
      ...ownerReferences(job),
    },
  };
  const { apiVersion, kind, name, uid } = job;
  const gang = { apiGroup: groupOf(apiVersion), kind, name, ...(uid === undefined ? {} : { uid }) };
  return { path, pod, gang, ...(isMaker(keyOf(job)) ? {} : { assumedOwner: keyOf(job) }) };
}

interface Job extends Owner {
  name: string;
  uid?: string;
}

/** The job behind an object: of a Kueue Workload its owner, else the object. */
function jobOf(object: Json): Job {
  const metadata = at(object, 'metadata');
  const own = named(string(object['apiVersion']), string(object['kind']), metadata);
  if (keyOf(own) !== WORKLOAD) return own;
  const owner = records(metadata['ownerReferences']).find((o) => o['controller'] === true);
  return owner === undefined ? own : named(string(owner['apiVersion']), string(owner['kind']), owner);
}

function named(apiVersion = '', kind = '', { name, uid }: Json): Job {
  const known = string(uid);
  return { apiVersion, kind, name: string(name) ?? '', ...(known === undefined ? {} : { uid: known }) };
}

/** A PodTemplate has no controller, and a Workload without an owner belongs to Pods that were there before it. */
function isOwnerless(key: string): boolean {
  return key === 'PodTemplate' || key === WORKLOAD;
}

function isMaker(key: string): boolean {
  return isOwnerless(key) || MAKERS.has(key) || CREATORS[key] !== undefined;
}

function ownerReferences(job: Job): { ownerReferences?: Json[] } {
  const key = keyOf(job);
  if (isOwnerless(key)) return {};
  const creator = CREATORS[key];
  const { apiVersion, kind } = creator ?? job;
  // The uid of an owner that does not exist yet is not known; one that is none keeps it from naming another gang.
  const uid = creator === undefined ? (job.uid ?? PLACEHOLDER_UID) : PLACEHOLDER_UID;
  return { ownerReferences: [{ apiVersion, kind, name: job.name, uid, controller: true }] };
}

function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}

/** `Kind.group`, as the list of owners in the configuration spells it. */
function keyOf({ apiVersion, kind }: Owner): string {
  const group = groupOf(apiVersion);
  return group === '' ? kind : `${kind}.${group}`;
}
