import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { candidates } from '../../../src/placement/candidates.js';
import { FAILING_FREE } from '../../../src/preheat/budgets.js';
import type { Event, Unanswered, Wish } from './cluster-model.js';
import { happen, LETTERS, Model, NODES, prewarm } from './cluster-model.js';

const wish = fc.record<Wish>({
  letter: fc.constantFrom(...LETTERS),
  count: fc.integer({ min: 1, max: 6 }),
  priority: fc.nat(3),
  rampUp: fc.constantFrom('SlowStart', 'Immediate'),
});
const index = fc.nat(30);
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Event>({ do: 'plan' }) },
  { weight: 4, arbitrary: index.map((at): Event => ({ do: 'deliver', at })) },
  { weight: 4, arbitrary: index.map((at): Event => ({ do: 'sync', at })) },
  { weight: 4, arbitrary: fc.tuple(index, fc.boolean()).map(([at, well]): Event => ({ do: 'finish', at, well })) },
  { weight: 2, arbitrary: index.map((at): Event => ({ do: 'retry', at })) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 40 }).map((seconds): Event => ({ do: 'pass', seconds })) },
  { weight: 2, arbitrary: wish.map((w): Event => ({ do: 'wish', wish: w })) },
  { weight: 1, arbitrary: index.map((at): Event => ({ do: 'unwish', at })) },
  { weight: 1, arbitrary: fc.constantFrom(-3, 0, 3).map((hours): Event => ({ do: 'jump', hours })) },
  { weight: 1, arbitrary: index.map((at): Event => ({ do: 'flap', at })) },
  { weight: 1, arbitrary: index.map((at): Event => ({ do: 'removePod', at })) },
  { weight: 2, arbitrary: index.map((at): Event => ({ do: 'deleteSet', at })) },
  { weight: 3, arbitrary: fc.constant<Event>({ do: 'collect' }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Unanswered>('done', 'lost', 'late').map((outcome): Event => ({ do: 'unanswered', outcome })),
  },
  { weight: 1, arbitrary: fc.constant<Event>({ do: 'land' }) },
  { weight: 1, arbitrary: fc.boolean().map((on): Event => ({ do: 'outage', on })) },
  { weight: 1, arbitrary: fc.constant<Event>({ do: 'restart' }) },
);

/** Little else than wishes that come and go, and writes of which many get no answer. */
const doubtful: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Event>({ do: 'plan' }) },
  { weight: 4, arbitrary: index.map((at): Event => ({ do: 'sync', at })) },
  { weight: 3, arbitrary: wish.map((w): Event => ({ do: 'wish', wish: w })) },
  { weight: 3, arbitrary: index.map((at): Event => ({ do: 'unwish', at })) },
  { weight: 3, arbitrary: fc.constantFrom<Unanswered>('done', 'late').map((outcome): Event => ({ do: 'unanswered', outcome })) },
  { weight: 2, arbitrary: fc.constant<Event>({ do: 'land' }) },
  { weight: 2, arbitrary: index.map((at): Event => ({ do: 'finish', at, well: true })) },
  { weight: 2, arbitrary: fc.nat(3).map((at): Event => ({ do: 'deliver', at })) },
  { weight: 1, arbitrary: index.map((at): Event => ({ do: 'deleteSet', at })) },
  { weight: 1, arbitrary: fc.constant<Event>({ do: 'collect' }) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 30 }).map((seconds): Event => ({ do: 'pass', seconds })) },
);

const limits = fc.record({
  maxPullingNodes: fc.integer({ min: 1, max: 4 }),
  maxPullingNodesPerRegistry: fc.integer({ min: 1, max: 4 }),
});

test.each<[string, fc.Arbitrary<Event>, number]>([
  [
    'plans, Pods, deletions of Pods and sets, failures, retries, lost answers, outages, flaps, restarts and jumps of the clock',
    event,
    120,
  ],
  ['wishes that come and go, and writes without an answer that are done, at once or late', doubtful, 200],
])(
  'in any order of %s no more nodes pull than the limits allow, and none twice at once',
  async (_, events, numRuns) => {
    await fc.assert(
      fc.asyncProperty(limits, fc.array(events, { minLength: 30, maxLength: 120 }), async (l, all) => {
        const model = new Model(l);
        for (const [step, what] of all.entries()) {
          await happen(model, what, step);
          const limit = Math.min(l.maxPullingNodes, l.maxPullingNodesPerRegistry);
          expect(model.granted.length).toBeLessThanOrEqual(limit);
          expect(model.shown.length).toBeLessThanOrEqual(limit + FAILING_FREE + LETTERS.length);
          const nodes = model.granted.map((p) => p.split('/')[1]);
          expect(new Set(nodes).size).toBe(nodes.length);
          for (const { desired, warm, pulling, pending, failed } of model.last?.progress.values() ?? [])
            expect(warm + pulling + pending + failed).toBe(desired);
        }
      }),
      { numRuns },
    );
  },
  60_000,
);

