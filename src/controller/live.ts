import { isNotFound } from '../kube/errors.js';
import type { KubePort } from '../kube/port.js';
import { RESOURCE } from '../kube/resources.js';
import type { WorkloadView } from './gang-sources/kueue.js';
import { projectWorkload } from './gang-sources/kueue.js';

/**
 * Reads Workloads from the API server itself, for the one question that no cache may answer: whether Pods of a gang may have begun
 * to come. Undefined where there is no such Workload; rejects with KubeError.
 */
export function workloadReader(
  client: Pick<KubePort, 'get'>,
): (name: { namespace: string; name: string }) => Promise<WorkloadView | undefined> {
  return async (name) => {
    try {
      return projectWorkload(await client.get(RESOURCE.workloads, name));
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  };
}
