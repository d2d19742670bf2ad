import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { constraintKey, constraintsOf } from '../../../src/placement/constraints.js';
import { nodeAffinity } from '../../../src/placement/filters/node-affinity.js';
import { tolerated } from '../../../src/placement/filters/taints.js';
import type { Landing } from '../../../src/placement/landing.js';
import { landingOf, LandingMemo, mergeLandings, obstacleTo } from '../../../src/placement/landing.js';
import { is, named, NOW, NYDUS, ready, required, viewOf } from './classes.js';
import { node } from './nodes.js';

const GPU = { key: 'nvidia.com/gpu', value: '', effect: 'NoSchedule' };
/** Two Nydus nodes with GPUs, one plain node, one plain arm64 node. */
const NODES = [
  named('a', { pool: 'gpu', ...ready }),
  named('b', { pool: 'gpu', ...ready }),
  named('c', { pool: 'cpu' }),
  named('d', { pool: 'edge' }, { arch: 'arm64' }),
];
const land = (podSpec: object, nodes = NODES, now = NOW): Landing =>
  landingOf(constraintsOf(podSpec as never), viewOf(nodes), now);

describe('the nodes of now', () => {
  const rows: [string, object, string[] | undefined, string | undefined][] = [
    [
      'no constraint: every node',
      {},
      ['linux/amd64', 'linux/arm64'],
      '2 of the 4 nodes that the Pod can land on are not known to run nydus',
    ],
    ['a node selector', { nodeSelector: { pool: 'gpu' } }, ['linux/amd64'], undefined],
    ['the platform that a Pod demands', { nodeSelector: { 'kubernetes.io/arch': 'amd64' } }, ['linux/amd64'], '1 of the 3 nodes'],
    ['a required affinity', required(is('pool', 'gpu')), ['linux/amd64'], undefined],
    ['terms are ORed', required(is('pool', 'gpu'), is('pool', 'edge')), ['linux/amd64', 'linux/arm64'], '1 of the 3 nodes'],
    [
      'selector and affinity are ANDed',
      { nodeSelector: { pool: 'cpu' }, ...required(is('pool', 'cpu', 'gpu')) },
      ['linux/amd64'],
      '1 of the 1 nodes',
    ],
    [
      'NotIn',
      required({ matchExpressions: [{ key: 'pool', operator: 'NotIn', values: ['cpu', 'edge'] }] }),
      ['linux/amd64'],
      undefined,
    ],
    [
      'DoesNotExist',
      required({ matchExpressions: [{ key: 'example.com/nydus', operator: 'DoesNotExist' }] }),
      ['linux/amd64', 'linux/arm64'],
      '2 of the 2 nodes',
    ],
    [
      'a name of a node is not followed, so any node may have it',
      required({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['a'] }] }),
      ['linux/amd64', 'linux/arm64'],
      '2 of the 4 nodes',
    ],
    [
      'preferred affinity counts for nothing',
      {
        affinity: {
          nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: is('pool', 'gpu') }] },
        },
      },
      ['linux/amd64', 'linux/arm64'],
      '2 of the 4 nodes',
    ],
    ['no node matches', { nodeSelector: { pool: 'none' } }, undefined, 'no node of now matches'],
    ['a term without requirements matches no node, as in a Pod', required({}), undefined, 'no node of now matches'],
  ];
  test.each(rows)('%s', (_title, podSpec, platforms, now) => {
    const landing = land(podSpec);
    expect(landing.platforms).toEqual(platforms);
    if (now === undefined) expect(landing.now.nydus).toBeUndefined();
    else expect(landing.now.nydus).toContain(now);
  });

  test('a label that is not tracked may be on any node', () => {
    const far = Array.from({ length: 40 }, (_, i) => named(`n${i}`, { rack: `r${i}`, ...(i > 0 ? ready : {}) }));
    expect(land({ nodeSelector: { rack: 'r7' } }, far).now.nydus).toContain('1 of the 40 nodes');
    expect(land({ nodeSelector: { rack: 'nobody' } }, far).platforms).toEqual(['linux/amd64']);
  });
  test('a format that no capability names says so', () => {
    expect(land({}).now.overlaybd).toContain('no usable entry for it under capabilities of the configuration');
  });
  test('the message names the classes that lack the format by what tells them apart', () => {
    expect(land({}).now.nydus).toContain('pool=cpu');
    expect(land({}).now.nydus).toContain('linux/arm64');
  });
});

