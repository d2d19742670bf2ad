import { KubeError } from '../../../../src/kube/errors.js';

const make =
  (status: number, reason: string) =>
  (message: string): KubeError =>
    new KubeError(`${message}: ${status} ${reason}`, { status, reason });

/** Refusals of the API server, with the status and the reason that the real one gives. */
export const refusal = {
  badRequest: make(400, 'BadRequest'),
  notFound: make(404, 'NotFound'),
  exists: make(409, 'AlreadyExists'),
  conflict: make(409, 'Conflict'),
  expired: make(410, 'Expired'),
  invalid: make(422, 'Invalid'),
} as const;
