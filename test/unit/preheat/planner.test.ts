import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { candidates } from '../../../src/placement/candidates.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { Plan, PlannedPrewarm, World } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { node } from '../placement/nodes.js';
import { puller } from './fixtures.js';

const WIDE = { maxPullingNodes: 100, maxPullingNodesPerRegistry: 100 };
const nodes = (count: number): NodeFacts[] => Array.from({ length: count }, (_, i) => node(`n${String(i + 1).padStart(2, '0')}`));
const pulling: PullState = { state: 'pulling', inFlight: true, since: 1 };
const warm: PullState = { state: 'warm', inFlight: false, tookMs: 1000 };
const failed = (reason: PullState['reason'] = 'PullFailed'): PullState => ({
  state: 'failed',
  inFlight: false,
  reason,
  message: 'why',
});

interface Wanted {
  pullers?: Puller[];
  nodes?: NodeFacts[];
  count?: number;
  change?: Partial<PlannedPrewarm>;
}
function prewarm(key: string, { pullers = [puller()], nodes: all = nodes(3), count, change = {} }: Wanted = {}): PlannedPrewarm {
  const target = {
    name: 'main',
    images: [{ reference: 'x' }],
    nodes: { selector: {}, ...(count === undefined ? {} : { count }) },
  };
  return {
    key,
    mayPull: true,
    keep: true,
    rank: { reserved: false, priority: 0, queuedAt: 0 },
    rampUp: 'Immediate',
    targets: [{ name: 'main', pullers, complete: true, candidates: candidates(target, all) }],
    ...change,
  };
}
function world(states: [Puller, Record<string, PullState>][] = [], all = nodes(3)): World {
  return {
    nodes: new Map(all.map((n) => [n.name, n])),
    pullers: new Map(states.map(([p]) => [p.hash, p])),
    pulls: new Map(states.map(([p, byNode]) => [p.hash, new Map(Object.entries(byNode))])),
  };
}
const granted = (result: Plan, p = puller()): string[] => [...(result.grants.get(p.hash)?.nodes ?? [])].sort();
const sums = (result: Plan, key: string) => {
  const {
    desired,
    warm: w,
    pulling: p,
    pending,
    failed: f,
  } = result.progress.get(key) ?? { desired: -1, warm: 0, pulling: 0, pending: 0, failed: 0 };
  return { desired, warm: w, pulling: p, pending, failed: f };
};

