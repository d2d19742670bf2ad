import type { FailureReason } from '../api/reasons.js';
import { RegistryError } from './registry-port.js';
import type { RegistryOutcome } from './registry-port.js';

export interface Failure {
  outcome: RegistryOutcome;
  reason: FailureReason;
  message: string;
  notFound: boolean;
  retryAfterMs?: number;
}

/** What a failed registry call means. Anything that is not a RegistryError counts as one without an answer: doubt leaves images alone. */
export function failureOf(error: unknown): Failure {
  if (error instanceof RegistryError) {
    const { outcome, message, notFound, retryAfterMs } = error;
    const reason: FailureReason = notFound ? 'ImageNotFound' : outcome === 'auth-denied' ? 'AuthDenied' : 'RegistryError';
    return { outcome, reason, message, notFound, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  const cause = error instanceof Error ? error : new Error(String(error));
  const outcome = cause.name === 'AbortError' || cause.name === 'TimeoutError' ? 'budget-exceeded' : 'registry-error';
  return { outcome, reason: 'RegistryError', message: cause.message, notFound: false };
}
