/** Failure of one call to the API server. `status` is 0 when no HTTP answer came (timeout, refused, reset). */
export class KubeError extends Error {
  readonly status: number;
  /** `reason` of the server's Status object, or one of `Timeout`, `Unreachable`, `TooLarge`, `Garbage` made here. */
  readonly reason: string;
  /** How long the server asked us to stay away, in milliseconds. */
  readonly retryAfterMs?: number;

  constructor(message: string, facts: { status: number; reason: string; retryAfterMs?: number | undefined; cause?: unknown }) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'KubeError';
    this.status = facts.status;
    this.reason = facts.reason;
    if (facts.retryAfterMs !== undefined) this.retryAfterMs = facts.retryAfterMs;
  }
}

const kube = (test: (e: KubeError) => boolean) => (e: unknown): boolean => e instanceof KubeError && test(e);

export const isNotFound = kube((e) => e.status === 404);
/** Somebody else wrote first; AlreadyExists shares the status but not the meaning. */
export const isConflict = kube((e) => e.status === 409 && e.reason !== 'AlreadyExists');
export const isAlreadyExists = kube((e) => e.status === 409 && e.reason === 'AlreadyExists');
/** The resourceVersion or continue token is older than what the server still has. */
export const isExpired = kube((e) => e.status === 410);
export const isTooManyRequests = kube((e) => e.status === 429);
export const isForbidden = kube((e) => e.status === 403);
export const isUnauthorized = kube((e) => e.status === 401);
export const isInvalid = kube((e) => e.status === 422);
/** No HTTP answer: the server is away or the network is; what was cached is still the best knowledge. */
export const isUnreachable = kube((e) => e.status === 0 && (e.reason === 'Unreachable' || e.reason === 'Timeout'));
