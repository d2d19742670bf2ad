import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmSpec } from '../../../src/api/kinds/image-prewarm.js';
import type { GangSnapshot } from '../../../src/controller/gangs/decide.js';
import { decideGang, leftOut } from '../../../src/controller/gangs/decide.js';
import { projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import { planAll } from '../../../src/controller/pullers/planning.js';
import { harbingerConfig } from '../../../src/config/schema.js';
import { nodeFacts } from '../../../src/placement/node-facts.js';
import { gang as gangView, lookup, prewarm, snapshot as prewarmSnapshot, context, condition, T0 } from './fixtures.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';

/*
 * What is warmed for the workloads of test/fixtures/workloads (there under their ids, as the webhook sees their Pods): here each is the
 * Workload that Kueue makes of it.
 */
const HOST = 'kubernetes.io/hostname';
const BUSYBOX = 'busybox';
const template = (...images: string[]) => ({ spec: { containers: images.map((image, i) => ({ name: `c${i}`, image })) } });
const podSet = (name: string, count: number, image: string, more: object = {}) => ({
  name,
  count,
  template: template(image),
  ...more,
});

interface Made {
  owner?: [apiVersion: string, kind: string];
  podSets: object[];
  status?: object;
  annotations?: Record<string, string>;
}

const workload = ({ owner = ['batch/v1', 'Job'], podSets, status = {}, annotations = {} }: Made) =>
  projectWorkload({
    apiVersion: 'kueue.x-k8s.io/v1beta2',
    kind: 'Workload',
    metadata: {
      name: 'w',
      namespace: 'team',
      uid: 'w-uid',
      annotations,
      ownerReferences: [{ apiVersion: owner[0], kind: owner[1], name: 'j', uid: 'j-uid', controller: true }],
    },
    spec: { queueName: 'gpu', podSets },
    status,
  }).gang;

function targets(made: Made, change: Partial<GangSnapshot> = {}): ImagePrewarmSpec['targets'] {
  const optIn = { optedIn: true, problems: [] };
  const decision = decideGang({ gang: workload(made), optIn, queueFlavors: [], flavors: new Map(), ...change });
  if (decision.do !== 'apply') throw new Error(decision.why);
  return decision.object.spec.targets;
}

const wanted = (made: Made, change: Partial<GangSnapshot> = {}): unknown[] =>
  targets(made, change).map((t) => [t.name, t.nodes.names ?? t.nodes.count, ...t.images.map((i) => i.reference)]);

const admission = (assignments: object[]) => ({
  admission: { clusterQueue: 'cq', podSetAssignments: assignments },
  conditions: [{ type: 'QuotaReserved', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }],
});

describe('what is warmed for', () => {
  test.each<[string, Made, unknown[]]>([
    [
      'a JobSet with a required topology, before it is assigned: as many nodes as Pods',
      { owner: ['jobset.x-k8s.io/v1alpha2', 'JobSet'], podSets: [podSet('workers', 8, BUSYBOX)] },
      [['workers', 8, BUSYBOX]],
    ],
    [
      'a PyTorchJob: master and worker',
      {
        owner: ['kubeflow.org/v1', 'PyTorchJob'],
        podSets: [podSet('master', 1, 'pytorch:1'), podSet('worker', 1, 'pytorch:1')],
      },
      [
        ['master', 1, 'pytorch:1'],
        ['worker', 1, 'pytorch:1'],
      ],
    ],
    [
      'a RayJob: head, one worker and the submitter, and not the most workers',
      {
        owner: ['ray.io/v1', 'RayJob'],
        podSets: [podSet('head', 1, 'ray:2'), podSet('small-group', 1, 'ray:2'), podSet('submitter', 1, 'ray:2')],
      },
      [
        ['head', 1, 'ray:2'],
        ['small-group', 1, 'ray:2'],
        ['submitter', 1, 'ray:2'],
      ],
    ],
    [
      'a group of a LeaderWorkerSet: leader and workers',
      { podSets: [podSet('leader', 1, 'nginx-slim:0.27'), podSet('workers', 2, 'nginx-slim:0.27')] },
      [
        ['leader', 1, 'nginx-slim:0.27'],
        ['workers', 2, 'nginx-slim:0.27'],
      ],
    ],
    [
      'a SparkApplication: the image that Kueue puts into the templates of driver and executors',
      {
        owner: ['sparkoperator.k8s.io/v1beta2', 'SparkApplication'],
        podSets: [podSet('driver', 1, 'spark:4.0.0'), podSet('executor', 2, 'spark:4.0.0')],
      },
      [
        ['driver', 1, 'spark:4.0.0'],
        ['executor', 2, 'spark:4.0.0'],
      ],
    ],
    [
      'a Job that may start with five of twenty Pods: five',
      { podSets: [podSet('main', 20, 'agnhost:2.53', { minCount: 5 })] },
      [['main', 5, 'agnhost:2.53']],
    ],
    [
      'the same once it has quota for seven: seven',
      { podSets: [podSet('main', 20, 'agnhost:2.53', { minCount: 5 })], status: admission([{ name: 'main', count: 7 }]) },
      [['main', 7, 'agnhost:2.53']],
    ],
    [
      'an MPIJob: launcher and workers',
      { owner: ['kubeflow.org/v2beta1', 'MPIJob'], podSets: [podSet('launcher', 1, 'mpi-pi'), podSet('worker', 2, 'mpi-pi')] },
      [
        ['launcher', 1, 'mpi-pi'],
        ['worker', 2, 'mpi-pi'],
      ],
    ],
    [
      'an AppWrapper: all that is inside, for the AppWrapper alone',
      {
        owner: ['workload.codeflare.dev/v1beta2', 'AppWrapper'],
        podSets: [podSet('wrapped-0', 1, 'pytorch:1'), podSet('wrapped-1', 2, 'pytorch:1')],
      },
      [
        ['wrapped-0', 1, 'pytorch:1'],
        ['wrapped-1', 2, 'pytorch:1'],
      ],
    ],
    [
      'a JobSet whose workers wait for initialisers: the workers too, from the start',
      {
        owner: ['jobset.x-k8s.io/v1alpha2', 'JobSet'],
        podSets: [podSet('database', 1, 'bash'), podSet('weights', 1, 'bash'), podSet('worker', 4, 'bash')],
      },
      [
        ['database', 1, 'bash'],
        ['weights', 1, 'bash'],
        ['worker', 4, 'bash'],
      ],
    ],
    [
      'a placeholder for an image: what its record then says is for a person',
      { podSets: [podSet('workers', 1, '<CHANGE ME>')] },
      [['workers', 1, '<CHANGE ME>']],
    ],
    ['a podSet that is scaled to nothing: no node', { podSets: [podSet('main', 0, BUSYBOX)] }, [['main', 0, BUSYBOX]]],
    [
      'Pods of which some are done for good: the others',
      { podSets: [podSet('main', 4, BUSYBOX)], status: { reclaimablePods: [{ name: 'main', count: 3 }] } },
      [['main', 1, BUSYBOX]],
    ],
  ])('%s', (_, made, want) => expect(wanted(made)).toEqual(want));
});

describe('nodes that Kueue assigned', () => {
  const slices = [
    { domainCount: 2, podCounts: { universal: 4 }, valuesPerLevel: [{ individual: { prefix: 'h', roots: ['1', '2'] } }] },
  ];
  const assigned = (topologyAssignment: object): Made => ({
    podSets: [podSet('workers', 8, BUSYBOX)],
    status: admission([{ name: 'workers', count: 8, topologyAssignment }]),
  });
  const there = (...hosts: string[]): Pick<GangSnapshot, 'nodes'> => ({
    nodes: {
      byHostname: (host) => (hosts.includes(host) ? [`node-of-${host}`] : []),
      exists: (name) => hosts.some((host) => name === `node-of-${host}`),
    },
  });

  test('are named, by the label and not by its value', () => {
    expect(wanted(assigned({ levels: [HOST], slices }), there('h1', 'h2'))).toEqual([
      ['workers', ['node-of-h1', 'node-of-h2'], BUSYBOX],
    ]);
  });
  test('of the older format are the same', () => {
    const domains = ['h1', 'h2'].map((v) => ({ values: [v], count: 4 }));
    expect(wanted(assigned({ levels: [HOST], domains }), there('h1', 'h2'))[0]).toEqual([
      'workers',
      ['node-of-h1', 'node-of-h2'],
      BUSYBOX,
    ]);
  });
  test('that are not there yet are asked for by the label', () => {
    expect(targets(assigned({ levels: [HOST], slices }))[0]?.nodes).toEqual({
      affinity: [{ matchExpressions: [{ key: HOST, operator: 'In', values: ['h1', 'h2'] }] }],
      count: 8,
    });
  });
  describe('and then lost', () => {
    const made = assigned({ levels: [HOST], slices });
    const namesWith = (hosts: string[], before?: string[]): string[] | undefined => {
      const spec = { targets: [{ name: 'workers', images: [{ reference: 'old' }], nodes: { names: before } }] };
      const existing = before === undefined ? undefined : { spec: spec as unknown as ImagePrewarmSpec, released: false };
      return targets(made, { ...there(...hosts), existing })[0]?.nodes.names;
    };
    const both = ['node-of-h1', 'node-of-h2'];
    test.each<[string, string[], string[] | undefined, string[] | undefined]>([
      ['stay in the list by the name that they had', ['h1'], both, both],
      ['stay also when none is left', [], both, both],
      ['never seen: by the value of the label', ['h1'], undefined, ['h2', 'node-of-h1']],
      ['back again: the same list', ['h1', 'h2'], both, both],
      ['seen later: by their name from then on', ['h1', 'h2'], ['h2', 'node-of-h1'], both],
      [
        'replaced by one that is not seen yet: that one, and not another that exists',
        ['h1', 'x'],
        ['node-of-h1', 'node-of-x'],
        ['h2', 'node-of-h1'],
      ],
      ['the control: none was ever seen', [], undefined, undefined],
    ])('%s', (_, hosts, before, want) => expect(namesWith(hosts, before)).toEqual(want));

    test('a node is one that failed, and its gang is not warm with the others', () => {
      const [target] = targets(made, { ...there('h1') });
      if (target === undefined) throw new Error('no target');
      const ofNode = nodeFacts({
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name: 'node-of-h1', labels: {} },
        spec: {},
        status: {
          conditions: [{ type: 'Ready', status: 'True' }],
          nodeInfo: { operatingSystem: 'linux', architecture: 'amd64' },
        },
      });
      const { plans } = planAll({
        prewarms: [{ prewarm: prewarm({}, { targets: [target] }), gang: gangView({ position: 0 }), gangUnknown: false }],
        nodes: [ofNode],
        world: { pulls: new Map() } as unknown as Parameters<typeof planAll>[0]['world'],
        config: harbingerConfig.parse({}),
        now: T0,
      });
      const progress = [...plans.values()][0]?.progress;
      expect(progress).toMatchObject({ desired: 2, failed: 1 });
      expect(progress?.failures).toMatchObject([{ node: 'h2', reason: 'NodeLost' }]);
    });
  });
  test('by rack are all nodes of these racks, of which as many as there are Pods', () => {
    const domains = [
      { values: ['b1', 'r1'], count: 4 },
      { values: ['b1', 'r2'], count: 2 },
      { values: ['b2', 'r1'], count: 2 },
    ];
    const term = (block: string, ...racks: string[]) => ({
      matchExpressions: [
        { key: 'block', operator: 'In', values: [block] },
        { key: 'rack', operator: 'In', values: racks },
      ],
    });
    expect(targets(assigned({ levels: ['block', 'rack'], domains }))[0]?.nodes).toEqual({
      affinity: [term('b1', 'r1', 'r2'), term('b2', 'r1')],
      count: 8,
    });
  });
  test('in more blocks than there may be terms are a superset, and never fewer', () => {
    const domains = Array.from({ length: 30 }, (_, i) => ({ values: [`b${i}`, `r${i}`], count: 1 }));
    const [target] = targets(assigned({ levels: ['block', 'rack'], domains }));
    expect(target?.nodes.affinity).toHaveLength(1);
    expect(target?.nodes.affinity?.[0]?.matchExpressions?.map((e) => e.values?.length)).toEqual([30, 30]);
  });
});

