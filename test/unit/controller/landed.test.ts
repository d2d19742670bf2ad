import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import { defaultConfig } from '../../../src/config/load.js';
import { GangPods } from '../../../src/controller/nodes/landed.js';
import type { EventInput } from '../../../src/kube/events.js';
import type { ChangeHandler } from '../../../src/kube/reflector.js';
import { Metrics } from '../../../src/observe/metrics.js';
import type { PodUse } from '../../../src/placement/usage.js';
import type { PullerPod } from '../../../src/preheat/evidence.js';
import { pullerOf } from '../../../src/preheat/puller.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { node } from '../placement/nodes.js';
import { iso, prewarm, recorded, resolvedOf, SOURCE, T0 } from './fixtures.js';

const HASH = pullerOf(resolvedOf('a'))?.hash ?? '';
const known = (since: number) => [
  { type: 'TargetsResolved', status: 'True' as const, reason: 'Resolved', message: '', lastTransitionTime: iso(since) },
];
const puller = (on: string, change: Partial<PullerPod> = {}): PullerPod => ({
  namespace: 'harbinger-system',
  name: `p-${on}`,
  uid: 'u',
  hash: HASH,
  ownerUid: 'ds',
  node: on,
  image: resolvedOf('a'),
  createdAt: T0,
  deleting: false,
  phase: 'Running',
  gates: [],
  container: { runningSince: T0, started: true, hasRun: true, restarts: 0 },
  ...change,
});

interface World {
  prewarm?: ImagePrewarm;
  pullers?: PullerPod[];
  config?: Partial<HarbingerConfig>;
  labels?: Record<string, string>;
  leading?: boolean;
}

/** What was counted after these changes of one Pod. */
async function counted(changes: (PodUse | undefined)[], world: World = {}) {
  const object = world.prewarm ?? prewarm({ targets: recorded(), conditions: known(T0 - 60_000) });
  const owned = {
    ...object.metadata,
    uid: 'ipw',
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'job' }],
  };
  const own: ImagePrewarm = {
    ...object,
    metadata: owned,
    spec: { ...object.spec, gangRef: { apiGroup: 'batch', kind: 'Job', name: 'j', uid: 'job' } },
  };
  let tell: ChangeHandler<PodUse> = () => undefined;
  const { pullers = [puller('n')], labels = { 'harbinger.dev/accelerate': 'enabled' } } = world;
  const caches = {
    usage: { hasSynced: true, onChange: (handler: ChangeHandler<PodUse>) => void (tell = handler) },
    prewarms: {
      onChange: () => undefined,
      byIndex: (_i: string, key: string) =>
        ({ 'team/job': [own], 'team/RayJob.ray.io/j': [own], 'team/RayJob.ray.io/again': [own, own] })[key] ?? [],
    },
    sets: { list: () => [{ uid: 'ds', namespace: 'harbinger-system', hash: HASH }] },
    pods: { byIndex: (_i: string, name: string) => pullers.filter((p) => p.node === name) },
    nodes: { get: (name: string) => node(name, { createdAt: 0 }) },
    namespaces: { get: (name: string) => ({ name, labels, annotations: {}, terminating: false }) },
  };
  const metrics = new Metrics();
  const events: EventInput[] = [];
  const config = { ...defaultConfig(), ...world.config };
  const { log } = keepLog();
  new GangPods({
    caches: caches as unknown as ConstructorParameters<typeof GangPods>[0]['caches'],
    events: { event: (e) => void events.push(e) },
    config: () => config,
    leading: () => world.leading ?? true,
    namespace: 'harbinger-system',
    clock: new FakeClock(T0 + 60_000),
    log,
    metrics,
  });
  let before: PodUse | undefined;
  for (const now of changes) {
    tell('team/p', now, before);
    before = now;
  }
  const lines = (await metrics.text()).split('\n');
  const value = (name: string): number =>
    Number(
      lines
        .find((l) => l.startsWith(`${name} `))
        ?.split(' ')
        .at(-1),
    );
  return {
    warm: value('harbinger_gang_pods_landed_total{state="warm"}'),
    cold: value('harbinger_gang_pods_landed_total{state="cold"}'),
    ratio: value('harbinger_gang_pods_landed_warm_ratio'),
    missed: value('harbinger_missed_mutations_total'),
    events,
  };
}

