import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { Settings } from './follow.js';
import type { HarbingerConfig } from './schema.js';

const MODES = ['On', 'Observe', 'Off'] as const satisfies readonly HarbingerConfig['mode'][];

/** Shows the mode in force as a metric and each switch as a line of the log: replicas read their file at different moments. */
export function tellMode(settings: Settings, { log, metrics }: { log: Log; metrics: Metrics }): void {
  const gauge = metrics.gauge('harbinger_mode', 'Mode of the configuration in force: 1 for it, 0 for the others.', {
    mode: MODES,
  });
  let told = settings.current.mode;
  const show = (now: HarbingerConfig['mode']): void => MODES.forEach((mode) => gauge.set({ mode }, mode === now ? 1 : 0));
  show(told);
  settings.onChange(({ mode }) => {
    if (mode !== told) log.warn({ mode, before: told }, 'the mode was switched');
    told = mode;
    show(mode);
  });
}
