import { expect, test } from '@jest/globals';
import { Machine } from '../../chaos/sim/models/machine.js';
import { NodeController, daemonSets, scheduler } from '../../chaos/sim/models/nodes.js';
import { SimRegistry } from '../../chaos/sim/models/registry.js';
import type { World } from '../../chaos/sim/models/world.js';
import { RESOURCE, SYSTEM } from '../../chaos/sim/models/world.js';
import { Random } from '../../chaos/sim/random.js';
import { Store } from '../../chaos/sim/store/store.js';
import { Timeline } from '../../chaos/sim/timeline.js';

const REPOSITORY = 'r.test/x';
const NAMES = ['a', 'b', 'c'];

/** A cluster of three machines with one DaemonSet of pullers, which names no node yet. */
function cluster() {
  const timeline = new Timeline(Date.parse('2026-01-01T00:00:00Z'));
  const random = new Random(1);
  const store = new Store({ now: () => timeline.now, random: () => random.next() });
  const registry = new SimRegistry(timeline, random.fork());
  const byHand: World['byHand'] = { nodes: new Map(), pods: new Set() };
  const truths = { images: [], pulls: [] as World['pulls'], silences: [] };
  const world: World = { timeline, store, random, registry, ...truths, byHand, note: () => undefined };
  const machines = NAMES.map((name) => [name, new Machine(name, world)] as const);
  const nodes = new NodeController(world, new Map(machines));
  for (const [, machine] of machines) machine.join();
  scheduler(world);
  daemonSets(world);
  store.create(RESOURCE.namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM } });
  const reference = `${REPOSITORY}@${registry.push(REPOSITORY, 'v1', 1_000_000)}`;
  const spec = (names: readonly string[]) => {
    const terms = names.map((name) => ({ matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }] }));
    const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
    const [containers, volumes] = [[{ name: 'puller', image: 'p' }], [{ name: 'image', image: { reference } }]];
    return { template: { spec: { affinity: { nodeAffinity: required }, containers, volumes } } };
  };
  const draft = { apiVersion: 'apps/v1', kind: 'DaemonSet', metadata: { name: 'p', namespace: SYSTEM }, spec: spec([]) };
  const { uid = '' } = store.create(RESOURCE.daemonSets, draft).metadata;
  const write = (names: readonly string[]): void =>
    void store.patch(RESOURCE.daemonSets, { namespace: SYSTEM, name: 'p' }, { type: 'merge', body: { spec: spec(names) } });
  const run = (seconds: number): Promise<void> => timeline.run(timeline.now + seconds * 1_000);
  const begun = (): string[][] => truths.pulls.map(({ node, begunBy }) => [node, begunBy]);
  const writeByHand = (names: readonly string[], added: string): void => {
    write(names);
    byHand.nodes.set(uid, new Set([added]));
  };
  return { registry, machines: new Map(machines), nodes, write, writeByHand, run, begun };
}

test('a node that a person writes into a set is pulled by a person, also where Harbinger keeps it; others are granted', async () => {
  const { write, writeByHand, run, begun } = cluster();
  await run(60);
  write(['a']);
  await run(60);
  writeByHand(['a', 'b'], 'b');
  write(['a', 'b']);
  await run(60);
  write(['a', 'b', 'c']);
  await run(60);
  expect(begun()).toEqual([
    ['a', 'planner'],
    ['b', 'person'],
    ['c', 'planner'],
  ]);
});

test('a node that was taken out before its Pod came is granted when the planner comes to it', async () => {
  const { write, writeByHand, run, begun } = cluster();
  await run(60);
  writeByHand(['b'], 'b');
  write([]);
  await run(60);
  write(['b']);
  await run(60);
  expect(begun()).toEqual([['b', 'planner']]);
});

test.each([
  { case: 'stays in the set', taken: false, by: 'person' },
  { case: 'is taken out before it comes back', taken: true, by: 'planner' },
])('a node that a person writes into a set while it is away, and that $case, is pulled by a $by', async ({ taken, by }) => {
  const { nodes, write, writeByHand, run, begun } = cluster();
  await run(60);
  nodes.lose('b', { goesAfterMs: 1_000, backAfterMs: 30_000 });
  await run(10);
  writeByHand(['b'], 'b');
  await run(10);
  if (taken) write([]);
  await run(60);
  write(['b']);
  await run(60);
  expect(begun()).toEqual([['b', by]]);
});

test('a node that a person writes back into a set while its Pod still ends is pulled by a person', async () => {
  const { machines, write, writeByHand, run, begun } = cluster();
  await run(60);
  machines.get('b')?.silence();
  write(['b']);
  await run(10);
  write([]);
  await run(10);
  writeByHand(['b'], 'b');
  await run(10);
  machines.get('b')?.speak();
  await run(60);
  expect(begun()).toEqual([['b', 'person']]);
});

test('a kubelet begins by itself what failed before', async () => {
  const { registry, write, run, begun } = cluster();
  await run(60);
  write(['a']);
  await run(2);
  registry.trouble(REPOSITORY, 'down');
  write(['a', 'b']);
  await run(5);
  registry.trouble(REPOSITORY, undefined);
  await run(60);
  expect(begun()).toEqual([
    ['a', 'planner'],
    ['b', 'kubelet'],
  ]);
});