test('when nothing stands in the way any more, every gang is warm in the end', async () => {
  await fc.assert(
    fc.asyncProperty(limits, fc.array(event, { minLength: 10, maxLength: 80 }), async (l, events) => {
      const model = new Model(l);
      for (const [step, what] of events.entries()) await happen(model, what, step);
      for (const name of NODES) model.ready.set(name, true);
      [model.skewMs, model.outage] = [0, false];
      model.prewarms = model.prewarms.map((p) => ({
        ...p,
        targets: p.targets.map((t) => ({
          ...t,
          candidates: candidates(
            { name: 'main', images: [{ reference: 'x' }], nodes: { selector: {}, count: t.candidates.needed } },
            model.nodes(),
          ),
        })),
      }));
      for (let round = 0; round < 120; round++) {
        model.deliver(Number.POSITIVE_INFINITY);
        await model.plan();
        for (let i = 0; i < model.sets.size; i++) model.syncSet(i);
        model.collect();
        model.finish(0, true);
        // Kubelets try again by themselves.
        for (const pod of [...model.pods.values()])
          if (pod.container?.waiting?.reason === 'ErrImagePull') model.removePod(pod.name);
        model.pass(20);
      }
      await model.plan();
      for (const { desired, warm } of model.last?.progress.values() ?? []) expect(warm).toBe(desired);
    }),
    { numRuns: 25 },
  );
}, 120_000);

test('a cache that lags behind our own writes costs no share of a limit twice', async () => {
  const model = new Model({ maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 });
  const wish: Wish = { letter: 'a', count: 1, priority: 0, rampUp: 'Immediate' };
  model.prewarms.push(prewarm(model, 'first', wish));
  await model.plan();
  model.prewarms.push(prewarm(model, 'overtakes', { ...wish, letter: 'b', priority: 3 }));
  await model.plan();
  for (const index of [0, 1]) model.syncSet(index);
  expect([model.sets.size, model.pulls.size]).toEqual([1, 1]);
  model.deliver(Number.POSITIVE_INFINITY);
  model.finish(0, true);
  model.deliver(Number.POSITIVE_INFINITY);
  await model.plan();
  expect(model.sets.size).toBe(2);
});

test('a pull whose set is deleted keeps its share until it ends, whatever becomes of its Pod, and gets a Pod again', async () => {
  const model = new Model({ maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 });
  const all = Number.POSITIVE_INFINITY;
  const act = async (...events: ('deliver' | 'plan')[]): Promise<void> => {
    for (const event of events) await (event === 'plan' ? model.plan() : model.deliver(all));
    for (let i = 0; i < model.sets.size; i++) model.syncSet(i);
  };
  const wish: Wish = { letter: 'a', count: 1, priority: 0, rampUp: 'Immediate' };
  model.prewarms.push(prewarm(model, 'first', wish));
  await act('plan', 'deliver');
  model.prewarms.push(prewarm(model, 'second', { ...wish, letter: 'b', count: 6 }));
  model.deleteSet(0);
  await act('deliver', 'plan');
  expect([model.sets.size, model.pulls.size, model.pods.size]).toEqual([0, 1, 1]);
  model.collect();
  await act('deliver', 'plan', 'deliver', 'plan');
  // The same pull.
  expect([model.sets.size, model.pulls.size, model.pods.size]).toEqual([1, 1, 1]);
  model.finish(0, true);
  await act('deliver', 'plan');
  expect([model.sets.size, model.pulls.size]).toEqual([2, 1]);
});

test('a pull that a write without an answer began keeps its share when its set is deleted before the controller has seen it', async () => {
  const model = new Model({ maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 });
  const wish: Wish = { letter: 'a', count: 2, priority: 0, rampUp: 'Immediate' };
  model.prewarms.push(prewarm(model, 'first', wish));
  await model.plan();
  model.syncSet(0);
  model.finish(0, true);
  model.deliver(Number.POSITIVE_INFINITY);
  model.unanswered = 'done';
  await model.plan();
  model.syncSet(0);
  expect(model.granted).toHaveLength(1);
  model.prewarms = [prewarm(model, 'second', { ...wish, letter: 'b' })];
  for (let round = 0; round < 3; round++) {
    await model.plan();
    model.syncSet(0);
    expect(model.granted).toHaveLength(1);
  }
});