describe('a slice that scales a running job up', () => {
  const made: Made = { owner: ['ray.io/v1', 'RayJob'], podSets: [podSet('head', 1, 'ray:2'), podSet('workers', 5, 'ray:2')] };
  const replaced = new Map([
    ['head', 1],
    ['workers', 2],
  ]);
  test.each<[ImagePrewarmSpec['retain'], number, number]>([
    ['UntilGangStarts', 0, 3],
    ['Never', 0, 3],
    // Nodes of the Pods that run are held and warm: of those alone it would be told that what comes is warm.
    ['WhileGangRuns', 1, 5],
    ['Always', 1, 5],
  ])('is warmed for what it adds, and beside what is held: retain %s', (retain, head, workers) => {
    const { spec } = prewarm({}, { retain });
    expect(wanted(made, { replaced, existing: { spec, released: false } })).toEqual([
      ['head', head, 'ray:2'],
      ['workers', workers, 'ray:2'],
    ]);
  });
  test('is warmed for what it adds before there is a record', () => {
    expect(targets(made, { replaced }).map((t) => t.nodes.count)).toEqual([0, 3]);
  });
  test('the control: without one that runs, for all', () => {
    expect(wanted(made)).toEqual([
      ['head', 1, 'ray:2'],
      ['workers', 5, 'ray:2'],
    ]);
  });
  test('says which Workload it takes the place of', () => {
    const annotations = { 'kueue.x-k8s.io/workload-slice-replacement-for': 'team/old' };
    expect([workload({ ...made, annotations }).replaces, workload(made).replaces]).toEqual(['team/old', undefined]);
  });
});

