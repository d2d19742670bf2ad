/** Names that users and other programs see. They are spelled here and nowhere else. */
export const GROUP = 'harbinger.dev';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

/** `controllerName` of the Kueue AdmissionChecks that Harbinger answers. */
export const CHECK_CONTROLLER = `${GROUP}/image-prewarm`;

/**
 * Kueue's annotation on jobs: a comma-separated list of those who have to let the job go before Kueue looks at it. Set when the job
 * is made; afterwards names can only be taken off (Kueue KEP-6915).
 */
export const ADMISSION_GATED_BY = 'kueue.x-k8s.io/admission-gated-by';

/** Annotations and labels, with the object that carries them. docs/annotations.md explains each. */
export const ANNOTATION = {
  /** Gang objects (Workload, job, Pod template) and Namespace: "true" or "false". */
  prewarm: `${GROUP}/prewarm`,
  /** Same objects: how long a gang may be held with quota reserved, e.g. "10m". */
  prewarmHold: `${GROUP}/prewarm-hold`,
  /** Pod template and Namespace: "false" leaves every image alone. */
  accelerate: `${GROUP}/accelerate`,
  /** Pod template and Namespace: comma-separated container names that are left alone. */
  skipContainers: `${GROUP}/skip-containers`,
  /** Output on Pods: what was decided for each container, as JSON. Never trusted as input. */
  decisions: `${GROUP}/decisions`,
  /** Output on Workloads: the time (RFC 3339) at which a hold ends, stamped before the hold begins. */
  holdDeadline: `${GROUP}/hold-deadline`,
  /** Output on Workloads: since when quota was reserved (RFC 3339) for the hold whose end is stamped. */
  holdSince: `${GROUP}/hold-since`,
  /** Output on Workloads: the time (RFC 3339) at which our name on the job's list of admission gates goes at the latest. */
  gateDeadline: `${GROUP}/gate-deadline`,
  /** Manifest annotation of a variant: digest of the platform manifest (or index) that it was made from. */
  sourceDigest: `${GROUP}/source-digest`,
} as const;

export const LABEL = {
  /** Namespace: "enabled" lets the webhook see the Pods of the namespace. */
  accelerate: `${GROUP}/accelerate`,
  /** Pods: an image of this Pod was replaced by a variant. */
  accelerated: `${GROUP}/accelerated`,
  /** Nodes: never warmed by Harbinger. */
  exclude: `${GROUP}/exclude`,
  /** Puller DaemonSets and Pods: the hash of (image, runtimeClass) that they warm. */
  puller: `${GROUP}/puller`,
  /** The same: number of the part of its nodes that this DaemonSet covers. */
  pullerShard: `${GROUP}/puller-shard`,
} as const;

/** Server-side-apply owners, one per writer, so that two writers never take each other's fields. */
export const FIELD_MANAGER = {
  gangs: 'harbinger-gangs',
  status: 'harbinger-status',
  pullers: 'harbinger-pullers',
  checks: 'harbinger-checks',
  caBundle: 'harbinger-ca',
  nodeClasses: 'harbinger-node-classes',
} as const;

/**
 * Namespaces that the webhook is never called for, whatever their labels say: the API server has to be able to make these Pods while
 * Harbinger is down.
 */
export function unservedNamespaces(installedIn: string): readonly string[] {
  return ['kube-system', 'kube-public', 'kube-node-lease', installedIn];
}

/** Objects of an installation, as the generated manifests name them; flags of the processes default to these. */
export const INSTALL = {
  namespace: 'harbinger-system',
  /** Deployment, ServiceAccount and Service of the webhook. */
  webhook: 'harbinger-webhook',
  /** Deployment and ServiceAccount of the controller. */
  controller: 'harbinger-controller',
  /** ServiceAccount of puller Pods; it is bound to nothing. */
  puller: 'harbinger-puller',
  webhookConfiguration: 'harbinger',
  /** Entry of the webhook configuration, and the path that it calls. */
  webhookName: 'pods.harbinger.dev',
  webhookPath: '/mutate',
  /** Secret with the certificate authority of the webhook. */
  caSecret: 'harbinger-ca',
  configMap: 'harbinger-config',
  /** ConfigMap in which the leading controller tells the webhooks what nodes there are. */
  nodeClasses: 'harbinger-node-classes',
  /** ClusterRole that users bind per namespace, so that the webhook may look images up with the pull secrets there. */
  pullSecretsRole: 'harbinger-pull-secrets',
  /** ClusterRole that is bound to both processes where `holds.gatedJobs` is On, so that they may take their gate off jobs. */
  gatedJobsRole: 'harbinger-gated-jobs',
  /** ClusterRole that users bind per namespace, so that images which only its pull secrets may read are found and pulled there. */
  workloadPullersRole: 'harbinger-workload-pullers',
  /** ValidatingAdmissionPolicy that lets the controller make DaemonSets of pullers and no others. */
  pullerPolicy: 'harbinger-pullers',
  /** Secret with credentials and authorities of registries, made by whoever installs. */
  registriesSecret: 'harbinger-registries',
  /** Leases: the leading controller, and the webhook replica that ends overdue holds. */
  controllerLease: 'harbinger-controller',
  watchdogLease: 'harbinger-watchdog',
} as const;
