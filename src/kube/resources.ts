import { API_VERSION } from '../api/names.js';

/** One API resource; list, watch and object paths are all derived from it, so that they cannot differ. */
export interface Resource {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  /** Lists and watches bring `metadata` and nothing else (PartialObjectMetadata). */
  metadataOnly?: boolean;
}

const r = (apiVersion: string, plural: string, kind: string, namespaced = true): Resource => {
  const [version = '', group = ''] = apiVersion.split('/').reverse();
  return { group, version, plural, kind, namespaced };
};

export const RESOURCE = {
  pods: r('v1', 'pods', 'Pod'),
  nodes: r('v1', 'nodes', 'Node', false),
  namespaces: r('v1', 'namespaces', 'Namespace', false),
  secrets: r('v1', 'secrets', 'Secret'),
  serviceAccounts: r('v1', 'serviceaccounts', 'ServiceAccount'),
  configMaps: r('v1', 'configmaps', 'ConfigMap'),
  runtimeClasses: r('node.k8s.io/v1', 'runtimeclasses', 'RuntimeClass', false),
  events: r('events.k8s.io/v1', 'events', 'Event'),
  leases: r('coordination.k8s.io/v1', 'leases', 'Lease'),
  jobs: r('batch/v1', 'jobs', 'Job'),
  daemonSets: r('apps/v1', 'daemonsets', 'DaemonSet'),
  mutatingWebhooks: r('admissionregistration.k8s.io/v1', 'mutatingwebhookconfigurations', 'MutatingWebhookConfiguration', false),
  imagePrewarms: r(API_VERSION, 'imageprewarms', 'ImagePrewarm'),
  accelerationPolicies: r(API_VERSION, 'accelerationpolicies', 'AccelerationPolicy', false),
  prewarmCheckConfigs: r(API_VERSION, 'prewarmcheckconfigs', 'PrewarmCheckConfig', false),
  workloads: r('kueue.x-k8s.io/v1beta2', 'workloads', 'Workload'),
  clusterQueues: r('kueue.x-k8s.io/v1beta2', 'clusterqueues', 'ClusterQueue', false),
  localQueues: r('kueue.x-k8s.io/v1beta2', 'localqueues', 'LocalQueue'),
  resourceFlavors: r('kueue.x-k8s.io/v1beta2', 'resourceflavors', 'ResourceFlavor', false),
  admissionChecks: r('kueue.x-k8s.io/v1beta2', 'admissionchecks', 'AdmissionCheck', false),
} as const satisfies Record<string, Resource>;

export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}