test('H-42 a launcher whose node is warm never means that its gang is ready', () => {
  const spec = { targets: targets({ podSets: [podSet('launcher', 1, 'small:1'), podSet('worker', 16, 'big:1')] }) };
  const image = (source: string, c: string) => ({
    source,
    resolved: `reg.example.com/${source.split(':')[0] ?? ''}@sha256:${c.repeat(64)}`,
    digest: `sha256:${c.repeat(64)}`,
    outcome: 'pinned' as const,
    sizeBytes: 1,
  });
  const status = {
    targets: [
      { name: 'launcher', images: [image('small:1', 'a')] },
      { name: 'worker', images: [image('big:1', 'b')] },
    ],
  };
  const nodes = Array.from({ length: 16 }, (_, i) =>
    nodeFacts({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: `n${i}`, labels: {} },
      spec: {},
      status: { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { operatingSystem: 'linux', architecture: 'amd64' } },
    }),
  );
  const object = prewarm(status, spec);
  const config = harbingerConfig.parse({});
  const { plans } = planAll({
    prewarms: [{ prewarm: object, gang: gangView({ position: 0 }), gangUnknown: false }],
    nodes,
    world: { pulls: new Map() } as unknown as Parameters<typeof planAll>[0]['world'],
    config,
    now: T0,
  });
  const plan = [...plans.values()][0];
  expect(plan?.progress?.desired).toBeGreaterThanOrEqual(16);
  const verdict = (warm: number, desired = 17) =>
    condition(
      decidePrewarm(
        prewarmSnapshot({
          prewarm: object,
          lookups: new Map([
            ['small:1', lookup('a')],
            ['big:1', lookup('b')],
          ]),
          progress: { desired, warm, pulling: desired - warm, pending: 0, failed: 0, failures: [], runningSince: [], seenMs: [] },
          candidates: { reasons: {}, desired, empty: [] },
        }),
        context(),
      ).status,
      'Ready',
    )?.status;
  expect([verdict(1), verdict(16), verdict(17)]).toEqual(['False', 'False', 'True']);
});

