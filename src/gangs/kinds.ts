/** Where one group of like Pods is described in a job. Paths are dotted, and begin at the object unless said otherwise. */
export interface Part {
  /** What `at` names: an object, a list of objects, or a map of them. */
  each: 'one' | 'list' | 'map';
  at: string;
  /** Name of the podSet: as it stands for `one`, a field of the entry for `list`; a map has its keys. */
  name?: string;
  /** The PodTemplateSpec, from the entry on. */
  template: string;
  /** Numbers that are multiplied, from the entry on; an absent one counts as 1. */
  counts?: readonly string[];
  /** Another number that the last of `counts` does not exceed, from the entry on. */
  most?: string;
}

/** A value at a path that says something: that it is one of these texts. */
interface Says {
  path: string;
  values: readonly string[];
}

/** How Pods and progress of a job are read where no queue tells them. */
export interface JobShape {
  parts: readonly Part[];
  /** A boolean: no Pods are made while it is true. */
  suspend: string;
  /** Types of conditions of which one is True at the end, or a phase. */
  finished: readonly string[] | Says;
  /** The same of a job whose Pods run. */
  running: readonly string[] | Says;
}

/** A kind of object that stands for a gang: what is annotated, and whose UID records carry. */
export interface JobKind {
  group: string;
  kind: string;
  plural: string;
  /** Versions that are understood; the first one that is served is read. */
  versions: readonly string[];
  /** Every API server serves it, so nobody has to be asked. */
  builtin?: true;
  /** Only objects with this label are followed. */
  labelSelector?: string;
  /**
   * Its own object carries Kueue's list of gates, and its Workload is made from it at once (Kueue 0.19, pkg/controller/jobs). Pods and
   * Deployments are left out on purpose: a right to patch all of them is more than a hold is worth.
   */
  gated?: true;
  /** Absent where only Kueue knows the Pods, or where nothing can keep them from coming at once. */
  shape?: JobShape;
}

const KUBEFLOW = 'kubeflow.org';

/** Kinds of the training operators differ in one word. */
function training(kind: string, plural: string, replicas: string, version = 'v1'): JobKind {
  return {
    group: KUBEFLOW,
    kind,
    plural,
    versions: [version],
    gated: true,
    shape: {
      parts: [{ each: 'map', at: `spec.${replicas}`, template: 'template', counts: ['replicas'] }],
      suspend: 'spec.runPolicy.suspend',
      finished: ['Succeeded', 'Failed'],
      running: ['Running'],
    },
  };
}

const rayParts = (at: string): Part[] => [
  { each: 'one', at: `${at}.headGroupSpec`, name: 'head', template: 'template' },
  {
    each: 'list',
    at: `${at}.workerGroupSpecs`,
    name: 'groupName',
    template: 'template',
    counts: ['numOfHosts', 'replicas'],
    most: 'maxReplicas',
  },
];

/**
 * The table of all kinds: what Kueue makes Workloads of (pkg/controller/jobs of Kueue 0.19), with the paths by which a job is read
 * that nobody queues. docs/queues.md shows it; RBAC is made from it.
 */
export const JOB_KINDS: readonly JobKind[] = [
  {
    group: 'batch',
    kind: 'Job',
    plural: 'jobs',
    versions: ['v1'],
    builtin: true,
    gated: true,
    shape: {
      parts: [{ each: 'one', at: 'spec', name: 'main', template: 'template', counts: ['parallelism'], most: 'completions' }],
      suspend: 'spec.suspend',
      finished: ['Complete', 'Failed', 'SuccessCriteriaMet', 'FailureTarget'],
      running: [],
    },
  },
  {
    group: 'jobset.x-k8s.io',
    kind: 'JobSet',
    plural: 'jobsets',
    versions: ['v1alpha2'],
    gated: true,
    shape: {
      parts: [
        {
          each: 'list',
          at: 'spec.replicatedJobs',
          name: 'name',
          template: 'template.spec.template',
          counts: ['replicas', 'template.spec.parallelism'],
          most: 'template.spec.completions',
        },
      ],
      suspend: 'spec.suspend',
      finished: ['Completed', 'Failed'],
      running: [],
    },
  },
  training('PyTorchJob', 'pytorchjobs', 'pytorchReplicaSpecs'),
  training('TFJob', 'tfjobs', 'tfReplicaSpecs'),
  training('XGBoostJob', 'xgboostjobs', 'xgbReplicaSpecs'),
  training('PaddleJob', 'paddlejobs', 'paddleReplicaSpecs'),
  training('JAXJob', 'jaxjobs', 'jaxReplicaSpecs'),
  training('MPIJob', 'mpijobs', 'mpiReplicaSpecs', 'v2beta1'),
  {
    group: 'ray.io',
    kind: 'RayCluster',
    plural: 'rayclusters',
    versions: ['v1'],
    gated: true,
    shape: {
      parts: rayParts('spec'),
      suspend: 'spec.suspend',
      finished: [],
      running: { path: 'status.state', values: ['ready'] },
    },
  },
  {
    group: 'ray.io',
    kind: 'RayJob',
    plural: 'rayjobs',
    versions: ['v1'],
    gated: true,
    shape: {
      // The submitter runs the image of the head, where it has no template of its own.
      parts: [
        ...rayParts('spec.rayClusterSpec'),
        { each: 'one', at: 'spec', name: 'submitter', template: 'submitterPodTemplate' },
      ],
      suspend: 'spec.suspend',
      finished: { path: 'status.jobDeploymentStatus', values: ['Complete', 'Failed'] },
      running: { path: 'status.jobDeploymentStatus', values: ['Running'] },
    },
  },
  { group: 'ray.io', kind: 'RayService', plural: 'rayservices', versions: ['v1'] },
  { group: 'trainer.kubeflow.org', kind: 'TrainJob', plural: 'trainjobs', versions: ['v1alpha1'], gated: true },
  { group: 'leaderworkerset.x-k8s.io', kind: 'LeaderWorkerSet', plural: 'leaderworkersets', versions: ['v1'], gated: true },
  { group: 'workload.codeflare.dev', kind: 'AppWrapper', plural: 'appwrappers', versions: ['v1beta2'], gated: true },
  { group: 'sparkoperator.k8s.io', kind: 'SparkApplication', plural: 'sparkapplications', versions: ['v1beta2'] },
  { group: 'apps', kind: 'StatefulSet', plural: 'statefulsets', versions: ['v1'], builtin: true },
  // Of Pods that Kueue takes one by one or in groups; its webhook puts the label on each of them.
  {
    group: '',
    kind: 'Pod',
    plural: 'pods',
    versions: ['v1'],
    builtin: true,
    labelSelector: 'kueue.x-k8s.io/managed=true',
  },
];

/** `Kind.group`, as the configuration writes it; `Kind` alone in the core group. */
export function kindName({ kind, group }: { kind: string; group: string }): string {
  return group === '' ? kind : `${kind}.${group}`;
}

const BY_NAME: ReadonlyMap<string, JobKind> = new Map(JOB_KINDS.map((k) => [kindName(k), k]));

/** The kind of the table, whatever version names it; undefined for others, whose annotations are never read. */
export function jobKind({ apiGroup, kind }: { apiGroup: string; kind: string }): JobKind | undefined {
  return BY_NAME.get(kindName({ kind, group: apiGroup }));
}
