import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { candidates } from '../../../src/placement/candidates.js';
import { schedulerUnits } from '../../../src/placement/scheduler-units.js';
import type { PodState, PodUse } from '../../../src/placement/usage.js';
import { NodeUsage } from '../../../src/placement/usage.js';
import { node } from './nodes.js';

const STATES: readonly PodState[] = ['waiting', 'starting', 'running', 'leaving', 'done', 'over'];

const pod = (on: string, requests: Record<string, number> = {}, change: Partial<PodUse> & { gangs?: string[] } = {}): PodUse => {
  const { gangs = [], ...rest } = change;
  const shape = { requests: schedulerUnits(requests), gangs, images: [], undecided: [] };
  return { namespace: 'team', node: on, state: 'running', createdAt: 0, shape, ...rest };
};
const usageOf = (...pods: PodUse[]): NodeUsage => {
  const usage = new NodeUsage();
  for (const p of pods) usage.note(p, undefined);
  return usage;
};
const big = node('n', { allocatable: { cpu: 8, 'nvidia.com/gpu': 8, pods: 4 } });

describe('how near a node is to taking a Pod of 4 cores', () => {
  const rows: [string, PodUse[], { class: 0 | 1 | 2; missing: number }][] = [
    ['an empty node takes it', [], { class: 0, missing: 0 }],
    ['one with room takes it', [pod('n', { cpu: 4 })], { class: 0, missing: 0 }],
    ['a thousandth of a core too much is too much', [pod('n', { cpu: 4.001 })], { class: 2, missing: 1 / 8000 }],
    ['what is being deleted leaves soon', [pod('n', { cpu: 8 }, { state: 'leaving' })], { class: 1, missing: 0.5 }],
    ['what runs stays', [pod('n', { cpu: 8 })], { class: 2, missing: 0.5 }],
    ['a Pod that has failed takes nothing', [pod('n', { cpu: 8 }, { state: 'over' })], { class: 0, missing: 0 }],
    ['nor does one that ran to its end', [pod('n', { cpu: 8 }, { state: 'done' })], { class: 0, missing: 0 }],
    ['a Pod that is not bound takes nothing', [pod('', { cpu: 8 }, { state: 'waiting' })], { class: 0, missing: 0 }],
    ['a Pod that fails to start takes its share', [pod('n', { cpu: 8 }, { state: 'waiting' })], { class: 2, missing: 0.5 }],
    ['Pods of another node do not count', [pod('m', { cpu: 8 })], { class: 0, missing: 0 }],
    ['a node that is full of Pods has no room', [1, 2, 3, 4].map(() => pod('n')), { class: 2, missing: 0.25 }],
    ['a resource that it does not ask for may be used up', [pod('n', { 'nvidia.com/gpu': 8 })], { class: 0, missing: 0 }],
  ];
  test.each(rows)('%s', (_title, pods, expected) => {
    const room = usageOf(...pods).roomFor(big, { cpu: 4 });
    expect(room.class).toBe(expected.class);
    expect(room.missing).toBeCloseTo(expected.missing, 6);
  });
  test('tenths of cores that add up to a whole one leave no rest', () => {
    const usage = usageOf(...Array.from({ length: 3 }, () => pod('n', { cpu: 0.1 })));
    expect(usage.roomFor(node('n', { allocatable: { cpu: 0.4, pods: 110 } }), { cpu: 0.1 }).class).toBe(0);
    expect(usage.roomFor(node('n', { allocatable: { cpu: 0.399, pods: 110 } }), { cpu: 0.1 }).class).toBe(2);
  });
});

describe('busy nodes', () => {
  const isGang = (namespace: string, uid: string): boolean => namespace === 'team' && uid === 'gang';
  const rows: [string, PodUse, boolean][] = [
    ['where a Pod is starting', pod('n', {}, { state: 'starting' }), true],
    ['where a Pod of a gang runs', pod('n', {}, { gangs: ['other', 'gang'] }), true],
    [
      'not where a Pod of another namespace says that it is of that gang',
      { ...pod('n', {}, { gangs: ['gang'] }), namespace: 'other' },
      false,
    ],
    ['not where other Pods run', pod('n', {}, { gangs: ['other'] }), false],
    ['not where a gang has ended', pod('n', {}, { gangs: ['gang'], state: 'over' }), false],
    ['not where a Pod has failed to start', pod('n', {}, { state: 'waiting' }), false],
  ];
  test.each(rows)('%s', (_title, use, busy) => expect([...usageOf(use).busy(isGang)]).toEqual(busy ? ['n'] : []));
});

test('candidates come by room: now, soon, least missing, then name', () => {
  const names = ['full', 'half', 'later', 'soon', 'b-free', 'a-free'];
  const nodes = names.map((name) => node(name, { allocatable: { cpu: 8, pods: 110 } }));
  const usage = usageOf(
    pod('full', { cpu: 8 }),
    pod('half', { cpu: 5 }),
    pod('later', { cpu: 6 }),
    pod('soon', { cpu: 8 }, { state: 'leaving' }),
    pod('b-free', { cpu: 4 }),
  );
  const target = { name: 'main', images: [{ reference: 'a' }], nodes: { selector: {}, count: 2 } };
  const found = candidates(target, nodes, { usage, requests: { cpu: 4 } });
  expect(found.nodes.map((n) => n.name)).toEqual(['a-free', 'b-free', 'soon', 'half', 'later', 'full']);
  expect(candidates(target, [...nodes].reverse(), { usage, requests: { cpu: 4 } }).nodes).toEqual(found.nodes);
  // Without usage nothing but the name orders them.
  expect(candidates(target, nodes, { requests: { cpu: 4 } }).nodes.map((n) => n.name)).toEqual([...names].sort());
});

test('property: sums that were kept up by changes are those of a recount, whatever happened', () => {
  const use = fc.record({
    key: fc.integer({ min: 0, max: 5 }),
    on: fc.constantFrom('', 'a', 'b'),
    cpu: fc.integer({ min: 0, max: 30 }).map((n) => n / 10),
    state: fc.constantFrom(...STATES),
    gang: fc.constantFrom('g', 'h'),
    gone: fc.boolean(),
  });
  const nodes = ['a', 'b'].map((name) => node(name, { allocatable: { cpu: 4, pods: 3 } }));
  fc.assert(
    fc.property(fc.array(use, { maxLength: 40 }), (changes) => {
      const usage = new NodeUsage();
      const pods = new Map<number, PodUse>();
      for (const { key, on, cpu, state, gang, gone } of changes) {
        const before = pods.get(key);
        const now = gone ? undefined : pod(on, { cpu }, { state, gangs: [gang] });
        usage.note(now, before);
        if (now === undefined) pods.delete(key);
        else pods.set(key, now);
      }
      const recount = usageOf(...pods.values());
      for (const n of nodes)
        for (const cpu of [0, 0.5, 2, 4]) expect(usage.roomFor(n, { cpu })).toEqual(recount.roomFor(n, { cpu }));
      const isGang = (_namespace: string, uid: string): boolean => uid === 'g';
      expect([...usage.busy(isGang)].sort()).toEqual([...recount.busy(isGang)].sort());
    }),
  );
});