describe('images for which an ImagePrewarm has no room', () => {
  const images = (n: number, name = 'i'): string[] => Array.from({ length: n }, (_, i) => `${name}${i}:1`);
  const made = (...podSets: [string, string[]][]) =>
    workload({ podSets: podSets.map(([name, of]) => ({ name, count: 1, template: template(...of) })) });
  const long = `r.example.com/${'x'.repeat(510)}`;
  test.each<[string, ReturnType<typeof workload>, string[]]>([
    ['the control: 32 of a podSet are all there is room for', made(['main', images(32)]), []],
    ['the 33rd and those after it', made(['main', images(34)]), ['main: i32:1', 'main: i33:1']],
    [
      'one whose name is too long, also where no other is left',
      made(['main', ['a:1', long]], ['b', [long]]),
      [`main: ${long}`, `b: ${long}`],
    ],
    [
      'all of the 19th podSet that pulls one',
      made(['none', []], ...images(19, 'p').map((name): [string, string[]] => [name, ['a:1', 'b:1']])),
      ['p18:1: a:1', 'p18:1: b:1'],
    ],
  ])('%s', (_, gang, want) => expect(leftOut(gang)).toEqual(want));
  test('also those that operators add', () => {
    expect(leftOut(made(['main', images(32)]), () => ['sidecar:1'])).toEqual(['main: sidecar:1']);
  });
  test('keep the gang from being told to be warm, and from being held for them', () => {
    const left = leftOut(made(['main', images(40)]));
    const { status } = decidePrewarm(prewarmSnapshot({ leftOut: left }), context());
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'ImagesLeftOut' });
    expect(condition(status, 'Ready')?.message).toContain('the other images are on all 3 nodes; 8 images are beyond the limits');
    expect(condition(status, 'Failed')?.status).toBe('True');
    expect(condition(status, 'TargetsResolved')).toMatchObject({ status: 'False', reason: 'ImagesLeftOut' });
    expect(condition(status, 'TargetsResolved')?.message).toContain('main: i32:1, main: i33:1, main: i34:1, …');
    // The control: with room for each it is warm.
    expect(condition(decidePrewarm(prewarmSnapshot({ leftOut: [] }), context()).status, 'Ready')?.status).toBe('True');
  });
  test('do not keep the others from being pulled', () => {
    const cold = { desired: 3, warm: 1, pulling: 2, pending: 0, failed: 0, failures: [], runningSince: [], seenMs: [] };
    const { status } = decidePrewarm(prewarmSnapshot({ leftOut: ['main: a'], progress: cold }), context());
    expect([condition(status, 'Ready')?.reason, condition(status, 'Failed')?.status]).toEqual(['PullingImages', 'False']);
  });
});

describe('images that no template shows', () => {
  const pytorch: Made = {
    owner: ['kubeflow.org/v1', 'PyTorchJob'],
    podSets: [podSet('master', 1, 'pytorch:1'), podSet('worker', 8, 'pytorch:1')],
  };
  test('H-44 that an operator adds to a podSet are warmed with it, by the list of the configuration', () => {
    const operatorImages = (name: string): string[] => (name === 'worker' ? ['alpine:3.10'] : []);
    expect(wanted(pytorch, { operatorImages })).toEqual([
      ['master', 1, 'pytorch:1'],
      ['worker', 8, 'pytorch:1', 'alpine:3.10'],
    ]);
  });
  test('are not asked of a podSet that pulls nothing', () => {
    const none: Made = { podSets: [{ name: 'worker', count: 1, template: {} }, podSet('main', 1, BUSYBOX)] };
    expect(wanted(none, { operatorImages: () => ['alpine:3.10'] })).toEqual([['main', 1, BUSYBOX, 'alpine:3.10']]);
  });
});
