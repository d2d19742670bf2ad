import type { Settings } from '../config/follow.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { Log } from '../observe/log.js';
import type { Registry } from '../registry/index.js';

const sameRegistries = (a: HarbingerConfig, b: HarbingerConfig): boolean =>
  JSON.stringify(a.registries) === JSON.stringify(b.registries) &&
  a.budgets.maxRegistryCalls === b.budgets.maxRegistryCalls &&
  a.budgets.maxRegistryCallsPerHost === b.budgets.maxRegistryCallsPerHost;

/** A changed list of registries makes a new client; what the old one remembers may no longer be allowed. */
export function followRegistry(
  settings: Settings,
  create: (config: HarbingerConfig) => Registry,
  log: Log,
): { readonly current: Registry } {
  let config = settings.current;
  let current = create(config);
  settings.onChange((next) => {
    if (sameRegistries(next, config)) return;
    const old = current;
    config = next;
    current = create(next);
    old.close().catch((err: unknown) => log.warn({ err }, 'closing the old registry client failed'));
  });
  return {
    get current() {
      return current;
    },
  };
}
