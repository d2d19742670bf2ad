import { describe, expect, test } from '@jest/globals';
import type { GangSnapshot } from '../../../src/controller/gangs/decide.js';
import { decideGang, prewarmName } from '../../../src/controller/gangs/decide.js';
import type { FlavorView } from '../../../src/controller/gangs/sources/kueue.js';
import { projectFlavor, projectWorkload } from '../../../src/controller/gangs/sources/kueue.js';
import type { ImagePrewarmSpec } from '../../../src/api/kinds/image-prewarm.js';

const workload = (change: { spec?: object; status?: object; metadata?: object } = {}) => ({
  apiVersion: 'kueue.x-k8s.io/v1beta2',
  kind: 'Workload',
  metadata: {
    name: 'job-train-1',
    namespace: 'team',
    uid: 'w',
    resourceVersion: '7',
    creationTimestamp: '2026-01-01T00:00:00Z',
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'train', uid: 'job-uid', controller: true }],
    ...change.metadata,
  },
  spec: {
    queueName: 'gpu',
    priority: 5,
    podSets: [{ name: 'main', count: 4, template: { spec: { containers: [{ image: 'train:1' }] } } }],
    ...change.spec,
  },
  status: change.status ?? {},
});
const flavor = (name: string, nodeLabels: Record<string, string> = {}, more: Partial<FlavorView> = {}): FlavorView => ({
  name,
  nodeLabels,
  taints: [],
  tolerations: [],
  ...more,
});
const snapshot = (raw = workload(), change: Partial<GangSnapshot> = {}): GangSnapshot => ({
  gang: projectWorkload(raw).gang,
  optIn: { optedIn: true, problems: [] },
  queueFlavors: [],
  flavors: new Map(),
  ...change,
});
const targetsOf = (given: GangSnapshot): ImagePrewarmSpec['targets'] => {
  const decision = decideGang(given);
  if (decision.do !== 'apply') throw new Error(decision.why);
  return decision.object.spec.targets;
};

describe('the object of a gang', () => {
  test('is owned by its job, has its name, and says what to warm', () => {
    const decision = decideGang(snapshot());
    expect(decision).toMatchObject({
      do: 'apply',
      object: {
        metadata: {
          name: prewarmName({ name: 'train', uid: 'job-uid' }),
          namespace: 'team',
          ownerReferences: [{ kind: 'Job', uid: 'job-uid', controller: false, blockOwnerDeletion: false }],
        },
        spec: {
          gangRef: { apiGroup: 'batch', kind: 'Job', name: 'train', uid: 'job-uid' },
          targets: [{ name: 'main', images: [{ reference: 'train:1' }], nodes: { selector: {}, count: 4 } }],
        },
      },
    });
  });
  test('a Workload without a controller is its own gang', () => {
    const raw = workload({ metadata: { ownerReferences: undefined } });
    expect(projectWorkload(raw).gang.ref).toEqual({
      apiGroup: 'kueue.x-k8s.io',
      kind: 'Workload',
      name: 'job-train-1',
      uid: 'w',
    });
  });
  test('names differ between jobs of one name and stay within 253 characters', () => {
    const names = ['a', 'b'].map((uid) => prewarmName({ name: 'x'.repeat(253), uid }));
    expect(new Set(names).size).toBe(2);
    for (const n of names) expect(n.length).toBeLessThanOrEqual(253);
    expect(prewarmName({ name: `${'x'.repeat(243)}..yyyyyyyyyy`, uid: 'a' })).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
  });

  const keep: [string, GangSnapshot, string][] = [
    ['not opted in', snapshot(undefined, { optIn: { optedIn: false, problems: [] } }), 'did not opt in'],
    ['finished', snapshot(workload({ status: { conditions: [{ type: 'Finished', status: 'True' }] } })), 'has finished'],
    [
      'let go, and is where it was',
      snapshot(undefined, { existing: { spec: { targets: targetsOf(snapshot()) } as ImagePrewarmSpec, released: true } }),
      'as it should be',
    ],
    [
      'without images',
      snapshot(workload({ spec: { podSets: [{ name: 'main', count: 1, template: { spec: { containers: [{}] } } }] } })),
      'pulls an image',
    ],
    ['without podSets', snapshot(workload({ spec: { podSets: null } })), 'pulls an image'],
    [
      'as it should be',
      snapshot(undefined, { existing: { spec: { targets: targetsOf(snapshot()) } as ImagePrewarmSpec, released: false } }),
      'as it should be',
    ],
  ];
  test.each(keep)('nothing is written for a gang that is %s', (...[, given, why]) => {
    expect(decideGang(given)).toMatchObject({ do: 'keep', why: expect.stringContaining(why) });
  });
  test('a changed count or image is written', () => {
    const existing = { spec: { targets: targetsOf(snapshot()) } as ImagePrewarmSpec, released: false };
    const raw = workload({
      spec: { podSets: [{ name: 'main', count: 5, template: { spec: { containers: [{ image: 'train:2' }] } } }] },
    });
    expect(decideGang(snapshot(raw, { existing }))).toMatchObject({ do: 'apply' });
  });
});