describe('a plan', () => {
  test('Immediate: all nodes at once', () => {
    const result = plan([prewarm('a')], world(), WIDE);
    expect(granted(result)).toEqual(['n01', 'n02', 'n03']);
    expect(sums(result, 'a')).toEqual({ desired: 3, warm: 0, pulling: 3, pending: 0, failed: 0 });
  });

  test('SlowStart: a canary first, then one more for each success', () => {
    const slow = prewarm('a', { nodes: nodes(8), change: { rampUp: 'SlowStart' } });
    const steps: [Record<string, PullState>, number][] = [
      [{}, 1],
      [{ n01: pulling }, 1],
      [{ n01: warm }, 2],
      [{ n01: warm, n02: warm, n03: pulling }, 3],
    ];
    for (const [states, inFlight] of steps) {
      const result = plan([slow], world([[puller(), states]], nodes(8)), WIDE);
      expect(sums(result, 'a').pulling).toBe(inFlight);
    }
  });

  test.each<[string, Partial<PlannedPrewarm>, string[]]>([
    ['written again for who may pull', {}, ['n01']],
    ['not written for who may begin nothing', { mayPull: false }, []],
    ['not written where nobody wants it any more', { keep: false, mayPull: false }, []],
  ])('a pull that only a write without an answer has begun counts, and is %s', (_, change, nodesOfA) => {
    const doubtful: PullState = { state: 'pulling', inFlight: true, doubtful: true };
    const line = [prewarm('a', { count: 1, change }), prewarm('b', { pullers: [puller('b')], count: 2 })];
    const result = plan(line, world([[puller(), { n01: doubtful }]]), { ...WIDE, maxPullingNodes: 1 });
    expect([granted(result), granted(result, puller('b'))]).toEqual([nodesOfA, []]);
    expect(result.progress.get('b')?.waitsFor).toBe('cluster');
  });

  test('a failure common to all stops growth, in either ramp; a bad node does not', () => {
    for (const rampUp of ['SlowStart', 'Immediate'] as const) {
      const one = prewarm('a', { change: { rampUp } });
      const common = plan([one], world([[puller(), { n01: failed('ImageNotFound') }]]), WIDE);
      expect(granted(common)).toEqual(['n01']);
      expect(common.progress.get('a')?.waitsFor).toBe('failure');
      const own = plan([one], world([[puller(), { n01: failed('InsufficientDisk') }]]), WIDE);
      expect(granted(own).length).toBeGreaterThan(1);
    }
  });

  test('successes outweigh a single denial: that is one bad node after all', () => {
    const result = plan(
      [prewarm('a', { nodes: nodes(6) })],
      world([[puller(), { n01: warm, n02: warm, n03: failed('AuthDenied') }]], nodes(6)),
      WIDE,
    );
    expect(granted(result)).toEqual(['n01', 'n02', 'n03', 'n04', 'n05', 'n06']);
  });

  test('the cluster limit counts pulls of other gangs and is given to the head of the line', () => {
    const [tail, head] = [
      prewarm('tail', { pullers: [puller('b')], nodes: nodes(6), count: 3 }),
      prewarm('head', {
        pullers: [puller('c')],
        nodes: nodes(6),
        count: 3,
        change: { rank: { reserved: false, priority: 5, queuedAt: 9 } },
      }),
    ];
    const busy = world([[puller('d'), { n06: pulling }]], nodes(6));
    const result = plan([tail, head], busy, { ...WIDE, maxPullingNodes: 3 });
    expect([granted(result, puller('c')), granted(result, puller('b'))]).toEqual([['n01', 'n02'], []]);
    expect(result.progress.get('tail')?.waitsFor).toBe('cluster');
  });

  test('reserved goes before priority, priority before time, time before name', () => {
    const rank = (reserved: boolean, priority: number, queuedAt: number) => ({
      change: { rank: { reserved, priority, queuedAt } },
    });
    const all = [
      prewarm('d', rank(false, 0, 2)),
      prewarm('c', rank(false, 0, 1)),
      prewarm('b', rank(false, 9, 3)),
      prewarm('a', rank(true, -9, 4)),
    ];
    const letters = ['a', 'b', 'c', 'd'];
    const own = all.map((p) => ({ ...p, targets: p.targets.map((t) => ({ ...t, pullers: [puller(p.key)] })) }));
    const order = letters.map((_, i) => {
      const result = plan(own.slice(0, own.length - i), world(), { ...WIDE, maxPullingNodes: 1 });
      return letters.find((l) => granted(result, puller(l)).length > 0);
    });
    expect(order).toEqual(['a', 'b', 'c', 'd']);
  });

  test('the registry limit holds per registry', () => {
    const other = puller('b', { registry: 'other.example.com' });
    const result = plan(
      [prewarm('a', { nodes: nodes(6), count: 3 }), prewarm('b', { pullers: [other], nodes: nodes(6).reverse(), count: 3 })],
      world([], nodes(6)),
      { ...WIDE, maxPullingNodesPerRegistry: 2 },
    );
    expect(granted(result)).toHaveLength(2);
    expect(result.progress.get('a')?.waitsFor).toBe('registry');
  });

  test('a node pulls one image at a time, the next one when the first is warm', () => {
    const both = prewarm('a', { pullers: [puller('a'), puller('b')], nodes: nodes(1) });
    const first = plan([both], world([], nodes(1)), WIDE);
    expect([granted(first, puller('a')), granted(first, puller('b'))]).toEqual([['n01'], []]);
    const second = plan([both], world([[puller('a'), { n01: warm }]], nodes(1)), WIDE);
    expect([granted(second, puller('a')), granted(second, puller('b'))]).toEqual([['n01'], ['n01']]);
    expect(sums(second, 'a')).toMatchObject({ warm: 0, pulling: 1 });
  });

  test('gangs with the same image share its pulls', () => {
    const result = plan([prewarm('a'), prewarm('b')], world([[puller(), { n01: warm }]]), WIDE);
    expect(granted(result)).toEqual(['n01', 'n02', 'n03']);
    expect(sums(result, 'b')).toEqual({ desired: 3, warm: 1, pulling: 2, pending: 0, failed: 0 });
  });

  test('warm nodes are taken before cold ones, and a bad node is replaced', () => {
    const result = plan(
      [prewarm('a', { nodes: nodes(4), count: 2 })],
      world([[puller(), { n01: failed(), n04: warm }]], nodes(4)),
      WIDE,
    );
    expect(granted(result)).toEqual(['n01', 'n02', 'n04']);
    expect(sums(result, 'a')).toEqual({ desired: 2, warm: 1, pulling: 1, pending: 0, failed: 0 });
    expect(result.progress.get('a')?.failures).toEqual([expect.objectContaining({ node: 'n01', reason: 'PullFailed' })]);
  });

  test('once enough are warm, nodes that failed are let go', () => {
    const result = plan(
      [prewarm('a', { nodes: nodes(3), count: 2 })],
      world([[puller(), { n01: failed(), n02: warm, n03: warm }]]),
      WIDE,
    );
    expect(granted(result)).toEqual(['n02', 'n03']);
  });

  test('an image that is larger than the disk is not tried', () => {
    const big = puller('a', { bytes: 200e9 });
    const result = plan([prewarm('a', { pullers: [big] })], world(), WIDE);
    expect(granted(result, big)).toEqual([]);
    expect(sums(result, 'a')).toMatchObject({ failed: 3 });
    expect(result.progress.get('a')?.failures[0]).toMatchObject({
      reason: 'InsufficientDisk',
      message: expect.stringContaining('100000000000'),
    });
  });

  test('nobody wants it: warm pullers go, pulls stay until they end', () => {
    const result = plan([], world([[puller(), { n01: warm, n02: pulling }]]), WIDE);
    expect(granted(result)).toEqual(['n02']);
    expect(plan([], world([[puller(), { n01: warm, n02: warm }]]), WIDE).grants.size).toBe(0);
  });

  test('without leave to pull, what is warm is kept and nothing begins', () => {
    const result = plan([prewarm('a', { change: { mayPull: false } })], world([[puller(), { n01: warm }]]), WIDE);
    expect(granted(result)).toEqual(['n01']);
    expect(sums(result, 'a')).toEqual({ desired: 3, warm: 1, pulling: 0, pending: 2, failed: 0 });
  });

  test('a target whose images are not all known is never warm', () => {
    const one = prewarm('a', { pullers: [] });
    const open = { ...one, targets: one.targets.map((t) => ({ ...t, complete: false })) };
    expect(sums(plan([open], world(), WIDE), 'a')).toEqual({ desired: 3, warm: 0, pulling: 0, pending: 3, failed: 0 });
  });

  test('nodes that went away stand in the sum as failed; a flap does not cost their copies', () => {
    const all = [node('n01'), node('n02', { ready: false, readyMessage: 'gone' })];
    const lost: PullState = failed('NodeNotReady');
    const result = plan([prewarm('a', { nodes: all })], world([[puller(), { n01: warm, n02: lost }]], all), WIDE);
    expect(sums(result, 'a')).toEqual({ desired: 2, warm: 1, pulling: 0, pending: 0, failed: 1 });
    expect(granted(result)).toEqual(['n01', 'n02']);
    expect(result.progress.get('a')?.failures[0]).toMatchObject({ node: 'n02', reason: 'NodeNotReady' });
  });

  test('maxConcurrentNodes of a prewarm bounds its own pulls', () => {
    expect(sums(plan([prewarm('a', { change: { maxConcurrentNodes: 2 } })], world(), WIDE), 'a')).toMatchObject({
      pulling: 2,
      pending: 1,
    });
  });
});

