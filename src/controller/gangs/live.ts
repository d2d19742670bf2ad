import type { Gang } from '../../gangs/shape.js';
import { gangOfJob } from '../../gangs/job-gang.js';
import { jobKind } from '../../gangs/kinds.js';
import { isNotFound } from '../../kube/errors.js';
import type { KubePort } from '../../kube/port.js';
import { RESOURCE } from '../../kube/resources.js';
import { genericView } from './sources/generic.js';
import type { WorkloadView } from './sources/kueue.js';
import { projectWorkload } from './sources/kueue.js';

/**
 * Reads what tells of a gang (its Workload, or without Kueue its job) from the API server itself, for the one question that no cache
 * may answer: whether its Pods may have begun to come. Undefined where there is no such object; rejects with KubeError.
 */
export function workloadReader(client: Pick<KubePort, 'get'>): (gang: Gang) => Promise<WorkloadView | undefined> {
  return async (gang) => {
    try {
      return gang.source === 'kueue' ? projectWorkload(await client.get(RESOURCE.workloads, gang)) : await readJob(client, gang);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };
}

async function readJob(client: Pick<KubePort, 'get'>, gang: Gang): Promise<WorkloadView | undefined> {
  const kind = jobKind(gang.ref);
  if (kind === undefined) return undefined;
  const version = gang.refApiVersion.split('/').at(-1) ?? '';
  const raw = await client.get({ ...kind, version, namespaced: true }, gang);
  const live = gangOfJob(kind, raw as typeof raw & Record<string, unknown>);
  return live === undefined ? undefined : genericView({ gang: live, resourceVersion: raw.metadata.resourceVersion ?? '' });
}
