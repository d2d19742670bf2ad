import type { HarbingerConfig } from '../config/schema.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import { Breaker } from './breaker.js';
import { RegistryClient } from './client.js';
import { Egress } from './egress.js';
import { inLayers } from './layers.js';
import { OwnCredentials } from './own-credentials.js';
import { ReferrerPusher } from './push.js';
import type { RegistryWriter } from './push.js';
import { RateLimits } from './rate-limit.js';

export interface RegistryDeps {
  log: Log;
  metrics: Metrics;
  clock: Clock;
}

/** Registries with cache, mirrors, breaker and egress rules in front of them; what is written goes to the registry at once. */
export interface Registry extends RegistryPort, RegistryWriter {
  /** Closes all connections; calls that are under way fail. */
  close(): Promise<void>;
}

/** Registries as the configuration allows them. Each process makes one; the cache is its memory of all registries. */
export function createRegistry(
  config: Pick<HarbingerConfig, 'registries'> & Partial<Pick<HarbingerConfig, 'budgets'>>,
  deps: RegistryDeps,
): Registry {
  const { log, metrics, clock } = deps;
  const egress = new Egress(config.registries);
  const limits = new RateLimits({ clock, metrics });
  const own = new OwnCredentials(log, clock);
  const client = new RegistryClient({ egress, limits, metrics, clock, log, own });
  const { maxRegistryCalls: total = 128, maxRegistryCallsPerHost: perHost = 16 } = config.budgets ?? {};
  const slots = { total, perHost };
  const cached = inLayers(client, { egress, own, limits, breaker: new Breaker(clock), slots, log, metrics, clock });
  const pusher = new ReferrerPusher(client.session);
  return {
    manifest: (reference, options) => cached.manifest(reference, options),
    config: (reference, digest, options) => cached.config(reference, digest, options),
    referrers: (reference, digest, options) => cached.referrers(reference, digest, options),
    pushReferrer: (reference, manifest, credential) => pusher.pushReferrer(reference, manifest, credential),
    close: () => client.close(),
  };
}
