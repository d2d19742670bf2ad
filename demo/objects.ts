import { ANNOTATION, API_VERSION, CHECK_CONTROLLER, GROUP, LABEL } from '../src/api/names.js';
import type { Draft } from '../test/cluster/client.js';
import { CHECK, NAMESPACE, QUEUE } from './settings.js';

/** The objects of the demo, as a user of Harbinger and Kueue writes them. */
const KUEUE = 'kueue.x-k8s.io/v1beta2';
const FLAVOR = 'nodes';

/** The namespace whose Pods the webhook may see. */
export function namespaceObject(): Draft {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE, labels: { [LABEL.accelerate]: 'enabled' } } };
}

/** A queue with room for one gang, and the check that Harbinger answers in it. */
export function queueObjects(cpus: number): Draft[] {
  return [
    {
      apiVersion: API_VERSION,
      kind: 'PrewarmCheckConfig',
      metadata: { name: CHECK },
      spec: { defaultHoldSeconds: 0 },
    },
    {
      apiVersion: KUEUE,
      kind: 'AdmissionCheck',
      metadata: { name: CHECK },
      spec: { controllerName: CHECK_CONTROLLER, parameters: { apiGroup: GROUP, kind: 'PrewarmCheckConfig', name: CHECK } },
    },
    { apiVersion: KUEUE, kind: 'ResourceFlavor', metadata: { name: FLAVOR }, spec: {} },
    {
      apiVersion: KUEUE,
      kind: 'ClusterQueue',
      metadata: { name: QUEUE },
      spec: {
        namespaceSelector: {},
        resourceGroups: [
          { coveredResources: ['cpu'], flavors: [{ name: FLAVOR, resources: [{ name: 'cpu', nominalQuota: String(cpus) }] }] },
        ],
        // No onFlavors: only a check that covers all flavors is listed before quota is reserved, which is when Harbinger answers it.
        admissionChecksStrategy: { admissionChecks: [{ name: CHECK }] },
      },
    },
    { apiVersion: KUEUE, kind: 'LocalQueue', metadata: { name: QUEUE, namespace: NAMESPACE }, spec: { clusterQueue: QUEUE } },
  ];
}

export interface GangOptions {
  name: string;
  image: string;
  pods: number;
  /** Opts in to prewarming. */
  prewarm?: boolean;
  /** Outside of the queue: starts at once. */
  unqueued?: boolean;
}

/** An Indexed Job whose Pods all start together, one a node, each asking for one CPU. */
export function gangJob({ name, image, pods, prewarm = false, unqueued = false }: GangOptions): Draft {
  const apart = { labelSelector: { matchLabels: { gang: name } }, topologyKey: 'kubernetes.io/hostname' };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: NAMESPACE, ...(unqueued ? {} : { labels: { 'kueue.x-k8s.io/queue-name': QUEUE } }) },
    spec: {
      completionMode: 'Indexed',
      completions: pods,
      parallelism: pods,
      suspend: !unqueued,
      template: {
        metadata: { labels: { gang: name }, ...(prewarm ? { annotations: { [ANNOTATION.prewarm]: 'true' } } : {}) },
        spec: {
          restartPolicy: 'Never',
          terminationGracePeriodSeconds: 0,
          automountServiceAccountToken: false,
          affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } },
          containers: [{ name: 'train', image, imagePullPolicy: 'IfNotPresent', resources: { requests: { cpu: '1' } } }],
        },
      },
    },
  };
}

/** Offers two formats for everything in some repositories, the better one first. */
export function variantsPolicy(repositories: string): Draft {
  return {
    apiVersion: API_VERSION,
    kind: 'AccelerationPolicy',
    metadata: { name: 'show' },
    spec: {
      match: { images: [repositories] },
      variants: [
        { format: 'estargz', discover: { tagSuffix: '-esgz' } },
        { format: 'zstd', discover: { tagSuffix: '-zstd' } },
      ],
    },
  };
}

/** One Pod outside of any gang. */
export function plainPod(name: string, image: string): Draft {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE },
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image, imagePullPolicy: 'IfNotPresent' }],
    },
  };
}
