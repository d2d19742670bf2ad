import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Agent, request } from 'undici';
import type { Dispatcher } from 'undici';
import { clip } from '../api/conditions.js';
import { RegistryError } from '../images/registry-port.js';
import { checkLiteral, guardedLookup } from './egress.js';
import type { Resolve, Trust } from './egress.js';

export interface Answer {
  status: number;
  /** Lower-case names; the first value of each. */
  headers: Readonly<Record<string, string>>;
  /** All values of WWW-Authenticate. */
  challenges: readonly string[];
  body: Buffer;
}

export interface Get {
  url: URL;
  trust: Trust;
  /** Host of the reference, for messages. */
  host: string;
  headers: Readonly<Record<string, string>>;
  /** Longest body that is read, bytes. */
  maxBytes: number;
  signal?: AbortSignal;
}

export interface HttpOptions {
  resolve: Resolve;
  /** Time for one exchange, milliseconds. */
  timeoutMs: number;
  userAgent: string;
}

const CONNECT_TIMEOUT_MS = 3000;
/** Connections per host: a cold cache must not open one for each image of a big cluster. */
const CONNECTIONS = 16;

const unzip = promisify(gunzip);

/** HTTP GET with limits on time and size, and with addresses checked as the destination's trust demands. */
export class Http {
  readonly #options: HttpOptions;
  readonly #agents = new Map<string, Agent>();

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** One exchange; redirects are answers. Throws RegistryError. */
  async get({ url, trust, host, headers, maxBytes, signal }: Get): Promise<Answer> {
    const timeout = AbortSignal.timeout(this.#options.timeoutMs);
    let received = 0;
    try {
      checkLiteral(url, trust);
      const answer = await request(url, {
        method: 'GET',
        dispatcher: this.#agent(trust, host),
        headers: { 'user-agent': this.#options.userAgent, 'accept-encoding': 'identity', ...headers },
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
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
      return { status: answer.statusCode, headers: flat, challenges: allValues(answer.headers['www-authenticate']), body };
    } catch (error) {
      throw this.#explain(error, { host, via: url.host, received, timedOut: timeout.aborted, gaveUp: signal?.aborted === true });
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#agents.values()].map((agent) => agent.destroy()));
    this.#agents.clear();
  }

  /** Registries may have authorities and address rules of their own; all hosts that are merely named share one agent. */
  #agent(trust: Trust, host: string): Agent {
    const key = trust.listed?.host ?? '';
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const caFile = trust.listed?.caFile;
    const agent = new Agent({
      connections: CONNECTIONS,
      headersTimeout: this.#options.timeoutMs,
      bodyTimeout: this.#options.timeoutMs,
      connect: {
        timeout: CONNECT_TIMEOUT_MS,
        lookup: guardedLookup(trust, this.#options.resolve),
        ...(caFile === undefined ? {} : { ca: readCa(caFile, host) }),
      },
    });
    this.#agents.set(key, agent);
    return agent;
  }

  #explain(
    error: unknown,
    at: { host: string; via: string; received: number; timedOut: boolean; gaveUp: boolean },
  ): RegistryError {
    if (error instanceof RegistryError) return error;
    const { host, via, received } = at;
    const who = via === host ? `registry ${host}` : `registry ${host} (at ${via})`;
    if (at.gaveUp)
      return new RegistryError(`${who} did not answer before the caller gave up`, { outcome: 'budget-exceeded', host });
    const seconds = Math.round(this.#options.timeoutMs / 100) / 10;
    if (at.timedOut)
      return new RegistryError(`${who} did not answer within ${seconds} s; see whether it is overloaded`, {
        outcome: 'registry-error',
        host,
      });
    const cause = rootCause(error);
    return new RegistryError(`${who} ${inWords(cause, received)}`, { outcome: 'registry-error', host });
  }
}

function readCa(caFile: string, host: string): string {
  try {
    return readFileSync(caFile, 'utf8');
  } catch (error) {
    throw new RegistryError(`cannot read caFile ${caFile} of registry ${host}: ${(error as Error).message}`, {
      outcome: 'registry-error',
      host,
    });
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

function tooLarge(host: string, maxBytes: number, status: number): RegistryError {
  const limit = Math.round(maxBytes / 1024);
  return new RegistryError(
    `registry ${host} sent more than ${limit} KiB, which no manifest or token needs; the answer was dropped`,
    { outcome: 'registry-error', host, status },
  );
}

/** undici and the family-racing connect wrap what really happened. */
function rootCause(error: unknown): NodeJS.ErrnoException {
  let cause = error as NodeJS.ErrnoException;
  for (let depth = 0; depth < 4; depth += 1) {
    const inner = cause instanceof AggregateError ? (cause.errors[0] as unknown) : cause.cause;
    if (!(inner instanceof Error)) break;
    cause = inner;
  }
  return cause;
}

/** What to say of an error code; the first that matches. */
const WORDS: readonly (readonly [RegExp, (code: string) => string])[] = [
  [/^ENOTFOUND$|^EAI_/, () => 'cannot be found: its name has no address; check the name and the cluster DNS'],
  [
    /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/,
    (code) => `cannot be reached (${code}); see whether it is up and whether network policies let Harbinger reach it`,
  ],
  [
    /^(UNABLE_TO|SELF_SIGNED|DEPTH_ZERO|CERT_|ERR_TLS_CERT)/,
    (code) => `has a certificate that is not trusted (${code}); set caFile for it under registries`,
  ],
  [/^(EPROTO|ERR_SSL)/, () => 'does not speak TLS; set plainHTTP: true for it under registries if that is right'],
  [/^HPE_/, (code) => `does not speak HTTP (${code}); check host and port`],
];
/** The connection ended early; how it is reported depends on where undici was. */
const CUT = /^(UND_ERR_SOCKET|ECONNRESET|UND_ERR_RES|UND_ERR_ABORTED|HPE_INVALID_EOF_STATE)/;

function inWords({ code: own, name, message }: NodeJS.ErrnoException, received: number): string {
  // undici leaves the code of its parser's errors out where the parser gave none.
  const code = own ?? (name === 'HTTPParserError' ? 'HPE_UNKNOWN' : '');
  if (code === 'HARBINGER_ADDRESS') return `is not asked: ${message}`;
  if (CUT.test(code))
    return received > 0
      ? `cut its answer short after ${received} bytes; see what stands in front of it`
      : 'closed the connection without an answer';
  const words = WORDS.find(([pattern]) => pattern.test(code));
  return words === undefined ? `failed: ${message}${code === '' ? '' : ` (${code})`}` : words[1](code);
}

function firstValues(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), allValues(value)[0] ?? '']));
}

function allValues(value: string | string[] | undefined): string[] {
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}
