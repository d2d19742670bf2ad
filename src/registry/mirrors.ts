import type { Reference } from '../images/reference.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import { RegistryError } from '../images/registry-port.js';
import type { Log } from '../observe/log.js';
import type { Egress } from './egress.js';
import type { HostCall, HostPort } from './target.js';

/**
 * Asks the mirrors of a registry before the registry itself, in the order of the configuration. What one host answers is the answer;
 * any failure leads to the next. A digest is verified whoever sends it, so a mirror can withhold an image and not replace one.
 */
export class MirroredRegistry implements RegistryPort {
  readonly #inner: HostPort;
  readonly #egress: Egress;
  readonly #log: Log;

  constructor(inner: HostPort, { egress, log }: { egress: Egress; log: Log }) {
    this.#inner = inner;
    this.#egress = egress;
    this.#log = log;
  }

  manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    return this.#call(reference, options, (o) => this.#inner.manifest(reference, o));
  }

  config(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ImageConfig> {
    return this.#call(reference, options, (o) => this.#inner.config(reference, digest, o));
  }

  /** Mirrors seldom keep referrers: one that knows of none is no proof that there are none. */
  referrers(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ReferrersFact> {
    return this.#call(
      reference,
      options,
      (o) => this.#inner.referrers(reference, digest, o),
      ({ referrers }) => referrers.length > 0,
    );
  }

  async #call<T>(
    { registry }: Reference,
    options: LookupOptions,
    call: HostCall<T>,
    suffices: (answer: T) => boolean = () => true,
  ): Promise<T> {
    // The registry itself has to be allowed: a mirror of it is no way around that.
    const listed = this.#egress.mirrors(this.#egress.registry(registry));
    // A mirror has credentials of its own: what it shows to everyone its registry may not.
    const mirrors = options.anonymous === true ? [] : listed;
    for (const mirror of mirrors) {
      try {
        const answer = await call({ ...options, mirror });
        if (suffices(answer)) return answer;
      } catch (error) {
        // A mirror that has no turn to give is no reason to leave its registry unasked; a caller that left is.
        if (!(error instanceof RegistryError) || options.signal?.aborted === true) throw error;
        this.#log.debug({ registry, mirror: mirror.host, problem: error.message }, 'a mirror did not serve');
      }
    }
    return call(options);
  }
}
