import type { Reference } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { ImageConfig, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';
import type { Metrics } from '../observe/metrics.js';
import type { Breaker } from './breaker.js';
import type { Egress } from './egress.js';
import type { RateLimits } from './rate-limit.js';
import type { HostOptions, HostPort } from './target.js';

export interface GuardOptions {
  egress: Egress;
  breaker: Breaker;
  limits: RateLimits;
  metrics: Metrics;
}

/** Puts the breaker in front of each host: those that fail or limit are not asked for a while, and the answer says since when and why. */
export class GuardedRegistry implements RegistryPort, HostPort {
  readonly #inner: HostPort;
  readonly #options: GuardOptions;

  constructor(inner: HostPort, options: GuardOptions) {
    this.#inner = inner;
    this.#options = options;
  }

  manifest(reference: Reference, options: HostOptions = {}): Promise<ManifestFact> {
    return this.#call(reference, options, () => this.#inner.manifest(reference, options));
  }

  config(reference: Reference, digest: string, options: HostOptions = {}): Promise<ImageConfig> {
    return this.#call(reference, options, () => this.#inner.config(reference, digest, options));
  }

  referrers(reference: Reference, digest: string, options: HostOptions = {}): Promise<ReferrersFact> {
    return this.#call(reference, options, () => this.#inner.referrers(reference, digest, options));
  }

  async #call<T>({ registry }: Reference, { mirror }: HostOptions, call: () => Promise<T>): Promise<T> {
    // First, so that hosts which tenants make up get neither a breaker nor a metric.
    this.#options.egress.registry(registry);
    const host = mirror?.host ?? registry;
    const refused = this.#options.limits.wait(host) ?? this.#options.breaker.enter(host);
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
      this.#options.breaker.succeed(host);
      return value;
    } catch (error) {
      this.#learn(host, error, mirror !== undefined);
      throw error;
    } finally {
      this.#show(host);
    }
  }

  /** An answer of any kind closes the breaker; a caller that gave up, or one that was not let through, says nothing about the host. */
  #learn(host: string, error: unknown, isMirror: boolean): void {
    const { breaker } = this.#options;
    if (!(error instanceof RegistryError) || error.outcome === 'budget-exceeded' || error.outcome === 'circuit-open')
      breaker.abandon(host);
    else if (isHostFailure(error)) {
      const askedMs = error.retryAfterMs === undefined ? {} : { askedMs: error.retryAfterMs };
      breaker.fail(host, { cause: error.message, atOnce: isMirror || error.status === 429, ...askedMs });
    } else breaker.succeed(host);
  }

  #show(host: string): void {
    const help = 'Whether requests to a listed registry or a mirror are let through: 0 closed, 1 half-open, 2 open.';
    const value = { closed: 0, 'half-open': 1, open: 2 }[this.#options.breaker.state(host)];
    this.#options.metrics.gauge('harbinger_registry_breaker_state', help, ['host']).set({ host }, value);
  }
}

/** One image that is unusable says nothing of its registry: else a tenant could name five of those and cut off everyone. */
function isHostFailure({ outcome, status }: RegistryError): boolean {
  return outcome === 'registry-error' && (status === undefined || status === 429 || status >= 500);
}
