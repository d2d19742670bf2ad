import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { Breaker } from './breaker.js';
import { CachedRegistry } from './cache.js';
import type { Egress } from './egress.js';
import { GuardedRegistry } from './guard.js';
import { MirroredRegistry } from './mirrors.js';
import type { OwnSource } from './own-credentials.js';
import type { RateLimits } from './rate-limit.js';
import { ReadyRegistry } from './ready.js';
import { SlottedRegistry } from './slots.js';
import type { SlotLimits } from './slots.js';
import type { HostPort } from './target.js';

export interface LayerParts {
  egress: Egress;
  own: OwnSource;
  limits: RateLimits;
  breaker: Breaker;
  slots: SlotLimits;
  log: Log;
  metrics: Metrics;
  clock: Clock;
}

/** All that stands before the client, from the inside out: turns, credentials, breaker, mirrors, cache. */
export function inLayers(client: HostPort, parts: LayerParts): RegistryPort {
  const { egress, own, limits, breaker, log, metrics, clock } = parts;
  const slotted = new SlottedRegistry(client, { limits: parts.slots, clock, metrics });
  const ready = new ReadyRegistry(slotted, { egress, own });
  const guarded = new GuardedRegistry(ready, { egress, breaker, limits, metrics, clock });
  return new CachedRegistry(new MirroredRegistry(guarded, { egress, log }), { clock, metrics });
}
