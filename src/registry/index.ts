import type { HarbingerConfig } from '../config/schema.js';
import type { ImageConfig, LookupOptions, ManifestFact, RegistryPort } from '../images/registry-port.js';
import type { Reference } from '../images/reference.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { Breaker } from './breaker.js';
import { CachedRegistry } from './cache.js';
import { RegistryClient } from './client.js';
import { Egress } from './egress.js';
import { GuardedRegistry } from './guard.js';
import { OwnCredentials } from './own-credentials.js';

export interface RegistryDeps {
  log: Log;
  metrics: Metrics;
  clock: Clock;
}

/** A registry client with cache, breaker and egress rules in front of it. */
export interface Registry extends RegistryPort {
  /** Closes all connections; calls that are under way fail. */
  close(): Promise<void>;
}

/** Registries as the configuration allows them. Each process makes one; the cache is its memory of all registries. */
export function createRegistry(config: Pick<HarbingerConfig, 'registries'>, { log, metrics, clock }: RegistryDeps): Registry {
  const own = new OwnCredentials(log, clock);
  const egress = new Egress(config.registries);
  const client = new RegistryClient({
    egress,
    metrics,
    clock,
    ownCredential: (registry, reference) => own.get(registry, reference),
  });
  const cached = new CachedRegistry(new GuardedRegistry(client, { egress, breaker: new Breaker(clock), metrics }), {
    clock,
    metrics,
  });
  return {
    manifest: (reference: Reference, options?: LookupOptions): Promise<ManifestFact> => cached.manifest(reference, options),
    config: (reference: Reference, digest: string, options?: LookupOptions): Promise<ImageConfig> =>
      cached.config(reference, digest, options),
    referrers: (reference, digest, options) => cached.referrers(reference, digest, options),
    close: () => client.close(),
  };
}
