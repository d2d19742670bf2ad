import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarm } from '../../../src/api/kinds/index.js';
import type { ImagePrewarmSpec } from '../../../src/api/kinds/image-prewarm.js';
import { defaultConfig } from '../../../src/config/load.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { PlanningInput, PrewarmPlan } from '../../../src/controller/pullers/planning.js';
import { planAll, signatureOf } from '../../../src/controller/pullers/planning.js';
import type { GangView } from '../../../src/controller/prewarm/snapshot.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { Plan } from '../../../src/preheat/planner.js';
import { pullerOf } from '../../../src/preheat/puller.js';
import { node } from '../placement/nodes.js';
import { image } from '../preheat/fixtures.js';

const NOW = Date.parse('2026-01-01T01:00:00Z');
const NODES = ['n1', 'n2', 'n3'].map((n) => node(n));
const GANG_REF = { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'job-uid' };
const WARM: PullState = { state: 'warm', inFlight: false };

interface Wanted {
  name?: string;
  resolved?: string | null;
  spec?: Partial<ImagePrewarmSpec>;
  metadata?: Partial<ImagePrewarm['metadata']>;
}
function prewarm({ name = 'p', resolved = image(), spec = {}, metadata = {} }: Wanted = {}): ImagePrewarm {
  return {
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace: 'team', uid: name, generation: 1, ...metadata },
    spec: {
      targets: [{ name: 'main', images: [{ reference: 'train:1' }], nodes: { selector: {} } }],
      pin: 'AtRelease',
      retain: 'UntilGangStarts',
      spareNodes: 0,
      suspend: false,
      pull: { rampUp: 'Immediate', busyNodes: 'Allow' },
      ...spec,
    },
    status: resolved === null ? {} : { targets: [{ name: 'main', images: [{ source: 'train:1', resolved, sizeBytes: 1e9 }] }] },
  };
}
function gang(change: Partial<GangView> = {}): GangView {
  const podSets = [
    { name: 'main', count: 3, template: { spec: { containers: [{ image: 'train:1', resources: { requests: { cpu: '1' } } }] } } },
  ];
  const metadata = {
    name: 'w',
    namespace: 'team',
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'job-uid', controller: true }],
  };
  const { gang: projected } = projectWorkload({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata,
    spec: { queueName: 'gpu', podSets },
  });
  return { gang: projected, optIn: { optedIn: true, problems: [] }, checkReady: false, checked: true, position: 0, ...change };
}

type Entry = PlanningInput['prewarms'][number];
const entry = (p = prewarm(), change: Partial<Entry> = {}): Entry => ({ prewarm: p, gangUnknown: false, ...change });
const ofGang = (change: Partial<Entry> = {}): Entry => entry(prewarm({ spec: { gangRef: GANG_REF } }), change);

function outcome(
  entries: readonly Entry[],
  change: Partial<PlanningInput> = {},
  held: Record<string, PullState> = {},
): { nodes: string[]; plan: PrewarmPlan | undefined; grants: Plan['grants'] } {
  const puller = pullerOf(image());
  if (puller === undefined) throw new Error('the fixture is no image by digest');
  const world = {
    nodes: new Map(NODES.map((n) => [n.name, n])),
    pulls: new Map([[puller.hash, new Map(Object.entries(held))]]),
    pullers: new Map([[puller.hash, puller]]),
  };
  const { grants, plans } = planAll({ prewarms: entries, nodes: NODES, world, config: defaultConfig(), now: NOW, ...change });
  return { nodes: [...(grants.get(puller.hash)?.nodes ?? [])].sort(), plan: plans.get('team/p'), grants };
}

