/** Failure of one call to the API server. `status` is 0 when no HTTP answer came (timeout, refused, reset). */
export class KubeError extends Error {
  readonly status: number;
  /** `reason` of the server's Status object, or one of `Timeout`, `Unreachable`, `Credentials`, `TooLarge`, `Garbage` made here. */
  readonly reason: string;
  /** How long the server asked us to stay away, in milliseconds. */
  readonly retryAfterMs?: number;
  /** With an expired list: the token with which listing may go on, without the consistency of one snapshot. */
  readonly continueToken?: string;

  constructor(message: string, facts: KubeErrorFacts) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = 'KubeError';
    this.status = facts.status;
    this.reason = facts.reason;
    if (facts.retryAfterMs !== undefined) this.retryAfterMs = facts.retryAfterMs;
    if (facts.continueToken !== undefined) this.continueToken = facts.continueToken;
  }
}

export interface KubeErrorFacts {
  status: number;
  reason: string;
  retryAfterMs?: number | undefined;
  continueToken?: string | undefined;
  cause?: unknown;
}

/** Longest wait that is believed of a Retry-After header: a broken proxy must not silence us for a day. */
const MAX_RETRY_AFTER_MS = 300_000;
const MAX_MESSAGE = 1024;

/** The API server's error object, as far as it is read. */
interface Status {
  kind?: unknown;
  message?: unknown;
  reason?: unknown;
  code?: unknown;
  metadata?: { continue?: unknown };
  details?: { retryAfterSeconds?: unknown };
}

export interface FailedAnswer {
  /** Verb and object: `patch daemonsets.apps harbinger-system/puller-1`. */
  what: string;
  status: number;
  body: string;
  retryAfter?: string | undefined;
  /** Leaves the server's own words out: what it says about a Secret may quote the Secret. */
  quiet?: boolean;
}

/** Turns an answer with an error status into a KubeError; of the body only the fields of a Status object are used. */
export function errorOfAnswer(answer: FailedAnswer): KubeError {
  const status = parseStatus(answer.body);
  return errorOfStatus(status, answer);
}

/** Turns the Status object of an in-band ERROR event into a KubeError. */
export function errorOfStatus(status: unknown, answer: Omit<FailedAnswer, 'body'>): KubeError {
  const read = isStatus(status) ? status : {};
  const code = typeof read.code === 'number' && read.code > 0 ? read.code : answer.status;
  const reason = typeof read.reason === 'string' && read.reason !== '' ? read.reason : `HTTP ${code}`;
  const words = typeof read.message === 'string' && answer.quiet !== true ? `: ${read.message.slice(0, MAX_MESSAGE)}` : '';
  const token = read.metadata?.continue;
  return new KubeError(`${answer.what}: ${code} ${reason}${words}`, {
    status: code,
    reason,
    retryAfterMs: retryAfterMs(answer.retryAfter, read.details?.retryAfterSeconds),
    continueToken: typeof token === 'string' && token !== '' ? token : undefined,
  });
}

function parseStatus(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function isStatus(value: unknown): value is Status {
  return typeof value === 'object' && value !== null && (value as Status).kind === 'Status';
}

/** The header wins; the API server repeats it in the details of the Status. Dates are not used by API servers. */
function retryAfterMs(header: string | undefined, details: unknown): number | undefined {
  const seconds = header !== undefined && /^\d+$/.test(header) ? Number(header) : details;
  return typeof seconds === 'number' && seconds > 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : undefined;
}

const kube =
  (test: (e: KubeError) => boolean) =>
  (e: unknown): e is KubeError =>
    e instanceof KubeError && test(e);

export const isNotFound = kube((e) => e.status === 404);
/** Nothing of this kind is served in this version, which the server says without an object of its own. */
export const isUnserved = kube((e) => e.status === 404 && e.reason === 'HTTP 404');
/** Somebody else wrote first, or a precondition failed; AlreadyExists shares the status but not the meaning. */
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
