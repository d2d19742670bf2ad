import { KubeError } from '../kube/errors.js';

/** Answers of status 4xx after which the same request may well succeed: expired credentials, a full server, somebody was first. */
const PASSING: ReadonlySet<number> = new Set([401, 404, 408, 409, 410, 429]);

/**
 * The API server's words where it will not have an object as it is: invalid, forbidden, over quota, against a policy. Undefined
 * for every failure that time alone may cure.
 */
export function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof KubeError) || error.status < 400 || error.status >= 500 || PASSING.has(error.status)) return undefined;
  return error.message;
}