describe('a gang that was let go', () => {
  const status = (name: string) => ({
    admission: { clusterQueue: 'cq', podSetAssignments: [{ name: 'main', flavors: { cpu: name }, count: 4 }] },
  });
  const flavors = new Map(
    [flavor('a', { pool: 'a' }), flavor('b', { pool: 'b' }, { tolerations: [{ key: 'spot', operator: 'Exists' }] })].map((f) => [
      f.name,
      f,
    ]),
  );
  const first = { targets: targetsOf(snapshot(workload({ status: status('a') }), { flavors })) } as ImagePrewarmSpec;
  const template = {
    spec: {
      containers: [{ image: 'train:2' }, { image: 'new:1' }],
      runtimeClassName: 'other',
      imagePullSecrets: [{ name: 'other' }],
    },
  };
  const changed = workload({
    status: status('b'),
    spec: {
      podSets: [
        { name: 'main', count: 4, template },
        { name: 'late', count: 1, template },
      ],
    },
  });

  test('and comes back on another flavor is warmed there, with the images that its record is about', () => {
    const again = targetsOf(snapshot(changed, { flavors, existing: { spec: first, released: true } }));
    expect(first.targets[0]?.nodes.affinity).toEqual([{ matchExpressions: [{ key: 'pool', operator: 'In', values: ['a'] }] }]);
    expect(again).toEqual([
      {
        name: 'main',
        images: [{ reference: 'train:1' }],
        tolerations: [{ key: 'spot', operator: 'Exists' }],
        nodes: { affinity: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: ['b'] }] }], count: 4 },
      },
    ]);
  });
  test('while one that was not takes the new images too', () => {
    const again = targetsOf(snapshot(changed, { flavors, existing: { spec: first, released: false } }));
    expect(again.map((t) => t.images.map((i) => i.reference))).toEqual([
      ['train:2', 'new:1'],
      ['train:2', 'new:1'],
    ]);
  });
  test('loses the tolerations of the flavor that it left', () => {
    const onB = { targets: targetsOf(snapshot(workload({ status: status('b') }), { flavors })) } as ImagePrewarmSpec;
    const [back] = targetsOf(snapshot(workload({ status: status('a') }), { flavors, existing: { spec: onB, released: true } }));
    expect(back).not.toHaveProperty('tolerations');
  });
  test('keeps a target whose podSet cannot be found', () => {
    const renamed = workload({ spec: { podSets: [{ name: 'x', count: 4, template }] } });
    expect(decideGang(snapshot(renamed, { flavors, existing: { spec: first, released: true } }))).toMatchObject({ do: 'keep' });
  });
});

describe('what the CRD would refuse', () => {
  const tolerating = (keys: readonly string[]) => {
    const tolerations = keys.map((key) => ({ key, operator: 'Exists', effect: 'NoSchedule' }));
    const template = { spec: { containers: [{ image: 'a' }], tolerations } };
    return targetsOf(snapshot(workload({ spec: { podSets: [{ name: 'main', count: 1, template }] } })))[0]?.tolerations;
  };
  const keys = (n: number): string[] => Array.from({ length: n }, (_, i) => `k-${i}`);
  const tolerated: [string, string[], number | object[]][] = [
    ['as many tolerations as there is room for are kept', keys(32), 32],
    ['one more tolerates every taint: without it nodes would be left out', keys(33), [{ operator: 'Exists' }]],
    ['the same one many times counts once', Array.from({ length: 40 }, () => 'k'), 1],
  ];
  test.each(tolerated)('%s', (_title, of, want) => {
    const got = tolerating(of);
    expect(typeof want === 'number' ? got?.length : got).toEqual(want);
  });
  test('pull secrets that cannot exist are left out: kubelets pass over them', () => {
    const template = {
      spec: { containers: [{ image: 'a' }], imagePullSecrets: [{ name: 'Not_Valid' }, { name: 'registry.example' }] },
    };
    const [target] = targetsOf(snapshot(workload({ spec: { podSets: [{ name: 'main', count: 1, template }] } })));
    expect(target?.imagePullSecrets).toEqual([{ name: 'registry.example' }]);
  });
});

