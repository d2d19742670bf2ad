import { INSTALL } from '../../api/names.js';
import { isAlreadyExists, isForbidden, KubeError } from '../../kube/errors.js';
import type { EngineStep } from '../../preheat/backends/daemonset/steps.js';

/** Answers of status 4xx after which the same request may well succeed: expired credentials, a full server, somebody was first. */
const PASSING: ReadonlySet<number> = new Set([401, 404, 408, 409, 410, 429]);

/**
 * The API server's words where it will not have an object as it is: invalid, forbidden, over quota, against a policy. Undefined
 * for every failure that time alone may cure.
 */
export function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof KubeError) || error.status < 400 || error.status >= 500 || PASSING.has(error.status)) return undefined;
  // An edit of a set that somebody has made anew meanwhile; the cache will show that one.
  if (/metadata\.uid/.test(error.message)) return undefined;
  return error.message;
}

/** Whether a failure tells of the API server, or of what it asks, and nothing of what was sent: no answer, or one of which it is the cause. */
export function isOfServer(error: unknown): boolean {
  return !(error instanceof KubeError) || error.status < 400 || error.status >= 500 || [401, 408, 429].includes(error.status);
}

/** Attempts after which a name that is taken is not one that the caches merely have not shown yet. */
const TAKEN_AFTER = 3;

/**
 * The same for a DaemonSet of pullers, with what to do where it stands in the namespace of a tenant.
 * @param at namespace: Harbinger's own; failures: attempts in a row that have failed; inDoubt: whether one of them may have been done
 */
export function refusalOfSet(
  error: unknown,
  { step, failures, inDoubt, namespace: own }: { step: EngineStep; failures: number; inDoubt: boolean; namespace: string },
): string | undefined {
  const { namespace = '', name } = step.do === 'delete' ? step.set : step.object.metadata;
  if (namespace === own) return refusalOf(error);
  if (isAlreadyExists(error) && failures >= TAKEN_AFTER && !inDoubt)
    return `DaemonSet ${namespace}/${name} is there and was not made by Harbinger, or was changed since, so it is left alone; delete it`;
  const words = refusalOf(error);
  // The words of RBAC; those of admission policies and quotas are of other causes.
  if (words === undefined || !isForbidden(error) || !/cannot (create|patch|delete) resource/.test(words)) return words;
  return `${words}; bind ClusterRole ${INSTALL.workloadPullersRole} to service account ${own}/${INSTALL.controller} in namespace ${namespace}`;
}
