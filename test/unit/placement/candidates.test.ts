import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import type { CandidateOptions } from '../../../src/placement/candidates.js';
import { candidates } from '../../../src/placement/candidates.js';
import { nodeFacts } from '../../../src/placement/node-facts.js';
import { tolerates } from '../../../src/placement/filters/taints.js';
import { node } from './nodes.js';

const target = (nodes: PrewarmTarget['nodes'], more: Partial<PrewarmTarget> = {}): PrewarmTarget => ({
  name: 'main',
  images: [{ reference: 'a' }],
  nodes,
  ...more,
});
const GPU = { key: 'nvidia.com/gpu', value: '', effect: 'NoSchedule' };

describe('why a node is out', () => {
  const rows: [string, ReturnType<typeof node>, Partial<PrewarmTarget>, CandidateOptions, string | undefined][] = [
    ['nothing against it', node('n'), {}, {}, undefined],
    ['cordoned', node('n', { unschedulable: true }), {}, {}, 'it is cordoned'],
    ['a cordon that Pods tolerate', node('n', { unschedulable: true }), { tolerations: [{ operator: 'Exists' }] }, {}, undefined],
    [
      'pressure, whatever Pods tolerate',
      node('n', { pressure: ['MemoryPressure'] }),
      { tolerations: [{ operator: 'Exists' }] },
      {},
      'it has MemoryPressure',
    ],
    ['a virtual node', node('n', { labels: { type: 'virtual-kubelet' } }), {}, {}, 'it is a virtual node (type=virtual-kubelet)'],
    ['another system', node('n', { os: 'windows' }), {}, {}, 'it runs windows, and pullers run on linux only'],
    [
      'a taint of NoExecute',
      node('n', { taints: [{ ...GPU, effect: 'NoExecute' }] }),
      {},
      {},
      'its taint nvidia.com/gpu:NoExecute is not tolerated',
    ],
    [
      'a taint that the RuntimeClass tolerates',
      node('n', { taints: [GPU] }),
      {},
      { runtimeClass: { name: 'c', tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }] } },
      undefined,
    ],
    [
      'what the RuntimeClass does not select',
      node('n', { labels: { pool: 'b' } }),
      {},
      { runtimeClass: { name: 'c', nodeSelector: { pool: 'a' }, tolerations: [] } },
      'its RuntimeClass asks for nodes with pool=a',
    ],
    ['no room for any Pod', node('n', { allocatable: { cpu: 8, pods: 0 } }), {}, {}, 'it cannot hold a Pod: pods allocatable 0'],
    ['exactly enough', node('n', { allocatable: { cpu: 0.3 } }), {}, { requests: { cpu: 0.1 + 0.1 + 0.1 } }, undefined],
    ['disk pressure', node('n', { pressure: ['DiskPressure'] }), {}, {}, 'it has DiskPressure'],
    ['a taint', node('n', { taints: [GPU] }), {}, {}, 'its taint nvidia.com/gpu:NoSchedule is not tolerated'],
    [
      'a tolerated taint',
      node('n', { taints: [GPU] }),
      { tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists' }] },
      {},
      undefined,
    ],
    ['PreferNoSchedule', node('n', { taints: [{ ...GPU, effect: 'PreferNoSchedule' }] }), {}, {}, undefined],
    [
      'a control plane',
      node('n', { labels: { 'node-role.kubernetes.io/control-plane': '' } }),
      {},
      {},
      'it is a control plane node',
    ],
    ['the exclude label', node('n', { labels: { 'harbinger.dev/exclude': '' } }), {}, {}, 'it is labelled harbinger.dev/exclude'],
    ['the exclude label of false', node('n', { labels: { 'harbinger.dev/exclude': 'false' } }), {}, {}, undefined],
    [
      'outside nodes.allow',
      node('n'),
      {},
      { allow: { matchLabels: { pool: 'gpu' } } },
      'it is outside nodes.allow of the configuration',
    ],
    [
      'in nodes.exclude',
      node('n', { labels: { pool: 'infra' } }),
      {},
      { exclude: { matchLabels: { pool: 'infra' } } },
      'it is in nodes.exclude of the configuration',
    ],
    ['too small', node('n'), {}, { requests: { cpu: 9 } }, 'it cannot hold a Pod: cpu allocatable 8, requested 9'],
    [
      'without the device',
      node('n'),
      {},
      { requests: { 'nvidia.com/gpu': 8 } },
      'it cannot hold a Pod: nvidia.com/gpu allocatable 0, requested 8',
    ],
    [
      'affinity that does not match',
      node('n'),
      { nodes: { affinity: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] }] } },
      {},
      'its labels do not match the node selector or required node affinity',
    ],
    [
      'an empty affinity term matches nothing, as in a Pod',
      node('n'),
      { nodes: { affinity: [{}] } },
      {},
      'its labels do not match the node selector or required node affinity',
    ],
  ];
  test.each(rows)('%s', (...[, facts, change, options, reason]) => {
    const found = candidates(target({ selector: {} }, change), [facts], options);
    expect(Object.keys(found.reasons)).toEqual(reason === undefined ? [] : [reason]);
    expect(found.nodes).toHaveLength(reason === undefined ? 1 : 0);
  });
});

