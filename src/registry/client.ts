import { ACCEPT, parseConfig, parseManifest } from '../images/manifest.js';
import { format } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { ImageConfig, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import type { Log } from '../observe/log.js';
import type { Answer } from './http.js';
import { ReferrersReader } from './referrers.js';
import { Session } from './session.js';
import type { Ask, Reply, SessionOptions } from './session.js';
import type { HostOptions, HostPort } from './target.js';
import { verifiedDigest } from './verify.js';

export type ClientOptions = SessionOptions;

/** Reads manifests, configs and referrers from registries over HTTP. Every failure is a RegistryError. */
export class RegistryClient implements RegistryPort, HostPort {
  readonly session: Session;
  readonly #referrers: ReferrersReader;
  readonly #log: Log;

  constructor(options: ClientOptions) {
    this.session = new Session(options);
    this.#log = options.log;
    this.#referrers = new ReferrersReader(this.session, options.clock);
  }

  async manifest(reference: Reference, options: HostOptions = {}): Promise<ManifestFact> {
    const wanted = reference.digest ?? reference.tag ?? 'latest';
    const subject = format(reference);
    const answer = await this.#fetch({ ...options, reference, path: `manifests/${wanted}`, subject, accept: ACCEPT });
    const digest = this.#verified(answer, reference, reference.digest);
    const parsed = parseManifest(answer.body.toString('utf8'), digest, answer.headers['content-type']);
    if (parsed.ok) return parsed.fact;
    throw unusable(
      reference,
      `what registry ${reference.registry} sent for ${subject} cannot be used: ${parsed.problem}`,
      answer,
    );
  }

  async config(reference: Reference, digest: string, options: HostOptions = {}): Promise<ImageConfig> {
    const subject = `config ${digest} of ${format(reference)}`;
    const answer = await this.#fetch({ ...options, reference, path: `blobs/${digest}`, subject, accept: '*/*' });
    this.#verified({ ...answer, headers: {} }, reference, digest);
    const parsed = parseConfig(answer.body.toString('utf8'));
    if (parsed.ok) return parsed.config;
    throw unusable(reference, `the config of ${format(reference)} cannot be used: ${parsed.problem}`, answer);
  }

  referrers(reference: Reference, digest: string, options: HostOptions = {}): Promise<ReferrersFact> {
    return this.#referrers.read(reference, digest, options);
  }

  close(): Promise<void> {
    return this.session.close();
  }

  /** Bytes that are not those of their digest may be an attack, so somebody has to hear of it. */
  #verified(answer: Answer, reference: Reference, wanted: string | undefined): string {
    try {
      return verifiedDigest(answer, reference, wanted);
    } catch (error) {
      this.#log.warn(
        { err: error, security: true, image: format(reference) },
        'a registry sent other bytes than a digest promises',
      );
      throw error;
    }
  }

  async #fetch(ask: Ask): Promise<Reply> {
    const reply = await this.session.ask(ask);
    if (reply.status === 200) return reply;
    throw reply.failure();
  }
}

/** An answer came, but nothing can be done with it; its status keeps the breaker out of it. */
function unusable(reference: Reference, message: string, answer: Reply): RegistryError {
  return new RegistryError(message, { outcome: 'registry-error', host: reference.registry, status: answer.status });
}
