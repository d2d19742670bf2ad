import { describe, expect, test } from '@jest/globals';
import { defaultConfig } from '../../../src/config/load.js';
import type { Action } from '../../../src/controller/actions.js';
import type { WorkloadView } from '../../../src/controller/gangs/sources/kueue.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { LookupUse, Lookups } from '../../../src/controller/images/lookups.js';
import { Guard } from '../../../src/controller/gangs/guard.js';
import { signatureOf } from '../../../src/controller/pullers/planning.js';
import type { Lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import type { PrewarmReconcilerOptions } from '../../../src/controller/prewarm/reconciler.js';
import { PrewarmReconciler } from '../../../src/controller/prewarm/reconciler.js';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { RuntimeClassFacts } from '../../../src/placement/capability.js';
import { FakeClock } from '../kube/fake-clock.js';
import { node } from '../placement/nodes.js';
import { digest, gang, GANG_REF, iso, lookup, prewarm, progress, recorded, resolvedOf, SOURCE, T0 } from './fixtures.js';

const MIXED = [node('a', { labels: { pool: 'arm' }, arch: 'arm64' }), node('b')];
const ON_ARM: RuntimeClassFacts = { name: 'on-arm', nodeSelector: { pool: 'arm' }, tolerations: [] };

const KEY = { key: 'team/p', resourceVersion: '5' };

interface Seen {
  resourceVersion?: string;
  conditions?: string[];
  check?: 'Pending' | 'Ready';
}
function workload({ resourceVersion = '7', conditions = [], check }: Seen = {}): WorkloadView {
  return projectWorkload({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: {
      name: 'w',
      namespace: 'team',
      resourceVersion,
      ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: GANG_REF.name, uid: GANG_REF.uid, controller: true }],
    },
    spec: { queueName: 'gpu' },
    status: {
      conditions: conditions.map((type) => ({ type, status: 'True', lastTransitionTime: iso(T0) })),
      admissionChecks: check === undefined ? [] : [{ name: 'images', state: check }],
    },
  });
}

interface Situation {
  object?: ImagePrewarm;
  lifecycle?: Lifecycle;
  cached?: WorkloadView | undefined;
  live?: (guard: Guard) => Promise<WorkloadView | undefined>;
  write?: () => Promise<unknown>;
  look?: Lookups['look'];
  namespaceLabels?: Record<string, string>;
  /** Why variants on record cannot be used. */
  problems?: ReadonlyMap<string, string>;
}
/** The reconciler among doubles that know one object, warm on all nodes, whose tag has moved from digest a to b. */
function ground({
  object,
  lifecycle = { mayPull: true, keep: true },
  cached = workload({ check: 'Pending' }),
  live,
  write,
  look,
  namespaceLabels,
  problems,
}: Situation) {
  const moving = object ?? prewarm({ targets: recorded() }, { gangRef: GANG_REF });
  const stored = { ...moving, metadata: { ...moving.metadata, uid: 'p-uid', resourceVersion: '5' } };
  const [clock, actions] = [new FakeClock(T0), [] as Action[]];
  const guard = new Guard(() => clock.now());
  const plan = {
    signature: signatureOf(stored),
    generation: stored.metadata.generation,
    lifecycle,
    candidates: { reasons: {}, desired: 3, empty: [] },
    progress: progress(),
    deadlineMs: 1,
    concurrency: 1,
  };
  const options = {
    caches: {
      prewarms: { get: () => stored },
      namespaces: { get: () => ({ labels: namespaceLabels ?? {} }) },
      nodes: { list: () => MIXED },
      runtimeClasses: { get: (name: string) => (name === ON_ARM.name ? ON_ARM : undefined) },
    },
    views: {
      workloadOf: () => (stored.spec.gangRef === undefined ? undefined : cached),
      viewOf: ({ gang: { state }, hold: { checks } }: WorkloadView, _positions: unknown, intended: boolean) =>
        gang({ position: 0, checked: checks.length > 0, checkReady: intended || checks.some((c) => c.state === 'Ready') }, state),
    },
    planner: { planOf: () => plan, positions: new Map() },
    lookups: {
      of: () => new Map(look === undefined ? [[SOURCE, lookup('b')]] : []),
      look: look ?? (() => Promise.resolve()),
      forget: () => undefined,
    },
    variants: { check: () => Promise.resolve(), problems: () => problems ?? new Map(), forget: () => undefined },
    actuator: {
      perform: (action: Action) => {
        actions.push(action);
        return write?.() ?? Promise.resolve({ metadata: { resourceVersion: '6' } });
      },
    },
    events: { event: () => undefined },
    metrics: { wrote: () => undefined },
    log: { info: () => undefined },
    readWorkload: () => live?.(guard) ?? Promise.reject(new Error('not expected to be read')),
    guard,
    config: defaultConfig,
    clock,
  };
  const reconciler = new PrewarmReconciler(options as unknown as PrewarmReconcilerOptions);
  const digests = () =>
    actions
      .flatMap((a) => (a.type === 'write-prewarm-status' ? (a.status.targets ?? []) : []))
      .flatMap((t) => t.images.map((i) => i.digest));
  return { reconcile: () => reconciler.reconcile('team/p'), actions, guard, digests };
}

