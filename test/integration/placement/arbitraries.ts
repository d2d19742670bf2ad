import fc from 'fast-check';
import type { Draft } from '../../cluster/client.js';

/** Random nodes and Pods whose labels, taints and quantities are few enough to meet. */

/** Present in so many percent of cases. */
const maybe = <T>(arb: fc.Arbitrary<T>, percent = 50): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: percent, arbitrary: arb }, { weight: 100 - percent, arbitrary: fc.constant(undefined) });
const present = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, v]) => v !== undefined)) as Partial<T>;

const POOL = fc.constantFrom('a', 'b', 'c');
const RANK = fc.constantFrom('1', '5', '9', '007', 'x');
const EFFECT = fc.constantFrom('NoSchedule', 'NoExecute', 'PreferNoSchedule');

const taint = fc.record({
  key: fc.constantFrom('dedicated', 'nvidia.com/gpu', 'level'),
  value: fc.constantFrom('', 'a', '3', '7'),
  effect: EFFECT,
});

/** Marks of nodes that Harbinger never warms and the scheduler may choose; see OURS. */
export const OURS: readonly Record<string, string>[] = [
  { type: 'virtual-kubelet' },
  { 'harbinger.dev/exclude': 'true' },
  { 'node-role.kubernetes.io/control-plane': '' },
];

export interface RandomNode {
  name: string;
  object: Draft;
  /** Harbinger keeps it out, whatever Pods ask for. */
  ours: boolean;
}

/** @param own labels for which Harbinger keeps it out */
export function nodeArbitrary(name: string, own: Record<string, string> = {}): fc.Arbitrary<RandomNode> {
  return fc
    .record({
      pool: maybe(POOL, 75),
      rank: maybe(RANK, 75),
      taints: fc.uniqueArray(taint, { minLength: 1, maxLength: 2, selector: (t) => `${t.key}:${t.effect}` }),
      tainted: fc.boolean(),
      unschedulable: fc.integer({ min: 0, max: 7 }).map((n) => n === 0),
      cpu: fc.constantFrom('1', '2', '3900m', '8', '8'),
      memory: fc.constantFrom('1Gi', '4Gi', '4000M'),
      gpu: maybe(fc.constantFrom('1', '8'), 60),
      pods: fc.constantFrom('110', '110', '110', '110', '110', '1', '0'),
    })
    .map(({ pool, rank, taints, tainted, unschedulable, cpu, memory, gpu, pods }) => {
      const resources = present({ cpu, memory, pods, 'ephemeral-storage': '20Gi', 'nvidia.com/gpu': gpu });
      return {
        name,
        ours: Object.keys(own).length > 0,
        object: {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: {
            name,
            labels: {
              'kubernetes.io/hostname': name,
              'kubernetes.io/os': 'linux',
              'kubernetes.io/arch': 'amd64',
              ...present({ pool, rank }),
              ...own,
            },
          },
          spec: { taints: tainted ? taints : [], unschedulable },
          status: { capacity: resources, allocatable: resources },
        },
      };
    });
}

const requirement = fc.oneof(
  fc.record({
    key: fc.constantFrom('pool', 'zone'),
    operator: fc.constantFrom('In', 'NotIn'),
    values: fc.uniqueArray(POOL, { minLength: 1 }),
  }),
  fc.record({ key: fc.constantFrom('pool', 'rank'), operator: fc.constantFrom('Exists', 'DoesNotExist') }),
  fc.record({
    key: fc.constantFrom('rank', 'pool'),
    operator: fc.constantFrom('Gt', 'Lt'),
    values: fc.tuple(fc.constantFrom('4', '5', '06', '9223372036854775807')),
  }),
);

const term = (names: readonly string[]): fc.Arbitrary<object> =>
  fc
    .record({
      matchExpressions: fc.array(requirement, { maxLength: 2 }),
      matchFields: fc.oneof(
        { weight: 3, arbitrary: fc.constant([]) },
        {
          weight: 1,
          arbitrary: fc.tuple(
            fc.record({
              key: fc.constant('metadata.name'),
              operator: fc.constantFrom('In', 'NotIn'),
              values: fc.tuple(fc.constantFrom(...names)),
            }),
          ),
        },
      ),
    })
    .map((t) => present({ ...t, matchFields: t.matchFields.length === 0 ? undefined : t.matchFields }));

const toleration = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.record({ operator: fc.constant('Exists'), effect: fc.constantFrom(undefined, 'NoSchedule', 'NoExecute') }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      key: fc.constantFrom('dedicated', 'nvidia.com/gpu', 'level', 'node.kubernetes.io/unschedulable'),
      operator: fc.constant('Exists'),
      effect: fc.constantFrom(undefined, 'NoSchedule', 'NoExecute'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      key: fc.constantFrom('dedicated', 'nvidia.com/gpu', 'level'),
      operator: fc.constantFrom(undefined, 'Equal'),
      value: fc.constantFrom(undefined, 'a', '3', '7'),
      effect: fc.constantFrom(undefined, 'NoSchedule', 'NoExecute', 'PreferNoSchedule'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      key: fc.constant('level'),
      operator: fc.constantFrom('Lt', 'Gt'),
      value: fc.constantFrom('5', '7', '-1'),
      effect: fc.constantFrom('NoSchedule', undefined),
    }),
  },
);