const pod = (on: string, change: { image?: string; undecided?: boolean; gang?: string; namespace?: string } = {}): PodUse => {
  const { image = resolvedOf('a'), undecided = false, gang = 'job', namespace = 'team' } = change;
  const shape = { requests: {}, gangs: [gang], images: [image], undecided: undecided ? [image] : [] };
  return { namespace, node: on, state: 'waiting', createdAt: T0, shape };
};

describe('where a Pod of a gang lands', () => {
  const finished = prewarm({
    targets: recorded(),
    conditions: [{ type: 'Ready', status: 'False', reason: 'Finished', message: '', lastTransitionTime: iso(T0) }],
  });
  const rows: [string, (PodUse | undefined)[], World, { warm: number; cold: number }][] = [
    ['on a node that is proven warm', [pod(''), pod('n')], {}, { warm: 1, cold: 0 }],
    ['and counts once', [pod(''), pod('n'), pod('n'), undefined], {}, { warm: 1, cold: 0 }],
    ['on another node', [pod(''), pod('m')], {}, { warm: 0, cold: 1 }],
    [
      'on a node that still pulls',
      [pod('n')],
      { pullers: [puller('n', { container: { started: false, hasRun: false, restarts: 0 } })] },
      { warm: 0, cold: 1 },
    ],
    [
      "where a Pod with our label in a tenant's namespace says warm",
      [pod('n')],
      { pullers: [puller('n', { namespace: 'team' })] },
      { warm: 0, cold: 1 },
    ],
    [
      'where a Pod with our label, of no set of ours, says warm',
      [pod('n')],
      { pullers: [puller('n', { ownerUid: 'x' })] },
      { warm: 0, cold: 1 },
    ],
    ['with another image than the one that was warmed', [pod('n', { image: SOURCE })], {}, { warm: 0, cold: 1 }],
    ['with an image that nobody warmed, which says nothing', [pod('n', { image: 'other:1' })], {}, { warm: 0, cold: 0 }],
    ['of another gang', [pod('n', { gang: 'x' })], {}, { warm: 0, cold: 0 }],
    ['of a gang that only a name tells', [pod('n', { gang: 'RayJob.ray.io/j' })], {}, { warm: 1, cold: 0 }],
    ['of a name that two gangs have had', [pod('n', { gang: 'RayJob.ray.io/again' })], {}, { warm: 0, cold: 0 }],
    ["in another tenant's namespace", [pod('n', { namespace: 'other' })], {}, { warm: 0, cold: 0 }],
    ['after its images were let go', [pod('n')], { prewarm: finished }, { warm: 0, cold: 0 }],
    ['seen by a replica that does not lead', [pod('n')], { leading: false }, { warm: 0, cold: 0 }],
  ];
  test.each(rows)('%s', async (_title, changes, world, expected) => {
    expect(await counted(changes, world)).toMatchObject(expected);
  });
  test('the ratio is one before the first, and then that of the latest', async () => {
    expect((await counted([])).ratio).toBe(1);
    expect((await counted([pod('m')])).ratio).toBe(0);
  });
});

describe('a Pod that passed the webhook by', () => {
  const missed = pod('', { image: SOURCE, undecided: true });
  const rows: [string, PodUse, World, number][] = [
    ['is counted', missed, {}, 1],
    ['not if the webhook decided', pod('', { image: SOURCE }), {}, 0],
    ['not if it runs what is recorded all the same', pod('', { undecided: true }), {}, 0],
    ['not in a namespace that the webhook does not serve', missed, { labels: {} }, 0],
    ['not in mode Observe', missed, { config: { mode: 'Observe' } }, 0],
    ['not if the record is younger', missed, { prewarm: prewarm({ targets: recorded(), conditions: known(T0 - 1_000) }) }, 0],
  ];
  test.each(rows)('%s', async (_title, use, world, expected) => {
    expect((await counted([use], world)).missed).toBe(expected);
  });
  test('is told once a gang, on its job', async () => {
    const { events, missed: times } = await counted([missed, undefined, missed]);
    expect(times).toBe(2);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ type: 'Warning', reason: 'MutationMissed', regarding: { kind: 'Job', name: 'j' } });
    expect(events[0]?.note).toContain(SOURCE);
  });
});