describe('taints', () => {
  const nodes = [named('a', { ...ready }), named('t', {}, { taints: [GPU] })];
  const exists = [{ key: 'nvidia.com/gpu', operator: 'Exists' }];
  const rows: [string, object, boolean][] = [
    ['keep a Pod away that does not tolerate them', {}, false],
    ['let in who tolerates them', { tolerations: exists }, true],
    ['let in who tolerates everything', { tolerations: [{ operator: 'Exists' }] }, true],
    ['count for nothing where the node is named already', { nodeName: 't' }, true],
    [
      'count for nothing while a Pod is gated: it may be given tolerations before it is let go',
      { schedulingGates: [{ name: 'kueue.x-k8s.io/admission' }] },
      true,
    ],
  ];
  test.each(rows)('%s', (_title, podSpec, lands) => expect(land(podSpec, nodes).now.nydus !== undefined).toBe(lands));

  const passing = ['node.cilium.io/agent-not-ready', 'karpenter.sh/disrupted', 'example.com/being-upgraded'];
  test.each(passing)('keep nobody away where they may be gone in a moment: %s', (key) => {
    const starting = [named('a', ready), named('t', {}, { arch: 'arm64', taints: [{ key, value: '', effect: 'NoExecute' }] })];
    const landing = land({}, starting);
    expect(landing.now.nydus).toContain('1 of the 2 nodes');
    expect(landing.platforms).toEqual(['linux/amd64', 'linux/arm64']);
  });
});

describe('nodes that join later', () => {
  const want = ready;
  const rows: [string, object, boolean][] = [
    ['are covered by a node selector that declares the capability', { nodeSelector: want }, true],
    ['and by one that says more', { nodeSelector: { ...want, pool: 'gpu' } }, true],
    ['by a required affinity with that one value', required(is('example.com/nydus', 'ready')), true],
    [
      'by every term, in whatever order',
      required(
        {
          matchExpressions: [
            { key: 'pool', operator: 'Exists' },
            { key: 'example.com/nydus', operator: 'In', values: ['ready'] },
          ],
        },
        is('example.com/nydus', 'ready'),
      ),
      true,
    ],
    [
      'are not by one term of two: the other is a way in too',
      required(is('example.com/nydus', 'ready'), is('pool', 'gpu')),
      false,
    ],
    ['are not by one of two values', required(is('example.com/nydus', 'ready', 'maybe')), false],
    ['are not by another value', { nodeSelector: { 'example.com/nydus': 'maybe' } }, false],
    [
      'are not by the label being there',
      required({ matchExpressions: [{ key: 'example.com/nydus', operator: 'Exists' }] }),
      false,
    ],
    [
      'are not by a label of the same nodes: a new node may have it without the snapshotter',
      { nodeSelector: { pool: 'gpu' } },
      false,
    ],
    [
      'are not by a preference',
      {
        affinity: {
          nodeAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: is('example.com/nydus', 'ready') }],
          },
        },
      },
      false,
    ],
    ['are not by a toleration', { tolerations: [{ key: 'example.com/nydus', value: 'ready' }] }, false],
    ['are not without any constraint', {}, false],
  ];
  test.each(rows)('%s', (_title, podSpec, covered) => {
    const { later } = land(podSpec);
    expect(later.nydus === undefined).toBe(covered);
    if (!covered) expect(later.nydus).toContain('require example.com/nydus: ready in the Pod');
  });

  test('are covered by either of two declared capabilities, a term each', () => {
    const other = { format: 'nydus', nodeSelector: { lazy: 'yes' } } as const;
    const constraints = constraintsOf(required(is('lazy', 'yes'), is('example.com/nydus', 'ready')) as never);
    expect(landingOf(constraints, viewOf(NODES, [NYDUS, other]), NOW).later.nydus).toBeUndefined();
    expect(landingOf(constraints, viewOf(NODES, [NYDUS]), NOW).later.nydus).toBeDefined();
  });
  test('need no declaration where the policy says that none of another kind will join', () => {
    const landing = land({ nodeSelector: { pool: 'gpu' } });
    expect(obstacleTo('nydus', landing, true)).toBeUndefined();
    expect(obstacleTo('nydus', landing, false)).toContain('a node that joins later may not run nydus');
  });
  test('which does not help against a node of now', () => {
    expect(obstacleTo('nydus', land({}), true)).toContain('2 of the 4 nodes');
  });
});

