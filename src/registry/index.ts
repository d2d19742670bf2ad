import type { HarbingerConfig } from '../config/schema.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';

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

export function createRegistry(_config: Pick<HarbingerConfig, 'registries'>, _deps: RegistryDeps): Registry {
  throw new Error('not yet');
}