const CPU = fc.constantFrom('100m', '700m', '1', '1900m', '0.3');
const resources = fc
  .record({
    cpu: maybe(CPU, 70),
    limit: maybe(fc.constantFrom('2', '2100m'), 30),
    memory: maybe(fc.constantFrom('100Mi', '900M', '1Gi', '1.5Gi'), 50),
    gpu: maybe(fc.constantFrom('1', '2'), 20),
    wantsGpu: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ cpu, limit, memory, gpu, wantsGpu }) => {
    const device = wantsGpu === 0 && gpu !== undefined ? { 'nvidia.com/gpu': gpu } : {};
    return {
      requests: { ...present({ cpu, memory }), ...device },
      limits: { ...present({ cpu: limit }), ...device },
    };
  });

const IMAGE = 'registry.example.com/train:v1';
const container = (name: string, extra: object = {}): fc.Arbitrary<object> =>
  resources.map((r) => ({ name, image: IMAGE, resources: r, ...extra }));

/** RuntimeClasses of the cluster; see podArbitrary. */
export const RUNTIME_CLASSES: readonly Draft[] = [
  { apiVersion: 'node.k8s.io/v1', kind: 'RuntimeClass', metadata: { name: 'plain' }, handler: 'runc' },
  {
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: 'sandboxed' },
    handler: 'runc',
    scheduling: {
      nodeSelector: { pool: 'a' },
      tolerations: [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }],
    },
    overhead: { podFixed: { cpu: '250m', memory: '100Mi' } },
  },
];

/** Specs of Pods that say only what Harbinger models; `names` are those of the nodes. */
export function podArbitrary(names: readonly string[]): fc.Arbitrary<Record<string, unknown>> {
  return fc
    .record({
      nodeSelector: fc.oneof(
        { weight: 8, arbitrary: fc.constant({}) },
        { weight: 1, arbitrary: fc.record({ pool: POOL }) },
        { weight: 1, arbitrary: fc.record({ rank: RANK }) },
      ),
      terms: maybe(fc.array(term(names), { minLength: 1, maxLength: 3 }), 25),
      tolerations: fc.oneof(
        { weight: 1, arbitrary: fc.array(toleration, { maxLength: 1 }) },
        { weight: 2, arbitrary: fc.array(toleration, { minLength: 2, maxLength: 4 }) },
      ),
      containers: fc
        .tuple(container('main'))
        .chain(([main]) => maybe(container('side'), 40).map((side) => [main, ...(side === undefined ? [] : [side])])),
      init: fc.oneof(
        { weight: 2, arbitrary: fc.constant([] as object[]) },
        { weight: 1, arbitrary: fc.tuple(container('init-1')) },
        { weight: 1, arbitrary: fc.tuple(container('sidecar-1', { restartPolicy: 'Always' }), container('init-2')) },
        { weight: 1, arbitrary: fc.tuple(container('init-1'), container('sidecar-2', { restartPolicy: 'Always' })) },
      ),
      whole: maybe(fc.record({ cpu: fc.constantFrom('3', '4', '7900m') }), 20),
      runtimeClassName: fc.constantFrom(undefined, undefined, undefined, 'plain', 'sandboxed'),
    })
    .map(({ nodeSelector, terms, tolerations, containers, init, whole, runtimeClassName }) =>
      present({
        restartPolicy: 'Never',
        nodeSelector,
        tolerations: tolerations.map((t) => present(t)),
        containers,
        initContainers: init.length === 0 ? undefined : init,
        resources: whole === undefined ? undefined : { requests: whole },
        runtimeClassName,
        affinity:
          terms === undefined
            ? undefined
            : { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
      }),
    );
}

type Spec = Record<string, unknown>;

const RESIDENT = { namespaces: ['residents'], labelSelector: { matchLabels: { app: 'resident' } } };
const among = (kind: 'podAffinity' | 'podAntiAffinity', topologyKey: string) => (spec: Spec) => ({
  ...spec,
  affinity: {
    ...(spec['affinity'] as object),
    [kind]: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey, ...RESIDENT }] },
  },
});

/** What Harbinger does not model: the scheduler then chooses among fewer nodes. */
export const UNMODELLED: Readonly<Record<string, (spec: Spec) => Spec>> = {
  'a Pod that spreads over topology': (spec) => ({
    ...spec,
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: 'pool',
        whenUnsatisfiable: 'DoNotSchedule',
        labelSelector: { matchLabels: { app: 'resident' } },
      },
    ],
  }),
  'a Pod that shuns others': among('podAntiAffinity', 'kubernetes.io/hostname'),
  'a Pod that seeks others': among('podAffinity', 'pool'),
  'a Pod with a host port': (spec) => {
    const [main, ...others] = spec['containers'] as object[];
    return { ...spec, containers: [{ ...main, ports: [{ containerPort: 8080, hostPort: 8080 }] }, ...others] };
  },
};
