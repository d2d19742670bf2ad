import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { candidates } from '../../../src/placement/candidates.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { FAILING_FREE } from '../../../src/preheat/budgets.js';
import type { Limits } from '../../../src/preheat/budgets.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { PlannedPrewarm, World } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { node } from '../placement/nodes.js';
import { puller } from './fixtures.js';

const LIMITS: Limits = { maxPullingNodes: 100, maxPullingNodesPerRegistry: 50 };
const nodesOf = (count: number): NodeFacts[] => Array.from({ length: count }, (_, i) => node(`n${String(i).padStart(4, '0')}`));
const pulling: PullState = { state: 'pulling', inFlight: true, since: 1 };
const warm: PullState = { state: 'warm', inFlight: false, tookMs: 1_000 };
const failing = (reason: PullState['reason'] = 'RegistryError'): PullState => ({
  state: 'failed',
  inFlight: false,
  mayBegin: true,
  reason,
  message: 'i/o timeout',
});

interface Wish {
  image?: Puller;
  count: number;
  rampUp?: PlannedPrewarm['rampUp'];
  namespace?: string;
}

/** A cluster whose pulls end as the registry pleases, and on which kubelets try again what failed. */
class Cluster {
  readonly pulls = new Map<string, Map<string, PullState>>();
  readonly #nodes: NodeFacts[];
  readonly #limits: Limits;
  readonly #pullers = new Map<string, Puller>();
  last: ReturnType<typeof plan> | undefined;
  wishes: Wish[];

