import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { parseConfig, readConfig } from './load.js';
import type { HarbingerConfig } from './schema.js';

export interface WatchOptions {
  path: string;
  /** What the process runs with now. */
  current: HarbingerConfig;
  clock: Clock;
  log: Log;
  /** Called once per valid change of what the file says; comments and order are no change. */
  onChange: (config: HarbingerConfig) => void;
  /** Milliseconds between two looks at the file. */
  everyMs?: number;
}

/**
 * Follows the content of a file. It polls: a mounted ConfigMap changes by a swap of symbolic links that file system events do
 * not report. A file that became bad or unreadable leaves the last good configuration in force and is logged once per content.
 */
export function watchConfig(options: WatchOptions): { stop(): void } {
  const { path, clock, log, onChange, everyMs = 5_000 } = options;
  let text: string | undefined;
  let meaning = JSON.stringify(options.current);
  let complaint: string | undefined;
  let stopped = false;

  const look = async (): Promise<void> => {
    try {
      const now = await readConfig(path);
      if (now === text) return;
      text = now;
      const config = parseConfig(now, path);
      complaint = undefined;
      if (JSON.stringify(config) === meaning) return;
      meaning = JSON.stringify(config);
      log.info({ path }, 'configuration changed');
      onChange(config);
    } catch (err) {
      const message = (err as Error).message;
      if (message !== complaint) log.error({ err, path }, 'configuration not taken over, the last good one stays in force');
      complaint = message;
    }
  };
  const turn = (): void => {
    if (stopped) return;
    void look().finally(() => {
      if (!stopped) timer = clock.setTimeout(turn, everyMs);
    });
  };
  let timer = clock.setTimeout(turn, 0);
  return {
    stop(): void {
      stopped = true;
      timer.cancel();
    },
  };
}
