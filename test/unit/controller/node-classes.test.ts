import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { defaultConfig } from '../../../src/config/load.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import type { Action } from '../../../src/controller/actions.js';
import { NodeClassesReconciler } from '../../../src/controller/nodes/node-classes.js';
import { VariantFailures } from '../../../src/controller/images/variant-failures.js';
import { KubeError } from '../../../src/kube/errors.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { RuntimeClassFacts } from '../../../src/placement/capability.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import { encodeNodeClasses, parseNodeClasses } from '../../../src/placement/node-classes.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { node } from '../placement/nodes.js';
import { T0 } from './fixtures.js';

const NYDUS = { format: 'nydus', nodeSelector: { nydus: 'ready' }, heartbeatSeconds: 600, privateImages: false } as const;

interface Start {
  config?: Partial<HarbingerConfig>;
  nodes?: NodeFacts[];
  runtimeClasses?: RuntimeClassFacts[] | undefined;
  before?: NodeClasses;
  getError?: Error;
}

function start({ config = { capabilities: [NYDUS] }, nodes = [node('a', { labels: { nydus: 'ready' } })], ...more }: Start = {}) {
  const [clock, metrics, { log, lines }] = [new FakeClock(T0), new Metrics(), keepLog()];
  const state = { config: { ...defaultConfig(), ...config }, nodes };
  const published: NodeClasses[] = [];
  const failures = new VariantFailures({ clock, metrics, log, leading: () => true });
  const reconciler = new NodeClassesReconciler({
    client: {
      get: <T extends KubeObject>() =>
        more.before === undefined
          ? Promise.reject(more.getError ?? new KubeError('absent', { status: 404, reason: 'NotFound' }))
          : Promise.resolve({ data: encodeNodeClasses(more.before) } as unknown as T),
    },
    caches: {
      nodes: { list: () => state.nodes, hasSynced: true },
      runtimeClasses: {
        list: () => more.runtimeClasses ?? [],
        get: (name: string) => more.runtimeClasses?.find((r) => r.name === name),
        hasSynced: !('runtimeClasses' in more) || more.runtimeClasses !== undefined,
      },
      flavors: { list: () => [] },
    } as unknown as ConstructorParameters<typeof NodeClassesReconciler>[0]['caches'],
    actuator: {
      perform: (action: Action) => {
        if (action.type !== 'publish-node-classes') throw new Error(action.type);
        const view = parseNodeClasses({ data: action.data });
        if (view !== undefined) published.push(view);
        return Promise.resolve(undefined);
      },
    },
    failures,
    config: () => state.config,
    clock,
    log,
    metrics,
    namespace: 'harbinger-system',
  });
  return { clock, state, published, failures, reconciler, lines, metrics };
}

describe('what the leader tells of the nodes', () => {
  test('is published at once, with what each class runs', async () => {
    const { reconciler, published, metrics } = start();
    await reconciler.reconcile();
    expect(published).toMatchObject([
      { publishedAt: T0, classes: [{ formats: ['nydus'], count: 1 }], capabilities: [{ format: 'nydus' }] },
    ]);
    expect(await metrics.text()).toMatch(/^harbinger_node_classes 1$/m);
    expect(await metrics.text()).toContain(`harbinger_node_classes_published_timestamp_seconds ${T0 / 1000}`);
  });
  test('is not written again while it is the same, and once a minute all the same', async () => {
    const { reconciler, published, clock } = start();
    for (let s = 0; s < 60; s += 5) {
      expect((await reconciler.reconcile()).after).toBeLessThanOrEqual(10_000);
      await clock.advance(5_000);
    }
    expect(published).toHaveLength(1);
    await reconciler.reconcile();
    expect(published.map((p) => p.publishedAt)).toEqual([T0, T0 + 60_000]);
  });
  test('is written at once when a node changes', async () => {
    const { reconciler, published, state, clock } = start();
    await reconciler.reconcile();
    state.nodes = [...state.nodes, node('b')];
    await clock.advance(100);
    await reconciler.reconcile();
    expect(published.at(-1)?.classes.map((c) => c.formats)).toEqual([[], ['nydus']]);
  });
  test('changes when the sign of a node grows too old, though nobody wrote', async () => {
    const signed = { ...NYDUS, condition: 'NydusReady' };
    const nodes = [node('a', { labels: { nydus: 'ready' }, conditions: { NydusReady: T0 - 595_000 } })];
    const { reconciler, published, clock } = start({ config: { capabilities: [signed] }, nodes });
    const { after = 0 } = await reconciler.reconcile();
    await clock.advance(after);
    await reconciler.reconcile();
    expect(published.map((p) => p.classes[0]?.formats)).toEqual([['nydus'], []]);
  });

  const modes: [HarbingerConfig['mode'], number][] = [
    ['On', 1],
    ['Observe', 1],
    ['Off', 0],
  ];
  test.each(modes)('in mode %s is published %d times', async (mode, times) => {
    const { reconciler, published } = start({ config: { mode } });
    await reconciler.reconcile();
    expect(published).toHaveLength(times);
  });
});

describe('a capability by RuntimeClass', () => {
  const config = {
    capabilities: [{ format: 'nydus', runtimeClass: 'lazy', heartbeatSeconds: 600, privateImages: false } as const],
  };
  test('counts for the nodes that the class selects', async () => {
    const runtimeClasses = [{ name: 'lazy', nodeSelector: { nydus: 'ready' }, tolerations: [] }];
    const { reconciler, published } = start({ config, runtimeClasses });
    await reconciler.reconcile();
    expect(published).toMatchObject([
      { classes: [{ formats: ['nydus'] }], tracked: expect.arrayContaining(['nydus']), notes: [] },
    ]);
  });
  test('whose class does not exist is told, in the object and once in the log', async () => {
    const { reconciler, published, lines, clock } = start({ config });
    await reconciler.reconcile();
    await clock.advance(60_000);
    await reconciler.reconcile();
    expect(published[0]?.notes).toEqual([expect.stringContaining('RuntimeClass lazy does not exist')]);
    expect(lines.filter((l) => l['notes'] !== undefined)).toHaveLength(1);
  });
  test('is waited for: before RuntimeClasses are known nothing is said', async () => {
    const { reconciler, published } = start({ config, runtimeClasses: undefined });
    expect(await reconciler.reconcile()).toEqual({ after: 1_000 });
    expect(published).toEqual([]);
  });
  test('the control: without such a capability it does not wait for them', async () => {
    const { reconciler, published } = start({ runtimeClasses: undefined });
    await reconciler.reconcile();
    expect(published).toHaveLength(1);
  });
});

describe('a new leader', () => {
  const until = T0 + 60_000;
  const before: NodeClasses = {
    publishedAt: T0 - 1,
    tracked: [],
    classes: [],
    capabilities: [],
    notes: [],
    quarantined: [{ namespace: 'team', variant: 'v', reason: 'ImageNotFound', message: 'gone', until }],
  };
  test('keeps the quarantine of the one before, until its time is over', async () => {
    const { reconciler, published, clock } = start({ before });
    await reconciler.reconcile();
    expect(published[0]?.quarantined).toEqual(before.quarantined);
    await clock.advance(60_000);
    await reconciler.reconcile();
    expect(published[1]?.quarantined).toEqual([]);
  });
  test('writes nothing while it cannot read what that was', async () => {
    const { reconciler, published } = start({ getError: new KubeError('busy', { status: 503, reason: 'ServiceUnavailable' }) });
    await expect(reconciler.reconcile()).rejects.toThrow('busy');
    expect(published).toEqual([]);
  });
});
