import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import type { Metrics } from '../observe/metrics.js';
import type { Breaker } from './breaker.js';
import type { Egress } from './egress.js';

/** Puts the breaker in front of a registry: hosts that fail are not asked for a while, and the answer says since when and why. */
export class GuardedRegistry implements RegistryPort {
  readonly #inner: RegistryPort;
  readonly #egress: Egress;
  readonly #breaker: Breaker;
  readonly #metrics: Metrics;

  constructor(inner: RegistryPort, { egress, breaker, metrics }: { egress: Egress; breaker: Breaker; metrics: Metrics }) {
    this.#inner = inner;
    this.#egress = egress;
    this.#breaker = breaker;
    this.#metrics = metrics;
  }

  manifest(reference: Reference, options?: LookupOptions): Promise<ManifestFact> {
    return this.#call(reference.registry, () => this.#inner.manifest(reference, options));
  }

  config(reference: Reference, digest: string, options?: LookupOptions): Promise<ImageConfig> {
    return this.#call(reference.registry, () => this.#inner.config(reference, digest, options));
  }

  referrers(reference: Reference, digest: string, options?: LookupOptions): Promise<ReferrersFact> {
    return this.#call(reference.registry, () => this.#inner.referrers(reference, digest, options));
  }

  async #call<T>(host: string, call: () => Promise<T>): Promise<T> {
    // First, so that hosts which tenants make up get neither a breaker nor a metric.
    this.#egress.registry(host);
    const refused = this.#breaker.enter(host);
    if (refused !== undefined) {
      const seconds = Math.ceil(refused.waitMs / 1000);
      throw new RegistryError(`registry ${host} is left alone for ${seconds} s more: ${refused.cause}`, {
        outcome: 'circuit-open',
        host,
        retryAfterMs: refused.waitMs,
      });
    }
    try {
      const value = await call();
      this.#breaker.succeed(host);
      return value;
    } catch (error) {
      this.#learn(host, error);
      throw error;
    } finally {
      this.#show(host);
    }
  }

  /** An answer of any kind closes the breaker; a caller that gave up says nothing about the host. */
  #learn(host: string, error: unknown): void {
    if (!(error instanceof RegistryError) || error.outcome === 'budget-exceeded') this.#breaker.abandon(host);
    else if (isHostFailure(error)) this.#breaker.fail(host, error.message, error.retryAfterMs);
    else this.#breaker.succeed(host);
  }

  #show(host: string): void {
    const help = 'Whether requests to a listed registry are let through: 0 closed, 1 half-open, 2 open.';
    const value = { closed: 0, 'half-open': 1, open: 2 }[this.#breaker.state(host)];
    this.#metrics.gauge('harbinger_registry_breaker_state', help, ['host']).set({ host }, value);
  }
}

/** One image that is unusable says nothing of its registry: else a tenant could name five of those and cut off everyone. */
function isHostFailure({ outcome, status }: RegistryError): boolean {
  return outcome === 'registry-error' && (status === undefined || status === 429 || status >= 500);
}