describe('an image that is looked up', () => {
  const rows: [string, Record<string, string>, ImagePrewarm, boolean][] = [
    [
      'for a gang whose namespace is in scope: for Pods that get it',
      { 'harbinger.dev/accelerate': 'enabled' },
      prewarm({}, { gangRef: GANG_REF }),
      true,
    ],
    [
      'for a gang whose namespace is out of scope: for Pods that run the plain image',
      {},
      prewarm({}, { gangRef: GANG_REF }),
      false,
    ],
    ['for an object made by hand: it does not say whose Pods', {}, prewarm(), true],
  ];
  test.each(rows)('%s', async (_title, namespaceLabels, object, pinned) => {
    const uses: LookupUse[] = [];
    const look: Lookups['look'] = (_key, _prewarm, _needs, use) => (uses.push(use), Promise.resolve());
    await ground({ object, namespaceLabels, look }).reconcile();
    expect(uses.map((u) => u.unpinned === undefined)).toEqual([pinned]);
  });

  const platforms: [string, string | undefined, string[]][] = [
    ['is asked about for the platform of the nodes that the RuntimeClass of its target selects', 'on-arm', ['linux/arm64']],
    ['is asked about for no platform in particular where nodes differ', undefined, []],
  ];
  test.each(platforms)('%s', async (_title, runtimeClassName, expected) => {
    const object = prewarm();
    const targets = object.spec.targets.map((t) => ({ ...t, ...(runtimeClassName && { runtimeClassName }) }));
    const uses: LookupUse[] = [];
    const look: Lookups['look'] = (_key, _prewarm, _needs, use) => (uses.push(use), Promise.resolve());
    await ground({ object: { ...object, spec: { ...object.spec, targets } }, look }).reconcile();
    expect(uses.map((u) => u.platforms)).toEqual([expected]);
  });
});

describe('a record that is about to change', () => {
  const rows: [string, WorkloadView | undefined, string][] = [
    ['positive control: the gang still waits', workload({ check: 'Pending' }), 'b'],
    ['its check is Ready by an earlier write or the watchdog', workload({ resourceVersion: '8', check: 'Ready' }), 'a'],
    ['quota is reserved in a queue without our check', workload({ resourceVersion: '8', conditions: ['QuotaReserved'] }), 'a'],
    ['it was admitted', workload({ resourceVersion: '8', conditions: ['QuotaReserved', 'Admitted'], check: 'Pending' }), 'a'],
    ['the Workload is gone', undefined, 'a'],
  ];
  test.each(rows)('follows what the API server says: %s', async (_title, live, expected) => {
    const { reconcile, digests } = ground({ live: () => Promise.resolve(live) });
    await reconcile();
    expect(digests()).toEqual([digest(expected)]);
  });

  test('does not while the check of the version in the cache is being made Ready', async () => {
    const { reconcile, digests, guard } = ground({});
    guard.lettingGo(workload());
    await reconcile();
    expect(digests()).toEqual([digest('a')]);
  });
  test('keeps the check from becoming Ready before it asks', async () => {
    const seen: boolean[] = [];
    const { reconcile } = ground({ live: (guard) => (seen.push(guard.isChanging(KEY)), Promise.resolve(workload())) });
    await reconcile();
    expect(seen).toEqual([true]);
  });
  test('is not written, and holds nothing up, when the API server cannot be asked', async () => {
    const { reconcile, actions, guard } = ground({
      live: () => Promise.reject(new KubeError('away', { status: 0, reason: 'Timeout' })),
    });
    await expect(reconcile()).rejects.toThrow('away');
    expect(actions).toEqual([]);
    expect(guard.isChanging(KEY)).toBe(false);
  });
});

