import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import { PrewarmMetrics } from '../../../src/controller/metrics.js';
import { Metrics } from '../../../src/observe/metrics.js';

const AT = '2026-01-01T00:00:00Z';

function status(
  ready: string,
  nodes: Partial<NonNullable<ImagePrewarmStatus['nodes']>>,
  extra: Partial<ImagePrewarmStatus> = {},
): ImagePrewarmStatus {
  return {
    conditions: [{ type: 'Ready', status: 'False', reason: ready, message: '', lastTransitionTime: AT }],
    nodes: { desired: 0, warm: 0, pulling: 0, pending: 0, failed: 0, ...nodes },
    ...extra,
  };
}

const prewarm = (s?: ImagePrewarmStatus): ImagePrewarm => ({ status: s }) as ImagePrewarm;

const released = (reason: string): Partial<ImagePrewarmStatus> => ({
  conditions: [{ type: 'Released', status: 'True', reason, message: '', lastTransitionTime: AT }],
});

describe('metrics of prewarms', () => {
  test('nodes and prewarms are counted anew each time, and served gangs want no nodes', async () => {
    const metrics = new Metrics();
    const prewarms = new PrewarmMetrics(metrics);
    prewarms.count(
      [prewarm(status('PullingImages', { warm: 2, pulling: 1 })), prewarm(status('Finished', { warm: 9 })), prewarm()],
      7,
    );
    const text = await metrics.text();
    expect(text).toContain('harbinger_prewarm_nodes{state="warm"} 2');
    expect(text).toContain('harbinger_prewarm_nodes{state="pulling"} 1');
    expect(text).toContain('harbinger_prewarms{reason="PullingImages"} 1');
    expect(text).toContain('harbinger_prewarms{reason="Pending"} 1');
    expect(text).toContain('harbinger_pulls_in_flight 7');
    prewarms.count([], 0);
    expect(await metrics.text()).toContain('harbinger_prewarm_nodes{state="warm"} 0');
  });

  test('a release and the time to warm count once, when they are first written', async () => {
    const metrics = new Metrics();
    const prewarms = new PrewarmMetrics(metrics);
    const warm = { ...released('WarmVerified'), startTime: AT, completionTime: '2026-01-01T00:00:40Z' };
    prewarms.wrote({ startTime: AT }, warm);
    prewarms.wrote(warm, warm);
    const text = await metrics.text();
    expect(text).toContain('harbinger_gangs_released_total{reason="WarmVerified"} 1');
    expect(text).toContain('harbinger_gangs_released_total{reason="Hopeless"} 0');
    expect(text).toContain('harbinger_prewarm_duration_seconds_sum 40');
    expect(text).toContain('harbinger_prewarm_duration_seconds_count 1');
  });
});
