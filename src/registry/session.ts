import type { RegistryConfig } from '../config/schema.js';
import { fingerprint } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { Authorizer } from './auth.js';
import type { AuthRequest } from './auth.js';
import { Authorities } from './authorities.js';
import { apiUrl, resolveAddresses, trustOf } from './egress.js';
import type { Egress, Resolve, Trust } from './egress.js';
import { Http } from './http.js';
import type { Answer, Purpose, Send } from './http.js';
import type { Own, OwnSource } from './own-credentials.js';
import type { RateLimits } from './rate-limit.js';
import { errorOf } from './status.js';
import { askerOf, senderOf } from './target.js';
import type { HostOptions } from './target.js';
import { Warnings } from './warnings.js';

/** The distribution specification lets registries refuse larger manifests. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const MAX_REDIRECTS = 5;
/** One exchange. Longer than an admission waits: the answer then serves the next Pod. */
const TIMEOUT_MS = 8000;
/** One exchange with a mirror: there is another host to ask. */
const MIRROR_TIMEOUT_MS = 2000;

export interface SessionOptions {
  egress: Egress;
  metrics: Metrics;
  clock: Clock;
  log: Log;
  own: OwnSource;
  limits: RateLimits;
  resolve?: Resolve;
  timeoutMs?: number;
}

/** One question to a registry about a repository. */
export interface Ask extends HostOptions {
  reference: Reference;
  /** Below `/v2/<repository>/`, or a whole URL that the registry named. */
  path: string | URL;
  /** What is asked for, for messages. */
  subject: string;
  accept?: string;
  /** Absent for reading. */
  write?: { method: 'POST' | 'PUT'; body?: string; contentType?: string };
}

/** What a registry answered, of any status. */
export interface Reply extends Answer {
  /** Where the answer came from in the end. */
  url: URL;
  /** What to throw if the answer is of no use. */
  failure: () => RegistryError;
}

interface Exchange {
  ask: Ask;
  host: RegistryConfig;
  request: AuthRequest;
}

/** Exchanges with registries: authentication, renewal of credentials that expired, redirects, warnings and limits. */
export class Session {
  readonly #options: SessionOptions;
  readonly #http: Http;
  readonly #auth: Authorizer;
  readonly #warnings: Warnings;