describe('a picture of the nodes that cannot be used', () => {
  const rows: [string, Landing][] = [
    ['is too old', land({ nodeSelector: { pool: 'gpu', ...ready } }, NODES, NOW + 301_000)],
    ['is absent', landingOf(constraintsOf({}), undefined, NOW)],
  ];
  test.each(rows)('%s: platforms are unknown and every format has an obstacle', (_title, landing) => {
    expect(landing.platforms).toBeUndefined();
    for (const format of ['nydus', 'overlaybd', 'estargz'] as const)
      expect(obstacleTo(format, landing, true)).toContain('the nodes are not known: ConfigMap harbinger-node-classes');
  });
  test('and so has a landing that nobody worked out', () => expect(obstacleTo('nydus', undefined, true)).toBeDefined());
});

describe('demands of a hostile Pod', () => {
  const expression = { key: 'pool', operator: 'In', values: ['cpu'] };
  const rows: [string, object][] = [
    ['10,000 terms', required(...Array.from({ length: 10_000 }, () => ({ matchExpressions: [expression] })))],
    ['10,000 requirements', required({ matchExpressions: Array.from({ length: 10_000 }, () => expression) })],
    ['100,000 values', required(is('pool', ...Array.from({ length: 100_000 }, (_, i) => `v${i}`)))],
    ['10,000 labels', { nodeSelector: Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`l${i}`, 'v'])) }],
    ['10,000 tolerations', { tolerations: Array.from({ length: 10_000 }, () => ({ key: 'x', operator: 'Exists' })) }],
  ];
  test.each(rows)('%s: it counts as able to land anywhere', (_title, podSpec) => {
    expect(constraintsOf(podSpec as never)).toEqual({ nodeSelector: {}, tolerations: [{ operator: 'Exists' }] });
    expect(land(podSpec).platforms).toEqual(['linux/amd64', 'linux/arm64']);
  });
  test('nothing makes the reader throw', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.constantFrom('affinity', 'nodeSelector', 'tolerations', 'schedulingGates', 'nodeName'),
        (value, field) => {
          land({ [field]: value });
          land(required(value as never));
        },
      ),
    );
  });
  test('the largest that is looked at costs little against 500 classes', () => {
    const nodes = Array.from({ length: 500 }, (_, i) => named(`n${i}`, { pool: `p${i % 25}`, zone: `z${i % 20}` }));
    const view = viewOf(nodes);
    const constraints = constraintsOf(required(...Array.from({ length: 150 }, () => is('pool', 'none'))) as never);
    const began = performance.now();
    for (let i = 0; i < 20; i++) landingOf(constraints, view, NOW);
    expect((performance.now() - began) / 20).toBeLessThan(50);
  });
});

describe('landings as keys and in memory', () => {
  test('equal constraints have equal keys, whatever their order and whatever else the Pod says', () => {
    const key = (podSpec: object): string => constraintKey(constraintsOf(podSpec as never));
    expect(key({ nodeSelector: { a: '1', b: '2' }, containers: [] })).toBe(key({ nodeSelector: { b: '2', a: '1' } }));
    expect(key({ nodeSelector: { a: '1' } })).not.toBe(key({ nodeSelector: { a: '2' } }));
    expect(key({})).not.toBe(key(required()));
  });
  test('landings that allow the same images have the same key, however many nodes there are', () => {
    const more = [...NODES, named('e', { pool: 'cpu' })];
    expect(land({}, more).key).toBe(land({}).key);
    expect(land({}).key).not.toBe(land({ nodeSelector: { pool: 'gpu' } }).key);
  });

  test('a memo answers alike, and anew once the picture of the nodes changes or grows old', () => {
    const memo = new LandingMemo(2);
    const spec = { nodeSelector: { pool: 'gpu' } };
    const view = viewOf(NODES);
    const first = memo.of(spec, view, NOW);
    expect(first).toEqual(land(spec));
    expect(memo.of({ ...spec }, view, NOW + 1)).toBe(first);
    expect(memo.of(spec, view, NOW + 301_000).platforms).toBeUndefined();
    expect(memo.of(spec, viewOf([named('z', { pool: 'gpu' })]), NOW).now.nydus).toContain('1 of the 1 nodes');
    expect(memo.of(spec, undefined, NOW).now.nydus).toContain('not known');
  });
  test('a memo forgets the oldest', () => {
    const memo = new LandingMemo(2);
    const view = viewOf(NODES);
    const [a, b, c] = ['gpu', 'cpu', 'edge'].map((pool) => ({ nodeSelector: { pool } })) as [object, object, object];
    const first = memo.of(a as never, view, NOW);
    memo.of(b as never, view, NOW);
    const third = memo.of(c as never, view, NOW);
    expect(memo.of(c as never, view, NOW)).toBe(third);
    expect(memo.of(a as never, view, NOW)).not.toBe(first);
  });

  test('several kinds of Pods together need what each of them needs', () => {
    const both = mergeLandings([land({ nodeSelector: ready }), land({ nodeSelector: { pool: 'edge' } })]);
    expect(both).toMatchObject({
      platforms: ['linux/amd64', 'linux/arm64'],
      now: { nydus: expect.any(String) },
      later: { nydus: expect.any(String) },
    });
    expect(mergeLandings([land({}), land({ nodeSelector: { pool: 'none' } })])?.platforms).toBeUndefined();
    expect(mergeLandings([])).toBeUndefined();
  });
});

