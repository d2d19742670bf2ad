import type { Draft } from './client.js';

export interface QueueOptions {
  /** Name of the LocalQueue, the ClusterQueue and the ResourceFlavor; default `gang`. */
  name?: string;
  /** Namespace of the LocalQueue; default `default`. Must exist. */
  namespace?: string;
  /** Quota by resource, e.g. {cpu: '8'}; default {cpu: '100', memory: '1000Gi'}. */
  quota?: Readonly<Record<string, string | number>>;
  /** Node labels of the flavor; default none (all nodes). */
  nodeLabels?: Readonly<Record<string, string>>;
  /** Tolerations of the flavor, which Kueue adds to Pods that it admits; default none. */
  tolerations?: readonly object[];
  /** Names of AdmissionChecks to make and attach; their controller is Harbinger. */
  checks?: readonly string[];
  /** Parameters of the checks: name of a PrewarmCheckConfig. */
  checkConfig?: string;
  /** More fields of the ClusterQueue's spec. */
  clusterQueue?: Record<string, unknown>;
}

/** controllerName of Harbinger's AdmissionChecks; written out here since tests must notice when the source changes it. */
const CONTROLLER = 'harbinger.dev/image-prewarm';
const KUEUE = 'kueue.x-k8s.io/v1beta2';

/** Objects of one queue: flavor, checks, ClusterQueue, LocalQueue. Jobs join by label `kueue.x-k8s.io/queue-name: NAME`. */
export function queueObjects(options: QueueOptions = {}): Draft[] {
  const {
    name = 'gang',
    namespace = 'default',
    quota = { cpu: '100', memory: '1000Gi' },
    nodeLabels,
    tolerations,
    checks = [],
  } = options;
  const resources = Object.entries(quota).map(([resource, amount]) => ({ name: resource, nominalQuota: String(amount) }));
  const parameters = options.checkConfig
    ? { parameters: { apiGroup: 'harbinger.dev', kind: 'PrewarmCheckConfig', name: options.checkConfig } }
    : {};
  return [
    {
      apiVersion: KUEUE,
      kind: 'ResourceFlavor',
      metadata: { name },
      spec: { ...(nodeLabels && { nodeLabels }), ...(tolerations && { tolerations }) },
    },
    ...checks.map((check) => ({
      apiVersion: KUEUE,
      kind: 'AdmissionCheck',
      metadata: { name: check },
      spec: { controllerName: CONTROLLER, ...parameters },
    })),
    {
      apiVersion: KUEUE,
      kind: 'ClusterQueue',
      metadata: { name },
      spec: {
        namespaceSelector: {},
        resourceGroups: [{ coveredResources: Object.keys(quota), flavors: [{ name, resources }] }],
        ...(checks.length > 0 ? { admissionChecksStrategy: { admissionChecks: checks.map((check) => ({ name: check })) } } : {}),
        ...options.clusterQueue,
      },
    },
    { apiVersion: KUEUE, kind: 'LocalQueue', metadata: { name, namespace }, spec: { clusterQueue: name } },
  ];
}
