import type { Draft, Raw } from '../../../test/cluster/client.js';

export const NAMESPACE = 'team';
export const QUEUE = 'gang';
export const WORKLOAD = 'kueue.x-k8s.io/v1beta2/Workload';
export const PREWARM = 'harbinger.dev/v1alpha1/ImagePrewarm';
export const SYSTEM = 'harbinger-system';
export const PULLER = 'harbinger.dev/puller';

export interface GangPlan {
  name: string;
  image: string;
  pods: number;
  /** The higher the nearer to the head of the queue. */
  priority: number;
}

function template({ image }: GangPlan): Record<string, unknown> {
  return {
    metadata: { annotations: { 'harbinger.dev/prewarm': 'true' } },
    spec: {
      restartPolicy: 'Never',
      containers: [{ name: 'train', image, command: ['/train'], resources: { requests: { cpu: '8', memory: '16Gi' } } }],
    },
  };
}

/** A Job that waits; without a running Kueue nobody ever starts it. */
export function jobOf(gang: GangPlan): Draft {
  const { name, pods } = gang;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: NAMESPACE, labels: { 'kueue.x-k8s.io/queue-name': QUEUE } },
    spec: { completionMode: 'Indexed', completions: pods, parallelism: pods, suspend: true, template: template(gang) },
  };
}

/** What Kueue would make of the Job while it stands in its queue. */
export function workloadOf(gang: GangPlan, job: Raw): Draft {
  const { name, pods, priority } = gang;
  return {
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: {
      name: `job-${name}`,
      namespace: NAMESPACE,
      ownerReferences: [
        { apiVersion: 'batch/v1', kind: 'Job', name, uid: job.metadata.uid, controller: true, blockOwnerDeletion: true },
      ],
    },
    spec: { queueName: QUEUE, priority, active: true, podSets: [{ name: 'main', count: pods, template: template(gang) }] },
  };
}
