import type { ClusterClient, Raw } from '../test/cluster/client.js';
import type { DemoImages } from './images.js';
import type { Kubectl } from './kubectl.js';
import type { Narrator } from './narrator.js';
import type { Observer } from './observer.js';
import { NAMESPACE } from './settings.js';
import type { Settings } from './settings.js';
import { ownerOf } from './gang-times.js';
import type { Seen } from './gang-times.js';

/** What every act of the demo plays on. */
export interface Stage {
  settings: Settings;
  client: ClusterClient;
  observer: Observer;
  narrator: Narrator;
  images: DemoImages;
  kubectl: Kubectl;
  /** Bytes that the registry's link has carried so far. */
  linkBytes: () => Promise<number>;
}

/** The Workload that Kueue made for a Job. */
export function workloadOf(stage: Stage, job: string): Raw | undefined {
  return stage.observer.list('workloads').find((w) => ownerOf(w as Seen) === job);
}

export function podsOf(stage: Stage, job: string): Seen[] {
  return (stage.observer.list('pods') as Seen[]).filter((p) => p.metadata.namespace === NAMESPACE && ownerOf(p) === job);
}

/** Deletes a Job and waits until its Pods and its Workload are gone, so that the next act begins with free nodes and quota. */
export async function removeJob(stage: Stage, job: string, timeoutMs: number): Promise<void> {
  await stage.client.delete('batch/v1/Job', `${NAMESPACE}/${job}`, { propagationPolicy: 'Background' });
  await stage.observer.wait({
    what: `Pods and Workload of Job ${job} to be gone`,
    probe: () => podsOf(stage, job).length === 0 && workloadOf(stage, job) === undefined,
    timeoutMs,
    last: () => ({ pods: podsOf(stage, job).map(brief), workload: brief(workloadOf(stage, job)) }),
  });
}

/** The part of an object that tells why it is not yet as expected. */
export function brief(object: Raw | Seen | undefined): unknown {
  if (object === undefined) return 'does not exist';
  return { name: object.metadata.name, node: object.spec?.nodeName, status: object.status };
}
