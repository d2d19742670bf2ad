import { RegistryError } from '../images/registry-port.js';
import type { Answer } from './http.js';

export interface Asked {
  host: string;
  /** Who answered, for messages. */
  who: string;
  /** No credential was sent. */
  anonymous: boolean;
  /** What was asked for; absent for tokens. */
  subject?: string;
  /** Something was to be written. */
  write?: boolean;
  /** Why there is no credential although the configuration names a source of one. */
  problem?: string;
}

/** What an answer that is no success means. Bodies are not quoted: they may be of any size and hold anything. */
export function errorOf(answer: Answer, asked: Asked): RegistryError {
  const { status } = answer;
  const { host, who, subject } = asked;
  if (status === 404 && subject !== undefined)
    return new RegistryError(`${who} has no ${subject}; check repository, tag and digest`, {
      outcome: 'variant-missing',
      host,
      status,
    });
  if (status === 401 || status === 403) {
    const what = asked.write === true ? `writing to ${subject}` : 'access';
    return new RegistryError(`${who} denied ${what} (${status}) ${whyDenied(asked)}`, {
      outcome: 'auth-denied',
      host,
      status,
    });
  }
  if (status === 429) {
    const askedMs = retryAfter(answer);
    const asks = askedMs === undefined ? '' : ` and asks to be left alone for ${Math.ceil(askedMs / 1000)} s`;
    return new RegistryError(`${who} limits requests (429)${asks}; a credential or a mirror may help`, {
      outcome: 'registry-error',
      host,
      status,
      ...(askedMs === undefined ? {} : { retryAfterMs: askedMs }),
    });
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

function whyDenied({ anonymous, problem, write }: Asked): string {
  if (!anonymous)
    return `with the credential given: see whether it is valid and may ${write === true ? 'push to' : 'read'} this repository`;
  if (problem !== undefined) return `without a credential, because there is none to use: ${problem}`;
  return 'without a credential: give Harbinger one under registries, or the Pod a pull secret';
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