  constructor(options: SessionOptions) {
    const { metrics, clock, log, egress } = options;
    this.#options = options;
    this.#http = new Http({
      resolve: options.resolve ?? resolveAddresses,
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      userAgent: 'harbinger',
      metrics,
      authorities: new Authorities({ clock, log }),
    });
    this.#auth = new Authorizer(egress, this.#http, clock);
    this.#warnings = new Warnings(log);
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  /** Asks and gives whatever answer there is. Throws RegistryError if there is none, or if a credential is refused before it is asked. */
  async ask(ask: Ask): Promise<Reply> {
    const listed = this.#options.egress.registry(ask.reference.registry);
    const host = ask.mirror ?? listed;
    const own = await this.#own(ask, host);
    const first = await this.#attempt(ask, host, own);
    const denied = 'error' in first ? first.error.outcome === 'auth-denied' : first.status === 401 || first.status === 403;
    if (!denied || own.credential === undefined) return settle(first);
    // Tokens of clouds expire within hours, and some registries then answer 403.
    const renewed = await this.#options.own.get(host, ask.reference, true);
    const same = fingerprint(renewed.credential) === fingerprint(own.credential);
    return settle(same || renewed.credential === undefined ? first : await this.#attempt(ask, host, renewed));
  }

  /** What Harbinger alone may read is not told to a Pod where the configuration says so. */
  async #own(ask: Ask, host: RegistryConfig): Promise<Own> {
    const sender = senderOf(ask, host);
    if (sender === 'own') return this.#options.own.get(host, ask.reference);
    return sender === 'not-for-pods' ? { problem: "Harbinger's own is not used for Pods (credential.forPods is false)" } : {};
  }

  /** A denial by a token service is thrown where one by a registry is an answer; here both can be looked at. */
  async #attempt(ask: Ask, host: RegistryConfig, own: Own): Promise<Reply | { error: RegistryError }> {
    const credential = senderOf(ask, host) === 'pod' ? ask.credential : own.credential;
    const request: AuthRequest = {
      registry: host,
      repository: ask.reference.repository,
      actions: ask.write === undefined ? 'pull' : 'pull,push',
      ...(credential === undefined ? {} : { credential }),
      ...(own.problem === undefined ? {} : { problem: own.problem }),
      ...(ask.signal === undefined ? {} : { signal: ask.signal }),
    };
    try {
      return await this.#authenticated({ ask, host, request });
    } catch (error) {
      if (error instanceof RegistryError) return { error };
      throw error;
    }
  }

  /** Sends what the registry is known to ask for, and answers one challenge. */
  async #authenticated(exchange: Exchange): Promise<Reply> {
    const { request } = exchange;
    const tried = await this.#auth.known(request);
    const reply = await this.#follow(exchange, tried);
    if (reply.status !== 401) return reply;
    const header = await this.#auth.answer(request, reply.challenges, tried);
    return header === undefined ? reply : this.#follow(exchange, header);
  }

  async #follow(exchange: Exchange, authorization: string | undefined): Promise<Reply> {
    const { ask, host, request } = exchange;
    let url = this.#firstUrl(ask, host);
    let trust: Trust = url.host === apiUrl(host).host ? trustOf(host) : this.#options.egress.destination(url, host, 'redirect');
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      // The header goes to the registry itself and to no other host: signed URLs break with it, and others must not see it.
      const own = url.host === apiUrl(host).host;
      const purpose: Purpose = !own ? 'redirect' : ask.mirror === undefined ? 'registry' : 'mirror';
      const answer = await this.#http.send({
        ...this.#sending(ask, host),
        url,
        trust,
        purpose,
        headers: headersOf(ask, own ? authorization : undefined),
      });
      if (own) this.#learn(ask, host, answer);
      const location = answer.status >= 300 && answer.status < 400 ? answer.headers['location'] : undefined;
      if (location === undefined || ask.write !== undefined)
        return { ...answer, url, failure: () => failureOf(answer, ask, request) };
      if (!URL.canParse(location, url.href)) break;
      url = new URL(location, url);
      trust = this.#options.egress.destination(url, host, 'redirect');
    }
    throw new RegistryError(`registry ${host.host} redirects without an end; check what stands in front of it`, {
      outcome: 'registry-error',
      host: host.host,
      status: 307,
    });
  }

  #firstUrl({ reference, path, mirror }: Ask, host: RegistryConfig): URL {
    if (path instanceof URL) return path;
    const url = new URL(`/v2/${reference.repository}/${path}`, apiUrl(host));
    // Mirrors of several registries tell them apart by this, as containerd sends it to them.
    if (mirror !== undefined) url.searchParams.set('ns', reference.registry);
    return url;
  }

  #sending({ write, mirror, signal }: Ask, host: RegistryConfig): Pick<Send, 'host' | 'maxBytes'> & Partial<Send> {
    const usual = this.#options.timeoutMs ?? TIMEOUT_MS;
    return {
      host: host.host,
      maxBytes: MAX_MANIFEST_BYTES,
      ...(write === undefined ? {} : { method: write.method, ...(write.body === undefined ? {} : { body: write.body }) }),
      ...(mirror === undefined ? {} : { timeoutMs: Math.min(MIRROR_TIMEOUT_MS, usual) }),
      ...(signal === undefined ? {} : { signal }),
    };
  }

  #learn(ask: Ask, host: RegistryConfig, { headers }: Answer): void {
    this.#warnings.pass(host.host, headers['warning']);
    const shown = senderOf(ask, host) === 'own' ? host.host : undefined;
    this.#options.limits.learn(`${host.host} ${askerOf(ask, host)} `, headers, shown);
  }
}

function headersOf({ accept, write }: Ask, authorization: string | undefined): Record<string, string> {
  return {
    ...(accept === undefined ? {} : { accept }),
    ...(write?.contentType === undefined ? {} : { 'content-type': write.contentType }),
    ...(authorization === undefined ? {} : { authorization }),
  };
}

function failureOf(
  answer: Answer,
  { subject, write }: Ask,
  { registry: { host }, credential, problem }: AuthRequest,
): RegistryError {
  return errorOf(answer, {
    host,
    who: `registry ${host}`,
    anonymous: credential === undefined,
    subject,
    write: write !== undefined,
    ...(problem === undefined ? {} : { problem }),
  });
}

function settle(attempt: Reply | { error: RegistryError }): Reply {
  if ('error' in attempt) throw attempt.error;
  return attempt;
}
