import { createHash } from 'node:crypto';
import type { RegistryConfig } from '../config/schema.js';
import { ACCEPT, parseConfig, parseManifest } from '../images/manifest.js';
import { format, isDigest } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type {
  Credential,
  ImageConfig,
  LookupOptions,
  ManifestFact,
  ReferrersFact,
  RegistryPort,
} from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Metrics } from '../observe/metrics.js';
import { Authorizer } from './auth.js';
import { apiUrl, resolveAddresses, trustOf } from './egress.js';
import type { Egress, Resolve, Trust } from './egress.js';
import { Http } from './http.js';
import type { Answer } from './http.js';
import { errorOf } from './status.js';

/** The distribution specification lets registries refuse larger manifests. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const MAX_REDIRECTS = 5;
/** One exchange. Longer than an admission waits: the answer then serves the next Pod. */
const TIMEOUT_MS = 8000;

export interface ClientOptions {
  egress: Egress;
  metrics: Metrics;
  clock: Clock;
  /** Harbinger's own credential for an image. */
  ownCredential: (registry: RegistryConfig, reference: Reference) => Promise<Credential | undefined>;
  resolve?: Resolve;
  timeoutMs?: number;
}

interface Fetch {
  reference: Reference;
  registry: RegistryConfig;
  /** Below `/v2/<repository>/`. */
  path: string;
  /** What is asked for, for messages. */
  subject: string;
  accept: string;
  credential?: Credential;
  signal?: AbortSignal;
}

/** Reads manifests and configs from registries over HTTP. Every failure is a RegistryError. */
export class RegistryClient implements RegistryPort {
  readonly #egress: Egress;
  readonly #http: Http;
  readonly #auth: Authorizer;
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#egress = options.egress;
    this.#http = new Http({
      resolve: options.resolve ?? resolveAddresses,
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      userAgent: 'harbinger',
    });
    this.#auth = new Authorizer(this.#egress, this.#http, options.clock);
  }

  async manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    const wanted = reference.digest ?? reference.tag ?? 'latest';
    const fetch = await this.#prepare(reference, options, {
      path: `manifests/${wanted}`,
      subject: format(reference),
      accept: ACCEPT,
    });
    const answer = await this.#fetch(fetch);
    const digest = verifiedDigest(answer, reference, reference.digest);
    const parsed = parseManifest(answer.body.toString('utf8'), digest, answer.headers['content-type']);
    if (!parsed.ok)
      throw unusable(
        reference,
        `what registry ${reference.registry} sent for ${format(reference)} cannot be used: ${parsed.problem}`,
        answer,
      );
    return parsed.fact;
  }

  async config(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ImageConfig> {
    const fetch = await this.#prepare(reference, options, {
      path: `blobs/${digest}`,
      subject: `config ${digest} of ${format(reference)}`,
      accept: '*/*',
    });
    const answer = await this.#fetch(fetch);
    verifiedDigest({ ...answer, headers: {} }, reference, digest);
    const parsed = parseConfig(answer.body.toString('utf8'));
    if (!parsed.ok) throw unusable(reference, `the config of ${format(reference)} cannot be used: ${parsed.problem}`, answer);
    return parsed.config;
  }

  // The registry is asked once the API is spoken here.
  referrers(): Promise<ReferrersFact> {
    return Promise.resolve({ referrers: [], how: 'unsupported', detail: 'referrers are not read yet' });
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async #prepare(
    reference: Reference,
    { credential, signal }: LookupOptions,
    what: Pick<Fetch, 'path' | 'subject' | 'accept'>,
  ): Promise<Fetch> {
    const registry = this.#egress.registry(reference.registry);
    const used = credential ?? (await this.#options.ownCredential(registry, reference));
    return {
      reference,
      registry,
      ...what,
      ...(used === undefined ? {} : { credential: used }),
      ...(signal === undefined ? {} : { signal }),
    };
  }

  /** Sends what the registry is known to ask for, answers one challenge, follows redirects. */
  async #fetch(fetch: Fetch): Promise<Answer> {
    const { registry, reference, credential, signal } = fetch;
    const request = {
      registry,
      repository: reference.repository,
      ...(credential === undefined ? {} : { credential }),
      ...(signal === undefined ? {} : { signal }),
    };
    const tried = await this.#auth.known(request);
    let answer = await this.#follow(fetch, tried);
    if (answer.status === 401) {
      const header = await this.#auth.answer(request, answer.challenges, tried);
      if (header !== undefined) answer = await this.#follow(fetch, header);
    }
    if (answer.status === 200) return answer;
    throw errorOf(answer, {
      host: registry.host,
      who: `registry ${registry.host}`,
      anonymous: credential === undefined,
      subject: fetch.subject,
    });
  }

  async #follow(fetch: Fetch, authorization: string | undefined): Promise<Answer> {
    const { registry, reference, accept, signal } = fetch;
    let url = new URL(`/v2/${reference.repository}/${fetch.path}`, apiUrl(registry));
    let trust: Trust = trustOf(registry);
    for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
      // The header goes to the registry itself and to no other host: signed URLs break with it, and others must not see it.
      const own = url.host === apiUrl(registry).host && authorization !== undefined;
      const headers = { accept, ...(own ? { authorization } : {}) };
      const answer = await this.#http
        .get({
          url,
          trust,
          host: registry.host,
          headers,
          maxBytes: MAX_MANIFEST_BYTES,
          ...(signal === undefined ? {} : { signal }),
        })
        .catch((error: unknown) => {
          this.#count('error');
          throw error;
        });
      this.#count(String(answer.status));
      const location = answer.status >= 300 && answer.status < 400 ? answer.headers['location'] : undefined;
      if (location === undefined) return answer;
      if (!URL.canParse(location, url.href)) break;
      url = new URL(location, url);
      trust = this.#egress.destination(url, registry, 'redirect');
    }
    throw new RegistryError(`registry ${registry.host} redirects without an end; check what stands in front of it`, {
      outcome: 'registry-error',
      host: registry.host,
      status: 307,
    });
  }

  #count(code: string): void {
    this.#options.metrics
      .counter('harbinger_registry_requests_total', 'Requests to registries by HTTP status; error means no answer.', ['code'])
      .inc({ code });
  }
}

/** The digest of the exact bytes; it must be the one that was asked for and the one that the registry claims. */
function verifiedDigest(answer: Answer, reference: Reference, wanted: string | undefined): string {
  const header = answer.headers['docker-content-digest'];
  const claimed = header !== undefined && isDigest(header) ? header : undefined;
  const hash = (digest: string): string => {
    const algorithm = digest.slice(0, digest.indexOf(':'));
    return `${algorithm}:${createHash(algorithm).update(answer.body).digest('hex')}`;
  };
  const wrong = [wanted, claimed].find((digest) => digest !== undefined && digest !== hash(digest));
  if (wrong === undefined) return wanted ?? claimed ?? hash('sha256:');
  throw unusable(
    reference,
    `registry ${reference.registry} sent other bytes than ${wrong} for ${format(reference)}; the answer is damaged or forged and was dropped`,
    answer,
  );
}

/** An answer came, but nothing can be done with it; its status keeps the breaker out of it. */
function unusable(reference: Reference, message: string, answer: Answer): RegistryError {
  return new RegistryError(message, { outcome: 'registry-error', host: reference.registry, status: answer.status });
}
