import { RegistryError } from '../images/registry-port.js';
import type { Answer } from './http.js';

/** A registry that limits without saying for how long is left alone for this time. */
const DEFAULT_RETRY_MS = 10_000;

export interface Asked {
  host: string;
  /** Who answered, for messages. */
  who: string;
  /** No credential was sent. */
  anonymous: boolean;
  /** What was asked for; absent for tokens. */
  subject?: string;
}

/** What an answer that is no success means. Bodies are not quoted: they may be of any size and hold anything. */
export function errorOf(answer: Answer, { host, who, anonymous, subject }: Asked): RegistryError {
  const { status } = answer;
  if (status === 404 && subject !== undefined)
    return new RegistryError(`${who} has no ${subject}; check repository, tag and digest`, {
      outcome: 'variant-missing',
      host,
      status,
    });
  if (status === 401 || status === 403) {
    const why = anonymous
      ? 'without a credential: give Harbinger one under registries, or the Pod a pull secret'
      : 'with the credential given: see whether it is valid and may read this repository';
    return new RegistryError(`${who} denied access (${status}) ${why}`, { outcome: 'auth-denied', host, status });
  }
  if (status === 429) {
    const retryAfterMs = retryAfter(answer) ?? DEFAULT_RETRY_MS;
    return new RegistryError(
      `${who} limits requests (429); it is left alone for ${Math.ceil(retryAfterMs / 1000)} s, a credential may raise the limit`,
      { outcome: 'registry-error', host, status, retryAfterMs },
    );
  }
  const retryAfterMs = status === 503 ? retryAfter(answer) : undefined;
  const advice = status >= 500 ? 'see its own logs' : 'check that host and port are those of a registry';
  return new RegistryError(`${who} answered ${status}; ${advice}`, {
    outcome: 'registry-error',
    host,
    status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

/** Milliseconds to wait: seconds or a date in Retry-After (relative to the server's own Date), or Docker Hub's X-Retry-After (epoch). */
export function retryAfter({ headers }: Pick<Answer, 'headers'>): number | undefined {
  const value = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const sent = Date.parse(headers['date'] ?? '');
  if (Number.isNaN(sent)) return undefined;
  const epoch = headers['x-retry-after']?.trim() ?? '';
  const until = /^\d{1,12}$/.test(epoch) ? Number(epoch) * 1000 : Date.parse(value);
  return Number.isNaN(until) ? undefined : Math.max(0, until - sent);
}
