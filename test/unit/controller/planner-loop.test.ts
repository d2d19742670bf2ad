import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import { COLLECTED_WITHIN_MS } from '../../../src/controller/pullers/ownerless-pods.js';
import type { PlannerLoopOptions } from '../../../src/controller/pullers/planner-loop.js';
import { PlannerLoop } from '../../../src/controller/pullers/planner-loop.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import { node } from '../placement/nodes.js';
import { pod, puller, T0 } from '../preheat/fixtures.js';

class Ground {
  now = 0;
  pods: PullerPod[] = [];
  readonly told: unknown[] = [];
  readonly loop: PlannerLoop;

  constructor() {
    const nothing = { list: () => [], byIndex: () => [], get: () => undefined, onChange: () => undefined };
    const options: Partial<Record<keyof PlannerLoopOptions, unknown>> = {
      caches: {
        ...{ prewarms: nothing, sets: nothing, rejections: nothing, runtimeClasses: nothing, workloads: nothing },
        nodes: { list: () => [node('n1')], get: () => node('n1') },
        pods: { list: () => this.pods, onChange: () => undefined },
      },
      views: { positions: () => new Map() },
      metrics: { count: () => undefined },
      config: defaultConfig,
      clock: { now: () => T0 + this.now },
      monotonic: () => this.now,
      log: { info: (fields: unknown) => this.told.push(fields), warn: () => undefined, debug: () => undefined },
      namespace: 'harbinger-system',
      program: 'p',
    };
    this.loop = new PlannerLoop(options as unknown as PlannerLoopOptions);
  }

  async after(): Promise<number> {
    return (await this.loop.reconcile()).after ?? Number.POSITIVE_INFINITY;
  }
}

describe('Pods whose DaemonSet is gone', () => {
  test('are planned for when the wait for them ends, and told of once', async () => {
    const ground = new Ground();
    const idle = await ground.after();
    ground.pods = [pod()];
    await ground.after();
    ground.now = COLLECTED_WITHIN_MS - 10_000;
    expect(await ground.after()).toBe(10_000);
    expect(ground.told).toMatchObject([{ puller: `harbinger-system/${puller().hash}` }]);
    ground.now = COLLECTED_WITHIN_MS;
    expect(await ground.after()).toBe(idle);
  });
});
