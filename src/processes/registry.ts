import type { Settings } from '../config/follow.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { Log } from '../observe/log.js';
import type { Registry } from '../registry/index.js';

/** A changed list of registries makes a new client; what the old one remembers may no longer be allowed. */
export function followRegistry(
  settings: Settings,
  create: (config: HarbingerConfig) => Registry,
  log: Log,
): { readonly current: Registry } {
  let config = settings.current;
  let current = create(config);
  settings.onChange((next) => {
    if (JSON.stringify(next.registries) === JSON.stringify(config.registries)) return;
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
