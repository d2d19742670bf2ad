import { describe, expect, test } from '@jest/globals';
import { classify } from '../../../src/placement/classify.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { encodeNodeClasses } from '../../../src/placement/node-classes.js';
import { NOW, NYDUS, viewOf } from './classes.js';
import { node } from './nodes.js';

const pool = (name: string, labels: Record<string, string>, more: Partial<NodeFacts> = {}): NodeFacts =>
  node(name, { labels: { 'kubernetes.io/hostname': name, ...labels }, ...more });
/** More nodes than a label may have values to be followed by itself, so that their names are not. */
const many = (count: number, of: (i: number) => Record<string, string>, more: Partial<NodeFacts> = {}): NodeFacts[] =>
  Array.from({ length: count }, (_, i) => pool(`n${i}`, of(i), more));

const READY = { 'example.com/nydus': 'ready' };

describe('classes of nodes', () => {
  test('are few where nodes are alike, however many nodes there are', () => {
    const nodes = [
      ...many(3000, () => ({ pool: 'cpu' })),
      ...many(2000, () => ({ pool: 'gpu', 'example.com/nydus': 'ready' }), { arch: 'arm64' }),
    ];
    const { tracked, classes, notes } = classify({
      nodes,
      capabilities: [NYDUS],
      keys: ['example.com/nydus'],
      lastingTaints: [],
      now: NOW,
    });
    expect(classes).toEqual([
      {
        labels: { 'example.com/nydus': 'ready', pool: 'gpu' },
        taints: [],
        platform: 'linux/arm64',
        formats: ['nydus'],
        count: 2000,
      },
      { labels: { pool: 'cpu' }, taints: [], platform: 'linux/amd64', formats: [], count: 3000 },
    ]);
    expect(tracked).toEqual(['example.com/nydus', 'kubernetes.io/os', 'kubernetes.io/arch', 'pool']);
    expect(notes).toEqual([]);
  });

  test('are the same whatever the order of nodes', () => {
    const nodes = many(60, (i) => ({ pool: `p${i % 7}`, zone: `z${i % 3}` }));
    expect(viewOf([...nodes].reverse()).classes).toEqual(viewOf(nodes).classes);
  });

  const taint = (key: string, effect = 'NoSchedule'): NodeFacts['taints'][number] => ({ key, value: '', effect });
  const taints: [string, NodeFacts['taints'], string[]][] = [
    [
      'those that come and go with a kind of machine',
      [taint('nvidia.com/gpu'), taint('node-role.kubernetes.io/control-plane'), taint('node-role.kubernetes.io/master')],
      ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master', 'nvidia.com/gpu'],
    ],
    ['those that evict', [taint('nvidia.com/gpu', 'NoExecute')], ['nvidia.com/gpu']],
    ['not those that only advise', [taint('nvidia.com/gpu', 'PreferNoSchedule')], []],
    ...[
      'node.kubernetes.io/not-ready',
      'node.kubernetes.io/disk-pressure',
      'node.kubernetes.io/unschedulable',
      'node.kubernetes.io/out-of-service',
      'node.cloudprovider.kubernetes.io/uninitialized',
      'ToBeDeletedByClusterAutoscaler',
      'DeletionCandidateOfClusterAutoscaler',
      'node.cilium.io/agent-not-ready',
      'karpenter.sh/disrupted',
      'karpenter.sh/unregistered',
      'ebs.csi.aws.com/agent-not-ready',
      'example.com/maintenance',
    ].map((key): [string, NodeFacts['taints'], string[]] => [
      `not ${key}, which nobody calls lasting`,
      [taint(key), taint(key, 'NoExecute')],
      [],
    ]),
  ];
  test.each(taints)('have taints: %s', (_title, given, keys) => {
    expect(viewOf([node('n', { taints: given })]).classes[0]?.taints.map((t) => t.key)).toEqual(keys);
  });
  test('have the taints that the configuration calls lasting, and then no others', () => {
    const nodes = [node('n', { taints: [taint('team'), taint('nvidia.com/gpu'), taint('node.cilium.io/agent-not-ready')] })];
    const { classes } = classify({ nodes, capabilities: [], keys: [], lastingTaints: ['team'], now: NOW });
    expect(classes[0]?.taints).toEqual([taint('team')]);
  });
  test('stay one while nodes differ by passing taints only', () => {
    expect(viewOf([node('a', { labels: {} }), node('b', { labels: {}, taints: [taint('x')] })]).classes).toHaveLength(1);
  });
  test('tell apart which of them fetch private images', () => {
    const own = { format: 'nydus', nodeSelector: { keys: 'yes' }, privateImages: true } as const;
    const nodes = [pool('a', { ...READY, keys: 'yes' }), pool('b', READY), pool('c', {})];
    const { classes, capabilities } = viewOf(nodes, [NYDUS, own]);
    expect(classes.map(({ formats, privateFormats }) => [formats, privateFormats]).sort()).toEqual([
      [[], undefined],
      [['nydus'], undefined],
      [['nydus'], ['nydus']],
    ]);
    expect(capabilities).toEqual([NYDUS, own]);
  });

  test('take in nodes that are cordoned or not ready: they may be back when the Pod is placed', () => {
    expect(
      viewOf([node('a', { unschedulable: true }), node('b', { ready: false })]).classes.reduce((n, c) => n + c.count, 0),
    ).toBe(2);
  });
  test('are none where there are no nodes', () => expect(viewOf([])).toMatchObject({ classes: [], notes: [] }));
});

