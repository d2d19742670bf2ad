import { expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { tellMode } from '../../../src/config/tell-mode.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { keepLog } from '../kube/fake-clock.js';

test('the mode in force is a metric, and a switch is a line of the log', async () => {
  const listeners: ((config: HarbingerConfig) => void)[] = [];
  const metrics = new Metrics();
  const { log, lines } = keepLog();
  tellMode(
    { current: defaultConfig(), onChange: (listener) => void listeners.push(listener), stop: () => undefined },
    { log, metrics },
  );
  const shown = async (): Promise<string[]> => (await metrics.text()).match(/harbinger_mode\{mode="\w+"\} 1/g) ?? [];
  expect(await shown()).toEqual(['harbinger_mode{mode="On"} 1']);
  for (const mode of ['Observe', 'Observe', 'Off'] as const) listeners[0]?.({ ...defaultConfig(), mode });
  expect(await shown()).toEqual(['harbinger_mode{mode="Off"} 1']);
  expect(lines.map((l) => [l['mode'], l['before']])).toEqual([
    ['Observe', 'On'],
    ['Off', 'Observe'],
  ]);
});