describe('what is pulled and kept', () => {
  const all = ['n1', 'n2', 'n3'];
  const off = { ...defaultConfig(), mode: 'Off' as const };
  const rows: [string, Entry, Partial<PlanningInput>, { begun: string[]; kept: string[] }][] = [
    ['made by hand', entry(), {}, { begun: all, kept: all }],
    ['not looked up yet', entry(prewarm({ resolved: null })), {}, { begun: [], kept: [] }],
    ['recorded with something that is no digest', entry(prewarm({ resolved: 'train:1' })), {}, { begun: [], kept: [] }],
    ['suspended: what is there stays', entry(prewarm({ spec: { suspend: true } })), {}, { begun: [], kept: ['n1'] }],
    ['being deleted', entry(prewarm({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })), {}, { begun: [], kept: [] }],
    ['in mode Off', entry(), { config: off }, { begun: [], kept: [] }],
    ['in mode Observe', entry(), { config: { ...off, mode: 'Observe' } }, { begun: [], kept: [] }],
    [
      'with a spec that cannot be evaluated',
      entry(
        prewarm({
          spec: {
            targets: [
              {
                name: 'main',
                images: [{ reference: 'train:1' }],
                nodes: { selector: { matchExpressions: [{ key: 'a', operator: 'Near' as 'In' }] } },
              },
            ],
          },
        }),
      ),
      {},
      { begun: [], kept: [] },
    ],
    ['of a gang at the head of its queue', ofGang({ gang: gang() }), {}, { begun: all, kept: all }],
    ['of a gang far behind', ofGang({ gang: gang({ position: 40 }) }), {}, { begun: [], kept: ['n1'] }],
    [
      'of a gang that did not opt in',
      ofGang({ gang: gang({ optIn: { optedIn: false, problems: [] } }) }),
      {},
      { begun: [], kept: [] },
    ],
    // The two below differ in nothing but what is known: what looks opted out for want of an answer must not lose its copies.
    [
      'of a gang about which not all is known yet',
      ofGang({ gang: gang({ optIn: { optedIn: false, problems: [] } }), gangUnknown: true }),
      {},
      { begun: [], kept: ['n1'] },
    ],
    [
      'of a gang without a Workload, while Workloads are not known',
      ofGang({ gangUnknown: true }),
      {},
      { begun: [], kept: ['n1'] },
    ],
  ];
  test.each(rows)('%s', (_title, given, change, { begun, kept }) => {
    expect(outcome([given], change).nodes).toEqual(begun);
    expect(outcome([given], change, { n1: WARM }).nodes).toEqual(kept);
  });

  test('of a gang about which not all is known nothing is told, while one without a gang has its plan', () => {
    expect(outcome([ofGang({ gangUnknown: true })]).plan).toBeUndefined();
    expect(outcome([entry()]).plan).toBeDefined();
  });

  test('nothing at all for nobody', () => expect(outcome([]).grants.size).toBe(0));
  test('two that want one image share its pullers', () => {
    const { grants, nodes } = outcome([entry(), entry(prewarm({ name: 'q' }))]);
    expect(grants.size).toBe(1);
    expect(nodes).toEqual(all);
  });
  test('a reserved gang comes before one of higher priority, that before an older one, and one that is passed over last', () => {
    const narrow = { ...defaultConfig(), budgets: { ...defaultConfig().budgets, maxPullingNodes: 1 } };
    const of = (letter: string, state: object, more: object = {}): Entry => {
      const view = gang();
      return entry(prewarm({ name: letter, resolved: image(letter), spec: { gangRef: GANG_REF } }), {
        gang: { ...view, gang: { ...view.gang, ...more, state: { ...view.gang.state, ...state } } },
      });
    };
    const first = (...entries: Entry[]): string[] =>
      [...outcome(entries, { config: narrow }).grants.values()].map((g) => g.puller.image);
    const [old, urgent, reserved] = [
      of('a', {}, { queuedAt: 1 }),
      of('b', {}, { priority: 9, queuedAt: 2 }),
      of('c', { reservedAt: 3 }, { queuedAt: 3 }),
    ];
    expect(first(old, urgent, reserved)).toEqual([image('c')]);
    expect(first(old, urgent)).toEqual([image('b')]);
    expect(first(old, of('d', { passedOver: true }, { priority: 9, queuedAt: 0 }))).toEqual([image('a')]);
  });
});

