import type { Reference } from '../images/reference.js';
import type { ImageConfig, ManifestFact, ReferrersFact } from '../images/registry-port.js';
import type { Egress } from './egress.js';
import type { OwnSource } from './own-credentials.js';
import { senderOf } from './target.js';
import type { HostCall, HostOptions, HostPort } from './target.js';

/**
 * Has Harbinger's own credential at hand before a call takes its turn: a plugin may run for seconds, and whoever waits for it must not
 * hold a slot that others could use.
 */
export class ReadyRegistry implements HostPort {
  readonly #inner: HostPort;
  readonly #egress: Egress;
  readonly #own: OwnSource;

  constructor(inner: HostPort, { egress, own }: { egress: Egress; own: OwnSource }) {
    this.#inner = inner;
    this.#egress = egress;
    this.#own = own;
  }

  manifest(reference: Reference, options: HostOptions = {}): Promise<ManifestFact> {
    return this.#call(reference, options, (o) => this.#inner.manifest(reference, o));
  }

  config(reference: Reference, digest: string, options: HostOptions = {}): Promise<ImageConfig> {
    return this.#call(reference, options, (o) => this.#inner.config(reference, digest, o));
  }

  referrers(reference: Reference, digest: string, options: HostOptions = {}): Promise<ReferrersFact> {
    return this.#call(reference, options, (o) => this.#inner.referrers(reference, digest, o));
  }

  async #call<T>(reference: Reference, options: HostOptions, call: HostCall<T>): Promise<T> {
    const host = options.mirror ?? this.#egress.registry(reference.registry);
    // The source keeps it, so the call finds it there.
    if (host.credential?.exec !== undefined && senderOf(options, host) === 'own') await this.#own.get(host, reference);
    return call(options);
  }
}