describe('classes that become too many', () => {
  const tooMany = many(900, (i) => ({
    rack: `r${i % 600}`,
    pool: `p${i % 3}`,
    'example.com/nydus': i % 2 === 0 ? 'ready' : 'no',
  }));
  const sum = (classes: readonly { count: number }[]): number => classes.reduce((n, c) => n + c.count, 0);

  test('lose the label that makes them so, which is said', () => {
    const keys = ['example.com/nydus', 'rack'];
    const { classes, tracked, notes } = classify({ nodes: tooMany, capabilities: [NYDUS], keys, lastingTaints: [], now: NOW });
    expect(tracked).toEqual(expect.arrayContaining(['example.com/nydus', 'pool']));
    expect(tracked).not.toContain('rack');
    expect(notes).toEqual([expect.stringContaining('label rack is not tracked: with it there are more than 500 classes')]);
    expect({ classes: classes.length, nodes: sum(classes) }).toEqual({ classes: 6, nodes: 900 });
  });
  test('lose no label that leaves 500 of them', () => {
    const nodes = many(500, (i) => ({ rack: `r${i}` }));
    const { classes, notes } = classify({ nodes, capabilities: [], keys: ['rack'], lastingTaints: [], now: NOW });
    expect({ classes: classes.length, notes }).toEqual({ classes: 500, notes: [] });
  });
  test('lose their taints where those alone make too many', () => {
    const nodes = Array.from({ length: 501 }, (_, i) =>
      node(`n${i}`, { labels: {}, taints: [{ key: 'owner', value: `o${i}`, effect: 'NoSchedule' }] }),
    );
    const { classes, notes } = classify({ nodes, capabilities: [], keys: [], lastingTaints: ['owner'], now: NOW });
    expect(classes).toEqual([{ labels: {}, taints: [], platform: 'linux/amd64', formats: [], count: 501 }]);
    expect(notes).toEqual([expect.stringContaining('taints are not told apart')]);
  });
  test('are given up where platforms alone make too many, and then nothing is claimed', () => {
    const nodes = Array.from({ length: 501 }, (_, i) => node(`n${i}`, { labels: {}, arch: `a${i}` }));
    expect(classify({ nodes, capabilities: [], keys: [], lastingTaints: [], now: NOW })).toMatchObject({
      tracked: [],
      classes: [],
      notes: [{}, {}],
    });
  });
  test('stay within what one object may hold, whatever labels say', () => {
    const long = (i: number, j: number): [string, string] => [
      `k${j}.example.com/${'x'.repeat(60)}`,
      `${i % 20}${'v'.repeat(60)}`,
    ];
    const nodes = many(2000, (i) => ({
      ...Object.fromEntries(Array.from({ length: 60 }, (_, j) => long(i * (j + 1), j))),
      'example.com/nydus': 'ready',
    }));
    const view = viewOf(nodes);
    expect(JSON.stringify(encodeNodeClasses(view)).length).toBeLessThan(512 * 1024);
    expect(view.classes.length).toBeGreaterThan(1);
    expect(sum(view.classes)).toBe(2000);
  });
  test('are found for 5,000 nodes with 60 labels in well under a second', () => {
    const nodes = many(5000, (i) => Object.fromEntries(Array.from({ length: 60 }, (_, j) => [`l${j}`, `v${(i * j) % 7}`])));
    const began = performance.now();
    viewOf(nodes);
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});
