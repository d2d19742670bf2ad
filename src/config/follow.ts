import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { loadConfig } from './load.js';
import type { HarbingerConfig } from './schema.js';
import { watchConfig } from './watch.js';

/** The configuration in force. Read `current` at each use; what is copied out of it gets old. */
export interface Settings {
  readonly current: HarbingerConfig;
  onChange(listener: (config: HarbingerConfig) => void): void;
  stop(): void;
}

/** Loads the file, or the defaults when there is none, and follows it. Rejects with ConfigError when it cannot be used at start. */
export async function followConfig(path: string | undefined, { clock, log }: { clock: Clock; log: Log }): Promise<Settings> {
  let current = await loadConfig(path);
  const listeners: ((config: HarbingerConfig) => void)[] = [];
  const take = (config: HarbingerConfig): void => {
    current = config;
    for (const listener of listeners) listener(config);
  };
  const watch = path === undefined ? undefined : watchConfig({ path, current, clock, log, onChange: take });
  return {
    get current() {
      return current;
    },
    onChange: (listener) => void listeners.push(listener),
    stop: () => watch?.stop(),
  };
}