test('of two sound nodes, a virtual, an unready, a cordoned and a windows one the gang of two is warmed on the sound ones', () => {
  const nodes = [
    node('a'),
    node('b'),
    node('virtual', { labels: { type: 'virtual-kubelet' } }),
    node('unready', { ready: false }),
    node('cordoned', { unschedulable: true }),
    node('windows', { os: 'windows' }),
  ];
  const found = candidates(target({ selector: {}, count: 2 }), nodes);
  expect(found).toMatchObject({ needed: 2, nodes: [{ name: 'a' }, { name: 'b' }], unready: [{ name: 'unready' }] });
  expect(Object.values(found.reasons)).toEqual([1, 1, 1]);
});

describe('required node affinity', () => {
  const rows: [string, string, string[] | undefined, boolean][] = [
    ['In', 'In', ['7', 'x'], true],
    ['In, another value', 'In', ['8'], false],
    ['NotIn', 'NotIn', ['8'], true],
    ['NotIn, that value', 'NotIn', ['7'], false],
    ['Exists', 'Exists', undefined, true],
    ['DoesNotExist', 'DoesNotExist', undefined, false],
    ['Gt', 'Gt', ['6'], true],
    ['Gt, equal', 'Gt', ['7'], false],
    ['Lt', 'Lt', ['8'], true],
    ['Lt of a text', 'Lt', ['x'], false],
  ];
  test.each(rows)('%s', (_title, operator, values, matches) => {
    const expression = { key: 'rank', operator: operator as 'In', ...(values === undefined ? {} : { values }) };
    const found = candidates(target({ affinity: [{ matchExpressions: [expression] }] }), [node('n', { labels: { rank: '7' } })]);
    expect(found.nodes).toHaveLength(matches ? 1 : 0);
  });
  test('NotIn and DoesNotExist hold where the label is absent', () => {
    for (const operator of ['NotIn', 'DoesNotExist'] as const) {
      const term = { matchExpressions: [{ key: 'absent', operator, ...(operator === 'NotIn' ? { values: ['x'] } : {}) }] };
      expect(candidates(target({ affinity: [term] }), [node('n')]).nodes).toHaveLength(1);
    }
  });
  test('terms are ORed and fields name nodes', () => {
    const field = (name: string) => ({
      matchFields: [{ key: 'metadata.name' as const, operator: 'In' as const, values: [name] }],
    });
    const found = candidates(target({ affinity: [field('a'), field('c')] }), [node('a'), node('b'), node('c')]);
    expect(found.nodes.map((n) => n.name)).toEqual(['a', 'c']);
  });
});