describe('a puller that the API server refuses', () => {
  const [a, b] = [puller('a'), puller('b')];
  const refused = (states: [Puller, Record<string, PullState>][] = []): World => ({
    ...world(states),
    refused: new Map([[a.hash, '422: Not_Valid']]),
  });

  test('fails wherever it is not under way, on all nodes at once, and says why', () => {
    const result = plan([prewarm('one', { pullers: [a] })], refused(), WIDE);
    expect(sums(result, 'one')).toEqual({ desired: 3, warm: 0, pulling: 0, pending: 0, failed: 3 });
    expect(result.progress.get('one')?.failures[0]).toEqual({
      node: 'n01',
      image: a.image,
      reason: 'Rejected',
      message: '422: Not_Valid',
    });
    expect(granted(result, a)).toEqual([]);
  });
  test('keeps what it has: a longer list of nodes may be refused where the old one stands', () => {
    const result = plan([prewarm('one', { pullers: [a] })], refused([[a, { n01: warm, n02: pulling }]]), WIDE);
    expect(sums(result, 'one')).toEqual({ desired: 3, warm: 1, pulling: 1, pending: 0, failed: 1 });
    expect(granted(result, a)).toEqual(['n01', 'n02']);
  });
  test('does not stop other prewarms', () => {
    const result = plan([prewarm('one', { pullers: [a] }), prewarm('two', { pullers: [b] })], refused(), WIDE);
    expect(granted(result, b)).toEqual(['n01', 'n02', 'n03']);
    expect(sums(result, 'two')).toMatchObject({ pulling: 3, failed: 0 });
  });
});

