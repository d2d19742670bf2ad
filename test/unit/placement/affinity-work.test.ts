import { describe, expect, test } from '@jest/globals';
import type { PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import { AffinityWork } from '../../../src/placement/affinity-work.js';
import { candidates } from '../../../src/placement/candidates.js';
import type { AffinityTerm, Requirement } from '../../../src/placement/filters/node-affinity.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { node } from './nodes.js';

type Labels = NodeFacts['labels'];

/** Nodes that count how often one of their labels is looked up. */
function countingNodes(count: number, key: string): { nodes: NodeFacts[]; looks: () => number } {
  let looks = 0;
  const labels = (name: string): Labels =>
    new Proxy<Labels>(
      { 'kubernetes.io/hostname': name, [key]: 'there' },
      {
        getOwnPropertyDescriptor: (labelsOf, wanted) => {
          if (wanted === key) looks++;
          return Reflect.getOwnPropertyDescriptor(labelsOf, wanted);
        },
      },
    );
  return {
    nodes: Array.from({ length: count }, (_, i) => node(`n${i}`, { labels: labels(`n${i}`) })),
    looks: () => looks,
  };
}

/** A list of values that counts how often one is read. */
function countingValues(count: number): { values: string[]; reads: () => number } {
  let reads = 0;
  const values = new Proxy(
    Array.from({ length: count }, (_, i) => `v${i}`),
    {
      get: (list, key, receiver): unknown => {
        if (typeof key === 'string' && /^\d+$/.test(key)) reads++;
        return Reflect.get(list, key, receiver) as unknown;
      },
    },
  );
  return { values, reads: () => reads };
}

/** True of every node until the last requirement, so that each of them is looked at. */
const term = (requirements: number, values: readonly string[] = ['x']): AffinityTerm => ({
  matchExpressions: [
    ...Array.from({ length: requirements - 1 }, (): Requirement => ({ key: 'k', operator: 'NotIn', values })),
    { key: 'k', operator: 'In', values: ['other'] },
  ],
});
const target = (affinity: AffinityTerm[]): PrewarmTarget =>
  ({ name: 'main', images: [{ reference: 'a' }], nodes: { affinity } }) as PrewarmTarget;

describe('the affinity of a target on 5,000 nodes', () => {
  test('is not compared at all where it is as large as its object may be: any node counts', () => {
    const { nodes, looks } = countingNodes(5_000, 'k');
    const values = Array.from({ length: 1_000 }, (_, i) => `v${i}`);
    const hostile = Array.from({ length: 20 }, () => term(50, values));
    const found = candidates(target(hostile), nodes);
    expect([found.nodes.length, looks()]).toEqual([5_000, 0]);
  });
  test('is compared once with each requirement where it is as large as is weighed, and is exact then', () => {
    const { nodes, looks } = countingNodes(5_000, 'k');
    const found = candidates(target([term(128), term(128)]), nodes);
    expect([found.nodes.length, looks()]).toEqual([0, 256 * 5_000]);
  });
  test('has its values read once, and not once for each node', () => {
    const { values, reads } = countingValues(1_000);
    const { nodes } = countingNodes(5_000, 'k');
    expect(candidates(target([term(2, values)]), nodes).nodes).toHaveLength(0);
    expect(reads()).toBeLessThanOrEqual(1_000);
  });
  test('is weighed with the same answer whether its values are few or many', () => {
    const { nodes } = countingNodes(3, 'k');
    const many = Array.from({ length: 100 }, (_, i) => `v${i}`);
    const nodesFor = (operator: string, values: string[]): number =>
      candidates(target([{ matchExpressions: [{ key: 'k', operator, values }] }]), nodes).nodes.length;
    expect([nodesFor('In', [...many, 'there']), nodesFor('In', many)]).toEqual([3, 0]);
    expect([nodesFor('NotIn', [...many, 'there']), nodesFor('NotIn', many)]).toEqual([0, 3]);
  });
  test('is left out where the plan has no time for it: a superset, and nothing else changes', () => {
    const nodes = [node('a'), node('b', { labels: { k: 'other' } }), node('c', { unschedulable: true })];
    const of = (anyNode: boolean): string[] => candidates(target([term(1)]), nodes, { anyNode }).nodes.map((n) => n.name);
    expect([of(false), of(true)]).toEqual([['b'], ['a', 'b']]);
  });
});

test('other parts of a target are worked out once for all nodes too', () => {
  const { nodes } = countingNodes(100, 'k');
  let listed = 0;
  const counting = <T extends object>(object: T): T =>
    new Proxy(object, { ownKeys: (inner) => (listed++, Reflect.ownKeys(inner)) });
  const requests = counting({ cpu: 1, 'example.com/none': 0 });
  const selector = { matchLabels: counting({ k: 'there' }) };
  const named = { name: 'main', images: [{ reference: 'a' }], nodes: { selector } };
  expect(candidates(named, nodes, { requests }).nodes).toHaveLength(100);
  expect(listed).toBeLessThan(10);
});

describe('what a plan spends on large affinities', () => {
  const large = [term(200)];
  test('ends for a namespace long before it ends for all', () => {
    const work = new AffinityWork();
    const served = (namespace: string): number =>
      Array.from({ length: 20 }, () => work.spend(namespace, large, 5_000)).filter(Boolean).length;
    expect([served('hostile'), served('other')]).toEqual([2, 2]);
  });
  test('ends for all, however many namespaces there are', () => {
    const work = new AffinityWork();
    const served = Array.from({ length: 1_000 }, (_, i) => work.spend(`n${i}`, large, 5_000)).filter(Boolean).length;
    expect(served).toBe(5);
    // The control: what people write is weighed whatever others spent.
    expect([work.spend('last', [term(32)], 5_000), work.spend('last', undefined, 5_000)]).toEqual([true, true]);
  });
});