describe('a variant on record that cannot be used any more', () => {
  const variant = `reg.example.com/train@${digest('f')}`;
  const targets = recorded('b').map((t) => ({
    ...t,
    images: t.images.map((i) => ({ ...i, resolved: variant, outcome: 'accelerated' as const, format: 'nydus' as const })),
  }));
  const object = prewarm({ targets }, { gangRef: GANG_REF });
  const problems = new Map([[SOURCE, 'nodes lack Nydus']]);
  const written = (actions: Action[]) =>
    actions.flatMap((a) => (a.type === 'write-prewarm-status' ? (a.status.targets ?? []) : [])).flatMap((t) => t.images);
  const rows: [string, WorkloadView | undefined][] = [
    ['the gang still waits', workload({ check: 'Pending' })],
    ['it was admitted meanwhile', workload({ resourceVersion: '8', conditions: ['QuotaReserved', 'Admitted'], check: 'Ready' })],
    ['the Workload is gone', undefined],
  ];
  test.each(rows)('gives way to the plain image of the same digest: %s', async (_title, live) => {
    const seen: boolean[] = [];
    const { reconcile, actions } = ground({
      object,
      problems,
      look: () => Promise.resolve(),
      live: (guard) => (seen.push(guard.isChanging(KEY)), Promise.resolve(live)),
    });
    await reconcile();
    expect(written(actions)).toEqual([
      expect.objectContaining({ resolved: resolvedOf('b'), digest: digest('b'), outcome: 'pinned' }),
    ]);
    expect(seen).toEqual([true]);
  });
  test('the control: stays where nothing speaks against it', async () => {
    const { reconcile, actions } = ground({ object });
    await reconcile();
    expect(written(actions)).toEqual([expect.objectContaining({ resolved: variant, outcome: 'accelerated' })]);
  });
});

describe('the mark of a change', () => {
  const live = () => Promise.resolve(workload({ check: 'Pending' }));
  const rows: [string, () => Promise<unknown>, boolean][] = [
    ['stands until the cache shows the new version', () => Promise.resolve({ metadata: { resourceVersion: '6' } }), true],
    ['ends when the write was refused', () => Promise.reject(new KubeError('newer', { status: 409, reason: 'Conflict' })), false],
    ['stands when nobody knows', () => Promise.reject(new KubeError('no answer', { status: 0, reason: 'Timeout' })), true],
    ['ends when there was nothing to change', () => Promise.resolve({ metadata: { resourceVersion: '5' } }), false],
  ];
  test.each(rows)('%s', async (_title, write, stands) => {
    const { reconcile, guard } = ground({ live, write });
    await reconcile().catch(() => undefined);
    expect(guard.isChanging(KEY)).toBe(stands);
  });
});

describe('the time to live of an object made by hand', () => {
  const done = (ttl: number) =>
    prewarm({ targets: recorded(), completionTime: iso(T0 - 10_000) }, { ttlSecondsAfterFinished: ttl });
  test('is waited for, so that it ends even if nothing else happens', async () => {
    expect(await ground({ object: done(13) }).reconcile()).toEqual({ after: 3_000 });
    expect(await ground({ object: done(3_600) }).reconcile()).toEqual({ after: 15_000 });
  });
  test('is waited for when nothing is held any more (retain Never)', async () => {
    const lifecycle = { mayPull: false, keep: false, why: 'Finished' as const };
    expect(await ground({ object: done(3_600), lifecycle }).reconcile()).toEqual({ after: 3_590_000 });
    const { ttlSecondsAfterFinished: _none, ...spec } = done(0).spec;
    expect(await ground({ object: { ...done(0), spec }, lifecycle }).reconcile()).toEqual({});
  });
  test('ends with the object', async () => {
    const { reconcile, actions } = ground({ object: done(10) });
    await reconcile();
    expect(actions).toEqual([{ type: 'delete-prewarm', prewarm: { namespace: 'team', name: 'p', uid: 'p-uid' } }]);
  });
});