describe('properties of plans, under any interleaving', () => {
  const ALL = nodes(6);
  const states = fc.constantFrom<PullState | undefined>(undefined, pulling, warm, failed(), failed('AuthDenied'), {
    state: 'absent',
    inFlight: true,
  });
  const worlds = fc.array(fc.array(states, { minLength: 6, maxLength: 6 }), { minLength: 3, maxLength: 3 }).map((rows) =>
    world(
      rows.map((row, i) => [
        puller('abc'[i] ?? 'a'),
        Object.fromEntries(row.flatMap((s, j) => (s === undefined ? [] : [[ALL[j]?.name ?? '', s] as const]))),
      ]),
      ALL,
    ),
  );
  const prewarms = fc
    .array(
      fc.record({
        letter: fc.constantFrom('a', 'b', 'c'),
        count: fc.nat(6),
        mayPull: fc.boolean(),
        keep: fc.boolean(),
        rampUp: fc.constantFrom('SlowStart' as const, 'Immediate' as const),
        priority: fc.nat(3),
      }),
      { maxLength: 5 },
    )
    .map((rows) =>
      rows.map((r, i) =>
        prewarm(`p${i}`, {
          pullers: [puller(r.letter)],
          nodes: ALL,
          count: r.count,
          change: {
            mayPull: r.mayPull,
            keep: r.keep,
            rampUp: r.rampUp,
            rank: { reserved: false, priority: r.priority, queuedAt: 0 },
          },
        }),
      ),
    );
  const limits = fc.record({ maxPullingNodes: fc.nat(6), maxPullingNodesPerRegistry: fc.nat(6) });

  const inFlight = (w: World): [string, string][] =>
    [...w.pulls].flatMap(([hash, byNode]) =>
      [...byNode].filter(([, s]) => s.inFlight).map(([n]) => [hash, n] as [string, string]),
    );
  /** The world after all grants were begun. */
  const after = (w: World, result: Plan): World => {
    const pulls = new Map([...w.pulls].map(([hash, byNode]) => [hash, new Map(byNode)]));
    for (const [hash, { nodes: names }] of result.grants) {
      const byNode = pulls.get(hash) ?? new Map<string, PullState>();
      pulls.set(hash, byNode);
      for (const n of names) if ((byNode.get(n)?.state ?? 'absent') === 'absent') byNode.set(n, pulling);
    }
    return { ...w, pulls };
  };

  test('pulls in flight never exceed the limits, unless they did before and nothing was added', () => {
    fc.assert(
      fc.property(prewarms, worlds, limits, (ps, w, l) => {
        const before = inFlight(w);
        const now = inFlight(after(w, plan(ps, w, l)));
        const most = Math.min(l.maxPullingNodes, l.maxPullingNodesPerRegistry);
        expect(now.length).toBeLessThanOrEqual(Math.max(most, before.length));
      }),
      { numRuns: 500 },
    );
  });

  test('no node begins a pull while another one runs on it', () => {
    fc.assert(
      fc.property(prewarms, worlds, limits, (ps, w, l) => {
        const busy = new Set(inFlight(w).map(([, n]) => n));
        const begun = inFlight(after(w, plan(ps, w, l))).filter(([hash, n]) => !w.pulls.get(hash)?.get(n)?.inFlight);
        expect(begun.filter(([, n]) => busy.has(n))).toEqual([]);
        expect(new Set(begun.map(([, n]) => n)).size).toBe(begun.length);
      }),
      { numRuns: 500 },
    );
  });

  test('sums add up, pulls under way are never dropped, and the order of the input does not matter', () => {
    fc.assert(
      fc.property(prewarms, worlds, limits, (ps, w, l) => {
        const result = plan(ps, w, l);
        for (const p of result.progress.values()) expect(p.warm + p.pulling + p.pending + p.failed).toBe(p.desired);
        for (const [hash, byNode] of w.pulls)
          for (const [n, s] of byNode)
            if (s.state === 'pulling' && s.inFlight) expect(result.grants.get(hash)?.nodes.has(n)).toBe(true);
        expect(plan([...ps].reverse(), w, l)).toEqual(result);
      }),
      { numRuns: 300 },
    );
  });
});
