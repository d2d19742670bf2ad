import { payloadImage, pullerImage, push } from '../../../tools/oci-image/index.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import type { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';

export const NS = 'team';
export const QUEUE = 'gang';
export const CHECK = 'images';
export const SYSTEM = 'harbinger-system';
export const WORKLOAD = 'kueue.x-k8s.io/v1beta2/Workload';
export const PREWARM = 'harbinger.dev/v1alpha1/ImagePrewarm';
export const PULLER = 'harbinger.dev/puller';

/** The namespace of the gangs; the webhook sees its Pods. */
export const namespace: Draft = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: NS, labels: { 'harbinger.dev/accelerate': 'enabled' } },
};

/** Pushes the puller program and returns its reference by digest. */
export async function pushPuller(cluster: Cluster): Promise<string> {
  const image = await pullerImage();
  await push(image, { host: cluster.registry.host, repository: 'harbinger/puller', tags: ['test'] });
  return `${cluster.registry.host}/harbinger/puller@${image.digest}`;
}

export interface Pushed {
  /** As a user writes it. */
  image: string;
  /** What is recorded for it. */
  resolved: string;
  digest: string;
}

/** Pushes an image of `bytes` incompressible bytes; another seed gives another image under the same tag. Only with a shell (`bare: false`) does it run on real nodes. */
export async function pushImage(
  cluster: Cluster,
  repository: string,
  { tag = 'v1', seed = repository, bytes = 200_000, bare = true } = {},
): Promise<Pushed> {
  const image = await payloadImage({ seed, bytes, files: 1, bare });
  const { host } = cluster.registry;
  await push(image, { host, repository, tags: [tag] });
  return { image: `${host}/${repository}:${tag}`, digest: image.digest, resolved: `${host}/${repository}@${image.digest}` };
}

export interface JobOptions {
  pods?: number;
  /** Per Pod; the default queue has room for three. */
  cpu?: string;
  queue?: string | undefined;
  /** Annotations of the Pod template. */
  annotations?: Record<string, string>;
  jobAnnotations?: Record<string, string>;
  spec?: Record<string, unknown>;
  command?: string[];
}

/** Opts in, with or without a hold. */
export const prewarm = (hold?: string): Record<string, string> => ({
  'harbinger.dev/prewarm': 'true',
  ...(hold === undefined ? {} : { 'harbinger.dev/prewarm-hold': hold }),
});

/** A gang of Pods, one CPU each, that waits in the queue. */
export function gang(name: string, image: string, options: JobOptions = {}): Draft {
  const {
    pods = 3,
    cpu = '1',
    queue = QUEUE,
    annotations = {},
    jobAnnotations = {},
    spec = {},
    command = ['/pause', 'sleep', '3600'],
  } = options;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: NS, labels: { 'kueue.x-k8s.io/queue-name': queue }, annotations: jobAnnotations },
    spec: {
      completionMode: 'Indexed',
      completions: pods,
      parallelism: pods,
      suspend: true,
      template: {
        metadata: { annotations },
        spec: {
          restartPolicy: 'Never',
          terminationGracePeriodSeconds: 0,
          containers: [{ name: 'train', image, command, resources: { requests: { cpu } } }],
          ...spec,
        },
      },
    },
  };
}

/** The Workload of a Job, once there is one and `check` accepts it. */
export function workloadOf(
  cluster: Cluster,
  job: string,
  check: (w: Raw) => boolean = () => true,
  timeoutMs = 30_000,
): Promise<Raw> {
  return until(
    `the Workload of Job ${job} to be as expected`,
    async () => {
      const all = await cluster.client.list(WORKLOAD, { namespace: NS });
      const mine = all.find((w) => ownedBy(w, job));
      if (mine === undefined) return notYet('there is none');
      return check(mine) ? mine : notYet(mine['status']);
    },
    { timeoutMs },
  );
}

export const ownedBy = (object: Raw, owner: string): boolean =>
  object.metadata.ownerReferences?.some((o) => o.name === owner) ?? false;
export const checkOf = (workload: Raw): { state: string; message: string; lastTransitionTime: string; retryCount?: number } =>
  workload['status']?.admissionChecks?.[0];
export const reserved = (workload: Raw): boolean => isTrue(workload, 'QuotaReserved');
export const admitted = (workload: Raw): boolean => isTrue(workload, 'Admitted');

/** The ImagePrewarm of a Job, once there is one and `check` accepts it. */
export function prewarmOf(
  cluster: Cluster,
  job: string,
  check: (p: Raw) => boolean = () => true,
  timeoutMs = 30_000,
): Promise<Raw> {
  return until(
    `the ImagePrewarm of Job ${job} to be as expected`,
    async () => {
      const all = await cluster.client.list(PREWARM, { namespace: NS });
      const mine = all.find((p) => p['spec'].gangRef?.name === job);
      if (mine === undefined) return notYet('there is none');
      return check(mine) ? mine : notYet(mine['status'] ?? 'no status');
    },
    { timeoutMs },
  );
}

export const ready = (object: Raw): boolean => isTrue(object, 'Ready');
export const conditionOf = (
  object: Raw,
  type: string,
): { status: string; reason: string; message: string; lastTransitionTime: string } | undefined =>
  object['status']?.conditions?.find((c: { type: string }) => c.type === type);

/** Pods of the pullers of one image. */
export async function pullersOf(cluster: Cluster, resolved: string): Promise<Raw[]> {
  const pods = await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
  return pods.filter((p) => p['spec'].volumes?.some((v: { image?: { reference: string } }) => v.image?.reference === resolved));
}

/** Waits until nothing pulls or holds the image any more. */
export function pullersGone(cluster: Cluster, resolved: string): Promise<boolean> {
  return until(`the pullers of ${resolved} to be gone`, async () => {
    const pods = await pullersOf(cluster, resolved);
    return pods.length === 0 || notYet(pods.map((p) => `${p.metadata.name}: ${p['status'].phase}`));
  });
}

/** Running Pods of a Job, once there are `count`. */
export function runningPods(cluster: Cluster, job: string, count: number, timeoutMs = 40_000): Promise<Raw[]> {
  return until(
    `${count} running Pods of Job ${job}`,
    async () => {
      const pods = await cluster.client.list('v1/Pod', { namespace: NS, labelSelector: `batch.kubernetes.io/job-name=${job}` });
      const running = pods.filter((p) => p['status'].phase === 'Running');
      return running.length === count
        ? running
        : notYet(pods.map((p) => [p.metadata.name, p['status'].phase, p['status'].containerStatuses?.[0]?.state]));
    },
    { timeoutMs },
  );
}

/** Switches a fault of a fake node; null puts it right. */
export async function knob(cluster: Cluster, node: string, name: string, value: string | null): Promise<void> {
  await cluster.client.patch('v1/Node', node, { metadata: { annotations: { [name]: value } } });
}

/** Deletes a Job, its Pods and what Kueue made for it. */
export async function removeJob(cluster: Cluster, name: string): Promise<void> {
  await cluster.client.delete('batch/v1/Job', `${NS}/${name}`);
  await until(`Job ${name} and its Workload to be gone`, async () => {
    const workloads = await cluster.client.list(WORKLOAD, { namespace: NS });
    const pods = await cluster.client.list('v1/Pod', { namespace: NS, labelSelector: `batch.kubernetes.io/job-name=${name}` });
    const left = [...workloads.filter((w) => ownedBy(w, name)), ...pods];
    return left.length === 0 || notYet(left.map((o) => `${o.kind} ${o.metadata.name}`));
  });
}