describe('how many nodes are needed', () => {
  const three = [node('c'), node('a'), node('b')];
  const rows: [string, PrewarmTarget['nodes'], CandidateOptions, { nodes: string[]; needed: number; absent: string[] }][] = [
    ['all of a selector', { selector: {} }, {}, { nodes: ['a', 'b', 'c'], needed: 3, absent: [] }],
    ['as many as the gang has Pods', { selector: {}, count: 2 }, {}, { nodes: ['a', 'b', 'c'], needed: 2, absent: [] }],
    ['and spares', { selector: {}, count: 1 }, { spare: 1 }, { nodes: ['a', 'b', 'c'], needed: 2, absent: [] }],
    ['never more than there are', { selector: {}, count: 64 }, {}, { nodes: ['a', 'b', 'c'], needed: 3, absent: [] }],
    ['none for a gang of none', { selector: {}, count: 0 }, {}, { nodes: ['a', 'b', 'c'], needed: 0, absent: [] }],
    ['named nodes that are absent are still needed', { names: ['a', 'zz'] }, {}, { nodes: ['a'], needed: 2, absent: ['zz'] }],
    ['a node that is named twice counts once', { names: ['a', 'a'] }, {}, { nodes: ['a'], needed: 1, absent: [] }],
  ];
  test.each(rows)('%s', (_title, nodes, options, expected) => {
    const found = candidates(target(nodes), three, options);
    expect({ nodes: found.nodes.map((n) => n.name), needed: found.needed, absent: found.absent }).toEqual(expected);
  });

  test('an unready node is needed and cannot be warmed', () => {
    const found = candidates(target({ selector: {} }), [node('a'), node('b', { ready: false })]);
    expect(found).toMatchObject({ needed: 2, nodes: [{ name: 'a' }], unready: [{ name: 'b' }] });
  });
  test('who names a tainted node has decided; a control plane stays out', () => {
    const nodes = [node('a', { taints: [GPU] }), node('cp', { labels: { 'node-role.kubernetes.io/control-plane': '' } })];
    const found = candidates(target({ names: ['a', 'cp'] }), nodes);
    expect(found.nodes.map((n) => n.name)).toEqual(['a']);
    expect(found.refused).toEqual([{ node: 'cp', reason: 'it is a control plane node' }]);
  });
  test('a selector that cannot be evaluated selects nothing and says so', () => {
    const selector = { matchExpressions: [{ key: 'a b', operator: 'Exists' as const }] };
    expect(candidates(target({ selector }), three)).toMatchObject({
      nodes: [],
      needed: 0,
      problem: expect.stringContaining('"a b" is not a label key'),
    });
  });
});

describe('tolerations', () => {
  const taint = { key: 'k', value: '5', effect: 'NoSchedule' };
  const rows: [string, Parameters<typeof tolerates>[0], boolean][] = [
    ['key and value', { key: 'k', operator: 'Equal', value: '5' }, true],
    ['Equal is the default', { key: 'k', value: '5' }, true],
    ['another value', { key: 'k', value: '6' }, false],
    ['another effect', { key: 'k', operator: 'Exists', effect: 'NoExecute' }, false],
    ['everything', { operator: 'Exists' }, true],
    ['no key needs Exists', { value: '5' }, false],
    ['Gt: the taint is greater', { key: 'k', operator: 'Gt', value: '4' }, true],
    ['Lt: it is not less', { key: 'k', operator: 'Lt', value: '4' }, false],
    ['an unknown operator tolerates nothing', { key: 'k', operator: 'Like', value: '5' }, false],
  ];
  test.each(rows)('%s', (_title, toleration, expected) => expect(tolerates(toleration, taint)).toBe(expected));
});

test('property: the order of nodes and a restart change nothing', () => {
  const nodes = Array.from({ length: 8 }, (_, i) => node(`n${i}`, { ready: i % 3 !== 0, unschedulable: i === 4 }));
  fc.assert(
    fc.property(fc.shuffledSubarray(nodes, { minLength: 8 }), (shuffled) => {
      expect(candidates(target({ selector: {}, count: 3 }), shuffled)).toEqual(
        candidates(target({ selector: {}, count: 3 }), nodes),
      );
    }),
  );
});

describe('facts of a Node', () => {
  test('are read', () => {
    const facts = nodeFacts({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'n', uid: 'u', labels: { a: 'b' }, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: { unschedulable: true, taints: [{ key: 'k', effect: 'NoSchedule' }] },
      status: {
        conditions: [
          { type: 'Ready', status: 'True', message: 'ok' },
          { type: 'DiskPressure', status: 'True' },
          { type: 'MemoryPressure', status: 'False' },
        ],
        allocatable: { cpu: '7500m', 'ephemeral-storage': '10Gi', odd: 'many' },
        nodeInfo: { operatingSystem: 'linux', architecture: 'arm64' },
      },
    });
    expect(facts).toMatchObject({
      ready: true,
      unschedulable: true,
      pressure: ['DiskPressure'],
      allocatable: { cpu: 7.5, 'ephemeral-storage': 10 * 2 ** 30 },
      os: 'linux',
      arch: 'arm64',
      taints: [{ key: 'k', value: '', effect: 'NoSchedule' }],
    });
    expect(facts.allocatable).not.toHaveProperty('odd');
  });
  test('a node that is being deleted or says nothing is not Ready', () => {
    const bare = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } };
    expect(nodeFacts(bare).ready).toBe(false);
    const going = {
      ...bare,
      metadata: { name: 'n', deletionTimestamp: 'x' },
      status: { conditions: [{ type: 'Ready', status: 'True' }] },
    };
    expect(nodeFacts(going).ready).toBe(false);
  });
});