describe('one-sided', () => {
  const key = fc.constantFrom('pool', 'zone', 'example.com/nydus', 'kubernetes.io/arch', 'unheard-of');
  const value = fc.constantFrom('a', 'b', 'ready', 'amd64', '7');
  const labels = fc.dictionary(key, value, { maxKeys: 4 });
  const effect = fc.constantFrom('NoSchedule', 'NoExecute', 'PreferNoSchedule');
  const taint = fc.record({
    key: fc.constantFrom('nvidia.com/gpu', 'spot', 'node.kubernetes.io/not-ready'),
    value: fc.constantFrom('', 'x'),
    effect,
  });
  const nodes = fc
    .array(fc.record({ labels, taints: fc.array(taint, { maxLength: 2 }), arch: fc.constantFrom('amd64', 'arm64') }), {
      minLength: 1,
      maxLength: 45,
    })
    .map((all) => all.map((n, i) => node(`n${i}`, n)));
  const requirement = fc.record({
    key,
    operator: fc.constantFrom('In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt'),
    values: fc.array(value, { maxLength: 2 }),
  });
  const field = fc.record({
    key: fc.constant('metadata.name'),
    operator: fc.constantFrom('In', 'NotIn'),
    values: fc.constantFrom(['n0'], ['n1']),
  });
  const term = fc.record({
    matchExpressions: fc.array(requirement, { maxLength: 2 }),
    matchFields: fc.array(field, { maxLength: 1 }),
  });
  const pod = fc.record({
    nodeSelector: fc.dictionary(key, value, { maxKeys: 1 }),
    terms: fc.option(fc.array(term, { minLength: 1, maxLength: 2 }), { nil: undefined }),
    tolerations: fc.array(
      fc.record({
        key: fc.constantFrom('nvidia.com/gpu', 'spot'),
        operator: fc.constantFrom('Exists', 'Equal'),
        value: fc.constantFrom('', 'x'),
      }),
      { maxLength: 2 },
    ),
  });

  test('a node that the scheduler accepts is always counted: its platform is there, and its lack of a format is an obstacle', () => {
    let accepted = 0;
    fc.assert(
      fc.property(nodes, pod, (all, { nodeSelector, terms, tolerations }) => {
        const landing = land({ nodeSelector, tolerations, ...(terms === undefined ? {} : required(...terms)) }, all);
        const fits = all.filter(
          (n) =>
            tolerated(n, tolerations) === undefined &&
            nodeAffinity(n, terms) === undefined &&
            Object.entries(nodeSelector).every(([k, v]) => n.labels[k] === v),
        );
        accepted += fits.length;
        for (const n of fits) {
          expect(landing.platforms ?? []).toContain(`linux/${n.arch}`);
          if (n.labels['example.com/nydus'] !== 'ready') expect(landing.now.nydus).toBeDefined();
        }
      }),
      { numRuns: 500 },
    );
    expect(accepted).toBeGreaterThan(100);
  });
  test('and it is exact where the labels are tracked: a Pod that demands the capability has no obstacle', () => {
    fc.assert(
      fc.property(nodes, (all) => {
        const { now, later } = land({ nodeSelector: ready, tolerations: [{ operator: 'Exists' }] }, all);
        const some = all.some((n) => n.labels['example.com/nydus'] === 'ready');
        expect([now.nydus === undefined, later.nydus]).toEqual([some, undefined]);
      }),
    );
  });
});