describe('candidate nodes from flavors', () => {
  const term = (key: string, value: string) => ({ matchExpressions: [{ key, operator: 'In', values: [value] }] });
  test('before reservation: the union over the flavors of the queue', () => {
    const queueFlavors = [flavor('a', { pool: 'a' }), flavor('b', { pool: 'b' }), flavor('a2', { pool: 'a' })];
    expect(targetsOf(snapshot(undefined, { queueFlavors }))[0]?.nodes).toEqual({
      affinity: [term('pool', 'a'), term('pool', 'b')],
      count: 4,
    });
  });
  test('a flavor without labels means any node', () => {
    expect(targetsOf(snapshot(undefined, { queueFlavors: [flavor('a', { pool: 'a' }), flavor('any')] }))[0]?.nodes).toEqual({
      selector: {},
      count: 4,
    });
  });
  test('a flavor whose taint nothing tolerates is not given', () => {
    const taints = [{ key: 'gpu', value: '', effect: 'NoSchedule' }];
    const queueFlavors = [flavor('a', { pool: 'a' }, { taints }), flavor('b', { pool: 'b' })];
    expect(targetsOf(snapshot(undefined, { queueFlavors }))[0]?.nodes).toEqual({ affinity: [term('pool', 'b')], count: 4 });
    const tolerating = [flavor('a', { pool: 'a' }, { taints, tolerations: [{ key: 'gpu', operator: 'Exists' }] })];
    expect(targetsOf(snapshot(undefined, { queueFlavors: tolerating }))[0]).toMatchObject({
      nodes: { affinity: [term('pool', 'a')] },
      tolerations: [{ key: 'gpu', operator: 'Exists' }],
    });
  });
  test('once reserved: the assigned flavors together', () => {
    const status = {
      admission: {
        clusterQueue: 'cq',
        podSetAssignments: [{ name: 'main', flavors: { cpu: 'a', 'nvidia.com/gpu': 'g' }, count: 3 }],
      },
    };
    const flavors = new Map([flavor('a', { zone: 'z' }), flavor('g', { gpu: 'h100' })].map((f) => [f.name, f]));
    const [target] = targetsOf(snapshot(workload({ status }), { queueFlavors: [flavor('b', { pool: 'b' })], flavors }));
    expect(target?.nodes).toEqual({
      affinity: [
        {
          matchExpressions: [
            { key: 'gpu', operator: 'In', values: ['h100'] },
            { key: 'zone', operator: 'In', values: ['z'] },
          ],
        },
      ],
      count: 3,
    });
  });
  test('node selector, required affinity and flavor are joined; too many terms give a superset', () => {
    const many = (n: number) =>
      Array.from({ length: n }, (_, i) => ({ matchExpressions: [{ key: 'rank', operator: 'In', values: [String(i)] }] }));
    const raw = (n: number) => {
      const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: many(n) } } };
      return workload({
        spec: {
          podSets: [
            {
              name: 'main',
              count: 1,
              template: { spec: { nodeSelector: { gpu: 'x' }, affinity, containers: [{ image: 'a' }] } },
            },
          ],
        },
      });
    };
    const queueFlavors = [flavor('a', { pool: 'a' }), flavor('b', { pool: 'b' })];
    const few = targetsOf(snapshot(raw(2), { queueFlavors }))[0]?.nodes.affinity ?? [];
    expect(few).toHaveLength(4);
    expect(few[0]?.matchExpressions?.map((e) => e.key)).toEqual(['gpu', 'rank', 'pool']);
    const lots = targetsOf(snapshot(raw(15), { queueFlavors }))[0]?.nodes.affinity ?? [];
    expect(lots).toHaveLength(15);
    expect(lots[0]?.matchExpressions?.map((e) => e.key)).toEqual(['gpu', 'rank']);
  });
});

describe('a Workload', () => {
  test('that was evicted for an AdmissionCheck queues behind', () => {
    const evicted = (reason: string) =>
      projectWorkload(
        workload({
          status: { conditions: [{ type: 'Evicted', status: 'True', reason, lastTransitionTime: '2026-01-01T01:00:00Z' }] },
        }),
      ).gang.queuedAt;
    expect(evicted('AdmissionCheck')).toBe(Date.parse('2026-01-01T01:00:00Z'));
    expect(evicted('Preempted')).toBe(Date.parse('2026-01-01T00:00:00Z'));
  });
  test.each([
    [{}],
    [{ spec: null, status: null }],
    [{ spec: { podSets: [null, 3, {}] }, status: { conditions: {}, admission: 'x' } }],
  ])('malformed %j becomes a gang with nothing to do', (change) => {
    const raw = { ...workload(), spec: {}, ...change } as unknown as Parameters<typeof projectWorkload>[0];
    expect(decideGang(snapshot(undefined, { gang: projectWorkload(raw).gang })).do).toBe('keep');
  });
  test('a flavor is read', () => {
    const raw = {
      apiVersion: 'kueue.x-k8s.io/v1beta2',
      kind: 'ResourceFlavor',
      metadata: { name: 'f' },
      spec: {
        nodeLabels: { a: 'b' },
        nodeTaints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }],
        tolerations: [{ key: 'k', operator: 'Exists' }],
      },
    };
    expect(projectFlavor(raw)).toEqual({
      name: 'f',
      nodeLabels: { a: 'b' },
      taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }],
      tolerations: [{ key: 'k', operator: 'Exists' }],
    });
  });
});
