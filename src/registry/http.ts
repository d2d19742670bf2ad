import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Agent, request } from 'undici';
import type { Dispatcher } from 'undici';
import { clip } from '../api/conditions.js';
import { RegistryError } from '../images/registry-port.js';
import type { Metrics } from '../observe/metrics.js';
import type { Authorities } from './authorities.js';
import { checkLiteral, guardedLookup } from './egress.js';
import type { Resolve, Trust } from './egress.js';
import { explain, tooLarge } from './http-failure.js';

export interface Answer {
  status: number;
  /** Lower-case names; the first value of each. */
  headers: Readonly<Record<string, string>>;
  /** All values of WWW-Authenticate. */
  challenges: readonly string[];
  /** All values of Link. */
  links: readonly string[];
  body: Buffer;
}

/** What a request is for; a label of the metric. */
export type Purpose = 'registry' | 'mirror' | 'token' | 'redirect';

export interface Send {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT';
  url: URL;
  trust: Trust;
  /** Host of the reference, for messages. */
  host: string;
  purpose: Purpose;
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** Longest body that is read, bytes. */
  maxBytes: number;
  signal?: AbortSignal;
  /** Time for this exchange instead of the usual one, milliseconds. */
  timeoutMs?: number;
}

export interface HttpOptions {
  resolve: Resolve;
  /** Time for one exchange, milliseconds. */
  timeoutMs: number;
  userAgent: string;
  metrics: Metrics;
  authorities: Authorities;
}

const CONNECT_TIMEOUT_MS = 3000;
/** Connections per host: a cold cache must not open one for each image of a big cluster. */
const CONNECTIONS = 16;

/** What a registry answered when it named a host for this purpose. */
const NAMED_BY: Readonly<Partial<Record<Purpose, number>>> = { redirect: 307, token: 401 };

const unzip = promisify(gunzip);

/** HTTP with limits on time and size, and with addresses checked as the destination's trust demands. */
export class Http {
  readonly #options: HttpOptions;
  readonly #agents = new Map<string, { agent: Agent; authorities: string | undefined }>();

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** One exchange; redirects are answers. Throws RegistryError. */
  async send(exchange: Send): Promise<Answer> {
    try {
      const answer = await this.#exchange(exchange);
      this.#count(exchange.purpose, String(answer.status));
      return answer;
    } catch (error) {
      this.#count(exchange.purpose, 'error');
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map(({ agent }) => agent.destroy()));
    this.#agents.clear();
  }

  async #exchange({ method = 'GET', url, trust, host, headers, body: sent, maxBytes, signal, ...more }: Send): Promise<Answer> {
    const timeoutMs = more.timeoutMs ?? this.#options.timeoutMs;
    const timeout = AbortSignal.timeout(timeoutMs);
    let received = 0;
    try {
      checkLiteral(url, trust);
      const answer = await request(url, {
        method,
        dispatcher: await this.#agent(trust, host),
        headers: { 'user-agent': this.#options.userAgent, 'accept-encoding': 'identity', ...headers },
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
        ...(sent === undefined ? {} : { body: sent }),
      });
      const flat = firstValues(answer.headers);
      const chunks: Buffer[] = [];
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        received += chunk.length;
        // Leaving the loop destroys the body and its connection, so the rest is never read.
        if (received > maxBytes) throw tooLarge(host, maxBytes, answer.statusCode);
        chunks.push(chunk);
      }
      const body = await decoded(Buffer.concat(chunks), flat['content-encoding'], { host, maxBytes, status: answer.statusCode });
      const [challenges, links] = ['www-authenticate', 'link'].map((name) => allValues(answer.headers[name]));
      return { status: answer.statusCode, headers: flat, challenges: challenges ?? [], links: links ?? [], body };
    } catch (error) {
      const gaveUp = signal?.aborted === true;
      const namedBy = NAMED_BY[more.purpose];
      const at = { host, via: url.host, received, timedOut: timeout.aborted, gaveUp, timeoutMs };
      throw explain(error, { ...at, ...(namedBy === undefined ? {} : { namedBy }) });
    }
  }

  /** Registries may have authorities and address rules of their own; all hosts that are merely named share one agent. */
  async #agent(trust: Trust, host: string): Promise<Agent> {
    const key = trust.listed?.host ?? '';
    const caFile = trust.listed?.caFile;
    const authorities = caFile === undefined ? undefined : await this.#options.authorities.read(caFile, host);
    const known = this.#agents.get(key);
    if (known !== undefined && known.authorities === authorities) return known.agent;
    const agent = new Agent({
      connections: CONNECTIONS,
      headersTimeout: this.#options.timeoutMs,
      bodyTimeout: this.#options.timeoutMs,
      connect: {
        timeout: CONNECT_TIMEOUT_MS,
        lookup: guardedLookup(trust, this.#options.resolve),
        ...(authorities === undefined ? {} : { ca: authorities }),
      },
    });
    this.#agents.set(key, { agent, authorities });
    // Connections that were made under the old authorities end with the requests that are on them.
    known?.agent.close().catch(() => undefined);
    return agent;
  }

  #count(to: Purpose, code: string): void {
    this.#options.metrics
      .counter(
        'harbinger_registry_requests_total',
        'Requests to registries by HTTP status and by what they were for; error means no answer.',
        ['code', 'to'],
      )
      .inc({ code, to });
  }
}

/** `identity` is asked for; a server that compresses anyway is read with the same limit, so a small bomb cannot grow. */
async function decoded(
  body: Buffer,
  encoding: string | undefined,
  { host, maxBytes, status }: { host: string; maxBytes: number; status: number },
): Promise<Buffer> {
  if (encoding === undefined || encoding === 'identity' || body.length === 0) return body;
  const refuse = (cause: string): RegistryError =>
    new RegistryError(`registry ${host} ${cause}`, { outcome: 'registry-error', host, status });
  if (encoding !== 'gzip') throw refuse(`answered in the encoding "${clip(encoding, 40)}" that was not asked for`);
  try {
    return await unzip(body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(host, maxBytes, status);
    throw refuse('sent broken gzip data; see what stands in front of it');
  }
}

function firstValues(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), allValues(value)[0] ?? '']));
}

function allValues(value: string | string[] | undefined): string[] {
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}
