import { payloadImage, push } from '../../../tools/oci-image/index.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { ApiError } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { CHECK, gang, namespace, NS, prewarm, pushPuller, QUEUE, WORKLOAD } from '../../integration/controller/ground.js';
import { RegistryDoor } from './registry-door.js';

export const NODES = 6;
/** Two gangs of two Pods run at once; the others wait, which is what prewarming is for. */
export const QUOTA = '4';
export const IMAGE_BYTES = 1_000_000;
/** Pulls of all gangs together; small, so that the limit is reached. */
export const MAX_PULLING = 3;
export const UNSTAMPED_SECONDS = 8;
/** The configuration that every seed begins with. */
export const CONFIG = {
  budgets: { maxPullingNodes: MAX_PULLING, tagRecheckSeconds: 2, unstampedHoldSeconds: UNSTAMPED_SECONDS },
};

export interface Ground {
  cluster: Cluster;
  harbinger: Harbinger;
  door: RegistryDoor;
  /** Configuration of the processes with these fields on top. */
  configure(more?: Record<string, unknown>): void;
}

/** The real control plane, Kueue with its webhooks, fake nodes, and two of each of Harbinger's processes. */
export async function startGround(): Promise<Ground> {
  const cluster = await Cluster.start({
    name: 'chaos-real',
    kueue: { webhooks: true, frameworks: ['batch/job', 'pod'], config: { managedJobsNamespaceSelector: managed } },
    nodes: { fake: { count: NODES, linkMbit: 30, imageReportMs: 1_000, timing: { sync: 2_000, backOff: 2_000 } } },
    say: () => undefined,
  });
  const door = await RegistryDoor.open(cluster.registry.url);
  await cluster.client.apply({
    ...namespace,
    metadata: { name: NS, labels: { ...(namespace.metadata['labels'] as object), 'kueue-managed': 'here' } },
  });
  const registries = [cluster.registry.host, door.host].map((host) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
  const base = { ...CONFIG, registries };
  const harbinger = await cluster.installHarbinger({
    webhookReplicas: 2,
    controllers: 2,
    pullerImage: await pushPuller(cluster),
    config: base,
  });
  await cluster.kueueQueue({
    name: QUEUE,
    namespace: NS,
    quota: { cpu: QUOTA },
    checks: [CHECK],
    clusterQueue: { preemption: { withinClusterQueue: 'LowerPriority' } },
  });
  await cluster.client.create({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'WorkloadPriorityClass',
    metadata: { name: 'urgent' },
    value: 1000,
  });
  return { cluster, harbinger, door, configure: (more = {}) => harbinger.writeConfig({ ...base, ...more }) };
}

const managed = { matchLabels: { 'kueue-managed': 'here' } };

/** Pushes an image behind the door and returns its reference; another seed moves the tag. */
export async function pushBehindDoor({ cluster, door }: Ground, repository: string, seed = repository): Promise<string> {
  const image = await payloadImage({ seed, bytes: IMAGE_BYTES, files: 1, bare: true });
  await push(image, { host: cluster.registry.host, repository, tags: ['v1'] });
  return `${door.host}/${repository}:v1`;
}

export interface GangOptions {
  /** Absent: not opted in. */
  hold?: string | undefined;
  optedIn: boolean;
  seconds: number;
  pods?: number;
  urgent?: boolean;
}

/** A gang whose Pods end by themselves, so that quota comes and goes. */
export function shortGang(name: string, image: string, { hold, optedIn, seconds, pods = 2, urgent = false }: GangOptions): Draft {
  const job = gang(name, image, {
    pods,
    jobAnnotations: optedIn ? prewarm(hold) : {},
    command: ['/pause', 'sleep', String(seconds)],
  });
  if (urgent) Object.assign(job.metadata['labels'] as object, { 'kueue.x-k8s.io/priority-class': 'urgent' });
  // Kueue's webhook suspends it; the Pods of a node that goes are made again and again.
  Object.assign(job['spec'] as object, { backoffLimit: 50 });
  return job;
}

export const jobName = (workload: Raw): string => workload.metadata.ownerReferences?.[0]?.name ?? '';

export async function workloads({ cluster }: Ground): Promise<Raw[]> {
  return cluster.client.list(WORKLOAD, { namespace: NS });
}

/** Runs a write that may find its object gone or changed, or no API server: such things happen to the hands of people too. */
export async function attempt(write: () => Promise<unknown>): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (error instanceof ApiError && [404, 409, 422, 500, 503].includes(error.status)) return false;
    if (error instanceof Error && /ECONNREFUSED|ECONNRESET|socket hang up/.test(error.message)) return false;
    throw error;
  }
}