  constructor(nodes: NodeFacts[], wishes: Wish[], limits: Limits = LIMITS) {
    [this.#nodes, this.wishes, this.#limits] = [nodes, wishes, limits];
    for (const { image = puller() } of wishes) this.#pullers.set(image.hash, image);
  }

  /** One plan, carried out: what it grants begins, what it does not is gone. */
  step(): void {
    const world: World = { nodes: new Map(this.#nodes.map((n) => [n.name, n])), pulls: this.pulls, pullers: this.#pullers };
    this.last = plan(
      this.wishes.map((wish, i) => this.#prewarm(`p${i}`, wish)),
      world,
      this.#limits,
    );
    for (const hash of this.#pullers.keys()) {
      const granted = this.last.grants.get(hash)?.nodes ?? new Set<string>();
      const states = this.pulls.get(hash) ?? new Map<string, PullState>();
      this.pulls.set(hash, states);
      for (const [name, { inFlight }] of states) if (!granted.has(name) && !inFlight) states.delete(name);
      for (const name of granted) if (!states.has(name)) states.set(name, pulling);
    }
  }

  #prewarm(key: string, { image = puller(), count, rampUp = 'Immediate', namespace }: Wish): PlannedPrewarm {
    const target = { name: 'main', images: [{ reference: 'x' }], nodes: { selector: {}, count } };
    return {
      key,
      mayPull: true,
      keep: true,
      rank: { reserved: false, priority: 0, queuedAt: 0 },
      namespace,
      rampUp,
      targets: [{ name: 'main', pullers: [image], complete: true, candidates: candidates(target, this.#nodes) }],
    };
  }

  /** All pulls that run end so. */
  end(how: PullState): void {
    for (const { states, name } of this.flowing) states.set(name, how);
  }

  /** Plans and ends until nothing changes any more. */
  settle(how: (node: string, image: string) => PullState): void {
    for (let round = 0, before = ''; round < 3_000; round++) {
      this.step();
      for (const { states, name, hash } of this.flowing) states.set(name, how(name, hash));
      const now = [...this.pulls].map(([hash, s]) => `${hash} ${[...s].map(([n, { state }]) => n + state).join()}`).join(';');
      if (now === before) return;
      before = now;
    }
    throw new Error('the cluster does not settle');
  }

  get flowing(): { states: Map<string, PullState>; name: string; hash: string }[] {
    return [...this.pulls].flatMap(([hash, states]) =>
      [...states].filter(([, s]) => s.inFlight).map(([name]) => ({ states, name, hash })),
    );
  }

  count(image: Puller, state?: PullState['state']): number {
    return [...(this.pulls.get(image.hash)?.values() ?? [])].filter((s) => state === undefined || s.state === state).length;
  }

  /** Pulls that run or may begin by themselves. */
  get possible(): number {
    return [...this.pulls.values()].flatMap((s) => [...s.values()]).filter((s) => s.inFlight || s.mayBegin === true).length;
  }
}

describe('a registry outage', () => {
  test.each<[string, PlannedPrewarm['rampUp'], number]>([
    ['SlowStart', 'SlowStart', FAILING_FREE],
    ['Immediate: what began before the first failure', 'Immediate', LIMITS.maxPullingNodesPerRegistry],
  ])('does not walk a cluster of 1,000 nodes: %s', (_case, rampUp, covered) => {
    const cluster = new Cluster(nodesOf(1_000), [{ count: 64, rampUp }]);
    cluster.settle(() => failing());
    expect(cluster.count(puller())).toBe(covered);
    expect(cluster.last?.progress.get('p0')).toMatchObject({ waitsFor: 'failure', lost: undefined });
  });

  test.each(['TimedOut', 'PullFailed', 'Gated', 'InsufficientDisk', 'Evicted', 'NoRoom'] as const)(
    'nor does anything else that all nodes meet and that may end by itself: %s',
    (reason) => {
      const cluster = new Cluster(nodesOf(200), [{ count: 64, rampUp: 'SlowStart' }]);
      cluster.settle(() => failing(reason));
      expect(cluster.count(puller())).toBe(FAILING_FREE);
    },
  );

  test('in the middle of 1,000 pulls leaves no more to come back at once than the limit and a few', () => {
    const cluster = new Cluster(nodesOf(1_000), [{ count: 800 }]);
    for (let round = 0; round < 10; round++) {
      cluster.step();
      cluster.end(warm);
    }
    expect(cluster.count(puller(), 'warm')).toBe(500);
    cluster.settle(() => failing());
    expect(cluster.count(puller(), 'failed')).toBeLessThanOrEqual(LIMITS.maxPullingNodesPerRegistry + FAILING_FREE);
    cluster.settle(() => warm);
  });

  test('is over with the first success: growth goes on', () => {
    const cluster = new Cluster(nodesOf(100), [{ count: 64, rampUp: 'SlowStart' }]);
    cluster.settle(() => failing());
    const [first = ''] = cluster.pulls.get(puller().hash)?.keys() ?? [];
    cluster.pulls.get(puller().hash)?.set(first, warm);
    cluster.settle(() => warm);
    expect(cluster.last?.progress.get('p0')).toMatchObject({ desired: 64, warm: 64 });
    // Those that failed are let go.
    expect(cluster.count(puller())).toBe(64);
  });
});

describe('bad nodes', () => {
  const isBad = (count: number) => (name: string) => Number(name.slice(1)) < count;

  test.each<[string, number, Limits]>([
    ['one', 1, LIMITS],
    ['one, where one node may pull at a time', 1, { maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 }],
    ['as many as may fail', FAILING_FREE - 1, { maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 }],
  ])('do not stop the others: %s', (_case, bad, limits) => {
    const cluster = new Cluster(nodesOf(20), [{ count: 10, rampUp: 'SlowStart' }], limits);
    cluster.settle((name) => (isBad(bad)(name) ? failing('InsufficientDisk') : warm));
    expect(cluster.last?.progress.get('p0')).toMatchObject({ desired: 10, warm: 10 });
  });

  test('do not stop the others however many they are, once there are as many good ones', () => {
    const isOdd = (name: string): boolean => Number(name.slice(1)) % 2 === 1;
    const cluster = new Cluster(nodesOf(80), [{ count: 40, rampUp: 'SlowStart' }]);
    cluster.settle((name) => (isOdd(name) ? failing() : warm));
    expect(cluster.last?.progress.get('p0')).toMatchObject({ desired: 40, warm: 40 });
  });
});

describe('images that fail', () => {
  const letters = [...'bcdef0123456'];
  const broken = letters.map((l) => ({ image: puller(l), count: 64, namespace: 'broken' }));
  const sound = { image: puller('a'), count: 6, namespace: 'sound' };

  test('hold no more than the limit and a few together, and one each, however many they are', () => {
    const cluster = new Cluster(nodesOf(400), broken);
    cluster.settle(() => failing());
    expect(cluster.possible).toBeLessThanOrEqual(LIMITS.maxPullingNodesPerRegistry + FAILING_FREE + broken.length);
  });

  test('never stop one that does not fail, though they fill the limits', () => {
    const cluster = new Cluster(nodesOf(400), [...broken, sound]);
    cluster.settle((_name, hash) => (hash === sound.image.hash ? warm : failing()));
    expect(cluster.last?.progress.get(`p${broken.length}`)).toMatchObject({ desired: 6, warm: 6 });
  });

  test('hold the limit of their namespace, too, and of no other', () => {
    const limits = { ...LIMITS, maxPullingNodesPerNamespace: 4 };
    const cluster = new Cluster(nodesOf(400), [...broken, sound], limits);
    cluster.settle((_name, hash) => (hash === sound.image.hash ? warm : failing()));
    expect(cluster.possible).toBeLessThanOrEqual(4 + FAILING_FREE + broken.length);
    expect(cluster.count(sound.image, 'warm')).toBe(6);
  });
});

describe('in any order of pulls, successes, failures and retries', () => {
  const LETTERS = [...'abcd'];
  const event = fc.oneof(
    fc.constant<['plan']>(['plan']),
    fc.tuple(fc.constant('end' as const), fc.nat(200), fc.constantFrom(warm, failing(), failing('TimedOut'))),
    fc.tuple(fc.constant('retry' as const), fc.nat(200), fc.constantFrom(warm, failing())),
  );
  const wish = fc.record({
    image: fc.constantFrom(...LETTERS).map((l) => puller(l)),
    count: fc.integer({ min: 1, max: 40 }),
    rampUp: fc.constantFrom('SlowStart' as const, 'Immediate' as const),
  });
  const limits = fc.record({ maxPullingNodes: fc.integer({ min: 1, max: 9 }), maxPullingNodesPerRegistry: fc.constant(9) });
  const nodes = nodesOf(40);

  test('what runs or may begin by itself exceeds a limit by a few and one for each image, and never by more', () => {
    fc.assert(
      fc.property(
        limits,
        fc.array(wish, { minLength: 1, maxLength: 4 }),
        fc.array(event, { minLength: 20, maxLength: 150 }),
        (l, wishes, events) => {
          const cluster = new Cluster(nodes, wishes, l);
          for (const [what, at = 0, how = warm] of events) {
            if (what === 'plan') cluster.step();
            else {
              const pulls = [...cluster.pulls.values()].flatMap((states) =>
                [...states].flatMap(([name, s]) =>
                  (what === 'end' ? s.inFlight : s.mayBegin) === true ? [{ states, name }] : [],
                ),
              );
              const one = pulls[at % Math.max(1, pulls.length)];
              one?.states.set(one.name, how);
            }
            expect(cluster.possible).toBeLessThanOrEqual(l.maxPullingNodes + FAILING_FREE + LETTERS.length);
          }
        },
      ),
      { numRuns: 80 },
    );
  });
});