describe('what the plan says', () => {
  test('progress counts nodes, and requests of the Pods leave out those that are too small', () => {
    const view = gang();
    const template = { spec: { containers: [{ image: 'train:1', resources: { requests: { cpu: '9' } } }] } };
    const big = { ...view, gang: { ...view.gang, podSets: view.gang.podSets.map((p) => ({ ...p, template })) } };
    expect(outcome([ofGang({ gang: gang() })]).plan).toMatchObject({
      candidates: { desired: 3 },
      progress: { desired: 3, pulling: 3 },
      lifecycle: { mayPull: true },
    });
    expect(outcome([ofGang({ gang: big })]).plan?.candidates.desired).toBe(0);
  });
  test('the deadline grows with the waves that the budgets force', () => {
    const deadline = (maxConcurrentNodes: number): number | undefined =>
      outcome([
        entry({
          ...prewarm({ spec: { pull: { rampUp: 'Immediate', busyNodes: 'Allow', maxConcurrentNodes } } }),
          status: { targets: [{ name: 'main', images: [{ source: 'train:1', resolved: image(), sizeBytes: 50e9 }] }] },
        }),
      ]).plan?.deadlineMs;
    expect(deadline(1)).toBe(3 * (deadline(3) ?? 0));
  });
  test('the signature changes with generation and record, and with nothing else', () => {
    const one = prewarm();
    expect(signatureOf({ ...one, metadata: { ...one.metadata, resourceVersion: '9', labels: { a: 'b' } } })).toBe(
      signatureOf(one),
    );
    expect(signatureOf(prewarm({ metadata: { generation: 2 } }))).not.toBe(signatureOf(one));
    expect(signatureOf(prewarm({ resolved: image('b') }))).not.toBe(signatureOf(one));
  });
});

test('a namespace full of large affinities gets supersets, and takes no exactness from others', () => {
  const nodes = Array.from({ length: 2_000 }, (_, i) => node(`n${i}`));
  /** Requirements that every node meets, and one that none does. */
  const asking = (name: string, namespace: string, requirements: number) => {
    const expressions = Array.from({ length: requirements - 1 }, (_, i) => ({
      key: `${name}-${i}`,
      operator: 'DoesNotExist' as const,
    }));
    const affinity = [{ matchExpressions: [...expressions, { key: name, operator: 'Exists' as const }] }];
    const targets = [{ name: 'main', images: [{ reference: 'train:1' }], nodes: { affinity } }];
    return entry(prewarm({ name, spec: { targets }, metadata: { namespace } }));
  };
  const hostile = Array.from({ length: 20 }, (_, i) => asking(`h${i}`, 'hostile', 250));
  const { plans } = planAll({
    prewarms: [...hostile, asking('mine', 'team', 100), asking('small', 'hostile', 5)],
    nodes,
    world: { nodes: new Map(nodes.map((n) => [n.name, n])), pulls: new Map(), pullers: new Map() },
    config: defaultConfig(),
    now: NOW,
  });
  const desired = (key: string): number | undefined => plans.get(key)?.candidates.desired;
  expect([desired('hostile/h0'), desired('hostile/h3'), desired('hostile/h4'), desired('hostile/h19')]).toEqual([
    0, 0, 2_000, 2_000,
  ]);
  expect([desired('team/mine'), desired('hostile/small')]).toEqual([0, 0]);
});

describe('a plan names targets for which there are no nodes', () => {
  const nowhere = { matchLabels: { pool: 'none' } };
  const two = (count?: number) =>
    entry(
      prewarm({
        spec: {
          targets: [
            { name: 'main', images: [{ reference: 'train:1' }], nodes: { selector: {} } },
            {
              name: 'launcher',
              images: [{ reference: 'train:1' }],
              nodes: { selector: nowhere, ...(count === undefined ? {} : { count }) },
            },
          ],
        },
      }),
    );
  test.each([
    ['that wants one', 1, ['launcher']],
    ['that wants all there are', undefined, ['launcher']],
    ['negative twin: that wants none', 0, []],
  ])('%s', (_title, count, expected) => {
    expect(outcome([two(count)]).plan?.candidates).toMatchObject({ desired: 3, empty: expected });
  });
});
