import { describe, expect, test } from '@jest/globals';
import { candidates } from '../../../src/placement/candidates.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import type { Limits } from '../../../src/preheat/budgets.js';
import { prewarmDeadlineMs, remainingMs, wavesOf } from '../../../src/preheat/deadline.js';
import type { PullState } from '../../../src/preheat/evidence.js';
import type { Plan, PlannedPrewarm, World } from '../../../src/preheat/planner.js';
import { plan } from '../../../src/preheat/planner.js';
import type { Puller } from '../../../src/preheat/puller.js';
import { markStalled } from '../../../src/preheat/stall.js';
import { node } from '../placement/nodes.js';
import { puller, T0 } from './fixtures.js';

const GIB = 2 ** 30;
const WIDE: Limits = { maxPullingNodes: 100, maxPullingNodesPerRegistry: 100 };
const RATES = { assumedPullMiBPerSecond: 100, minDeadlineSeconds: 600 };
const pulling: PullState = { state: 'pulling', inFlight: true, since: 1 };
const warm: PullState = { state: 'warm', inFlight: false, tookMs: 60_000 };
const stalled: PullState = { ...pulling, stalled: 'has pulled since long ago' };
const lost: PullState = { state: 'failed', inFlight: true, reason: 'NodeNotReady', message: 'gone' };
const overdue: PullState = { state: 'failed', inFlight: true, overdue: true, reason: 'Rejected', message: 'exceeded quota' };

const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `n${i + 1}`);
const nodes = (count: number): NodeFacts[] => names(count).map((n) => node(n));

interface Wanted {
  image?: Puller;
  of?: number;
  count?: number;
  busy?: string[];
}

function prewarm(
  key: string,
  change: Partial<PlannedPrewarm> = {},
  { image = puller(), of = 6, count, busy }: Wanted = {},
): PlannedPrewarm {
  const target = {
    name: 'main',
    images: [{ reference: 'x' }],
    nodes: { selector: {}, ...(count === undefined ? {} : { count }) },
  };
  const found = candidates(target, nodes(of));
  return {
    key,
    mayPull: true,
    keep: true,
    rank: { reserved: false, priority: 0, queuedAt: 0 },
    rampUp: 'Immediate',
    targets: [
      {
        name: 'main',
        pullers: [image],
        complete: true,
        candidates: busy === undefined ? found : { ...found, busy: new Set(busy) },
      },
    ],
    ...change,
  };
}

function world(...states: [Puller, Record<string, PullState>][]): World {
  return {
    nodes: new Map(nodes(9).map((n) => [n.name, n])),
    pullers: new Map(states.map(([p]) => [p.hash, p])),
    pulls: new Map(states.map(([p, byNode]) => [p.hash, new Map(Object.entries(byNode))])),
  };
}

const granted = (result: Plan, p = puller()): string[] => [...(result.grants.get(p.hash)?.nodes ?? [])].sort();
const waits = (result: Plan, key: string): string | undefined => result.progress.get(key)?.waitsFor;

describe('limits of a namespace', () => {
  const [a, b] = [puller('a', { bytes: 2 * GIB }), puller('b', { bytes: 2 * GIB })];
  const mine = prewarm('mine', { namespace: 'one' }, { image: a });
  const yours = prewarm('yours', { namespace: 'two' }, { image: b, of: 9 });

  test.each<[string, Limits, World, [nodes: number, waitsFor: string | undefined]]>([
    ['no limit: all nodes at once', WIDE, world(), [6, undefined]],
    ['so many nodes and no more', { ...WIDE, maxPullingNodesPerNamespace: 2 }, world(), [2, 'namespace']],
    [
      'what is under way for it counts',
      { ...WIDE, maxPullingNodesPerNamespace: 2 },
      world([a, { n6: pulling }]),
      [2, 'namespace'],
    ],
    ['what is warm does not', { ...WIDE, maxPullingNodesPerNamespace: 2 }, world([a, { n6: warm }]), [3, 'namespace']],
    [
      'a pull of a node that went away counts as well',
      { ...WIDE, maxPullingNodesPerNamespace: 2 },
      world([a, { n6: lost }]),
      [2, 'namespace'],
    ],
    ['so many bytes and no more', { ...WIDE, maxPullingGiBPerNamespace: 5 }, world(), [2, 'bytes']],
    [
      'one image that is larger than the limit, on one node at a time',
      { ...WIDE, maxPullingGiBPerNamespace: 1 },
      world(),
      [1, 'bytes'],
    ],
    ['no bytes at all', { ...WIDE, maxPullingGiBPerNamespace: 0 }, world(), [0, 'bytes']],
  ])('%s', (_case, limits, seen, [nodesOfMine, why]) => {
    const result = plan([mine], seen, limits);
    expect(granted(result, a)).toHaveLength(nodesOfMine);
    expect(waits(result, 'mine')).toBe(why);
  });

  test('hold for each namespace alone', () => {
    const result = plan([mine, yours], world(), { ...WIDE, maxPullingNodesPerNamespace: 2 });
    expect([granted(result, a).length, granted(result, b).length]).toEqual([2, 2]);
  });

  test('a pull that two namespaces share counts for the one that is first in the line', () => {
    const shared = prewarm(
      'shared',
      { namespace: 'two', rank: { reserved: false, priority: 9, queuedAt: 0 } },
      { image: a, count: 1 },
    );
    const other = prewarm('other', { namespace: 'two' }, { image: b, of: 9 });
    const result = plan([mine, shared, other], world([a, { n1: pulling }]), { ...WIDE, maxPullingNodesPerNamespace: 2 });
    // One of two for the shared pull, one for the own.
    expect(granted(result, b)).toHaveLength(1);
    expect(granted(result, a)).toHaveLength(3);
  });

  test('a pull of which nobody is warmed any more counts for no namespace, but for the cluster', () => {
    const seen = world([puller('c'), { n9: pulling }]);
    expect(granted(plan([mine], seen, { ...WIDE, maxPullingNodesPerNamespace: 2 }), a)).toHaveLength(2);
    expect(granted(plan([mine], seen, { ...WIDE, maxPullingNodes: 2 }), a)).toHaveLength(1);
  });
});

describe('pull.busyNodes', () => {
  const busy = ['n1', 'n2', 'n3', 'n4', 'n5'];
  test('Avoid: takes the node that is not busy, and says what the others wait for', () => {
    const result = plan([prewarm('a', { busyNodes: 'Avoid' }, { busy, count: 2 })], world(), WIDE);
    expect(granted(result)).toEqual(['n6']);
    expect(waits(result, 'a')).toBe('busy');
    expect(result.progress.get('a')).toMatchObject({ desired: 2, pulling: 1, pending: 1 });
  });
  test('Avoid: what is warm or under way on a busy node stays', () => {
    const result = plan(
      [prewarm('a', { busyNodes: 'Avoid' }, { busy, count: 3 })],
      world([puller(), { n1: warm, n2: pulling }]),
      WIDE,
    );
    expect(granted(result)).toEqual(['n1', 'n2', 'n6']);
    expect(waits(result, 'a')).toBeUndefined();
  });
  test('Allow: busy nodes are like all others', () => {
    expect(granted(plan([prewarm('a', { busyNodes: 'Allow' }, { busy, count: 2 })], world(), WIDE))).toEqual(['n1', 'n2']);
  });
});

describe('a pull that stalls', () => {
  test('is replaced where there is another node, keeps its share of the limits and is told', () => {
    const result = plan([prewarm('a', {}, { count: 3 })], world([puller(), { n1: warm, n2: warm, n3: stalled }]), {
      ...WIDE,
      maxPullingNodes: 2,
    });
    expect(granted(result)).toEqual(['n1', 'n2', 'n3', 'n4']);
    expect(result.progress.get('a')).toMatchObject({ desired: 3, warm: 2, pulling: 1 });
    expect(result.progress.get('a')?.failures).toEqual([
      { node: 'n3', image: puller().image, reason: 'Stalled', message: stalled.stalled },
    ]);
    const full = plan([prewarm('a', {}, { count: 3 })], world([puller(), { n1: warm, n2: warm, n3: stalled }]), {
      ...WIDE,
      maxPullingNodes: 1,
    });
    expect(granted(full)).not.toContain('n4');
  });

  test('H-41 is named while the gang waits for it, where no other node can take its place', () => {
    const group = prewarm('group', {}, { of: 4, count: 4 });
    const slow = plan([group], world([puller(), { n1: warm, n2: warm, n3: warm, n4: stalled }]), WIDE);
    expect(slow.progress.get('group')).toMatchObject({ desired: 4, warm: 3, pulling: 1, failed: 0 });
    expect(slow.progress.get('group')?.failures).toEqual([expect.objectContaining({ node: 'n4', reason: 'Stalled' })]);
    const done = plan([group], world([puller(), { n1: warm, n2: warm, n3: warm, n4: warm }]), WIDE);
    expect(done.progress.get('group')).toMatchObject({ desired: 4, warm: 4, failures: [] });
  });

  test.each<[string, PullState[], { runsSeconds: number; bytes: number }, boolean]>([
    ['no pull has ended yet', [], { runsSeconds: 3_600, bytes: 0 }, false],
    ['two have, which say little', [warm, warm], { runsSeconds: 3_600, bytes: 0 }, false],
    ['three have, and it runs as long as they took', [warm, warm, warm], { runsSeconds: 60, bytes: 0 }, false],
    ['it runs a little longer', [warm, warm, warm], { runsSeconds: 230, bytes: 0 }, false],
    ['it runs more than four times as long', [warm, warm, warm], { runsSeconds: 250, bytes: 0 }, true],
    ['so many bytes are expected to take that time', [warm, warm, warm], { runsSeconds: 250, bytes: 30 * GIB }, false],
    [
      'tiny pulls do not make one of seconds slow',
      Array.from({ length: 3 }, () => ({ ...warm, tookMs: 100 })),
      { runsSeconds: 20, bytes: 0 },
      false,
    ],
  ])('%s', (_case, finished, { runsSeconds, bytes }, expected) => {
    const states = new Map<string, PullState>([
      ...finished.map((s, i) => [`n${i}`, s] as const),
      ['slow', { ...pulling, since: T0 - runsSeconds * 1_000 }],
    ]);
    markStalled(states, bytes, { rates: RATES, now: T0 });
    expect(states.get('slow')?.stalled !== undefined).toBe(expected);
    expect(states.get('slow')).toMatchObject({ state: 'pulling', inFlight: true });
  });
});

describe('a node that gets no Pod', () => {
  const seen = world([puller(), { n1: overdue, n2: overdue, n3: warm }]);
  test('stops growth, and one of them stays to be told when Pods come again', () => {
    const result = plan([prewarm('a')], seen, WIDE);
    expect(granted(result)).toEqual(['n1', 'n3']);
    expect(waits(result, 'a')).toBe('failure');
  });
  test('takes its share of the limits, because the Pod may come at any moment', () => {
    const other = prewarm('b', {}, { image: puller('b'), of: 9 });
    expect(granted(plan([other], seen, { ...WIDE, maxPullingNodes: 3 }), puller('b'))).toHaveLength(1);
  });
});

describe('nodes that get no Pod, and the DaemonSet controller says why', () => {
  const rejected: PullState = { ...overdue, inFlight: false, mayBegin: true };
  const letters = [...'bcdef0'];
  const seen = world(...letters.map((l, i) => [puller(l), { [`n${i + 1}`]: rejected }] as [Puller, Record<string, PullState>]));
  const blocked = letters.map((l) => prewarm(l, { namespace: 'blocked' }, { image: puller(l), of: 9 }));
  const other = prewarm('other', { namespace: 'other' }, { of: 9, count: 9 });

  test('take no place of others, for as long as that lasts, nor their nodes', () => {
    const result = plan([...blocked, other], seen, { ...WIDE, maxPullingNodes: 6 });
    expect(granted(result)).toHaveLength(5);
    expect(granted(result)).toContain('n1');
    for (const l of letters) expect(granted(result, puller(l))).toHaveLength(1);
  });
  test('leave at least one, and half of a limit, to images without such a node, even where they are many', () => {
    const one = plan([...blocked, other], seen, { maxPullingNodes: 1, maxPullingNodesPerRegistry: 1 });
    expect(granted(one)).toHaveLength(1);
  });
  test('count for their namespace, in which the cause is', () => {
    const more = prewarm('more', { namespace: 'blocked', rampUp: 'Immediate' }, { image: puller('1'), of: 9 });
    const limits = { ...WIDE, maxPullingNodesPerNamespace: 2 };
    expect(granted(plan([...blocked, more, other], seen, limits), puller('1'))).toHaveLength(1);
    expect(granted(plan([...blocked, more, other], seen, limits))).toHaveLength(2);
  });
});

describe('SlowStart', () => {
  const slow = (count = 6): PlannedPrewarm => prewarm('a', { rampUp: 'SlowStart' }, { count });
  test.each<[string, Record<string, PullState>, string[]]>([
    ['a canary whose node went away in mid-pull makes way for another', { n1: lost }, ['n2']],
    ['so does one of a wave', { n1: warm, n2: warm, n3: lost, n4: pulling }, ['n1', 'n2', 'n4', 'n5', 'n6']],
    ['a pull without a Pod does not stand in for one', { n1: { state: 'absent', inFlight: true } }, ['n2']],
    ['negative twin: a canary that pulls is waited for', { n1: pulling }, ['n1']],
  ])('%s', (_case, states, expected) => {
    const result = plan([slow()], world([puller(), states]), WIDE);
    expect(granted(result).filter((n) => states[n]?.state !== 'failed')).toEqual(expected);
  });
  test('what went away in mid-pull holds its place in the limits all the same', () => {
    const seen = world([puller(), { n1: lost }]);
    expect(granted(plan([slow()], seen, { ...WIDE, maxPullingNodes: 1 }))).not.toContain('n2');
  });
});

describe('SeedThenAll', () => {
  test.each<[string, Record<string, PullState>, number]>([
    ['begins on one node', {}, 1],
    ['waits for it', { n1: pulling }, 1],
    ['goes on on all once it can serve the others', { n1: warm }, 6],
    ['replaces one that fails', { n1: lost }, 1],
  ])('%s', (_case, states, count) => {
    const seen = Object.keys(states).length === 0 ? world() : world([puller(), states]);
    const nodes = granted(plan([prewarm('a', { rampUp: 'SeedThenAll' }, { count: 6 })], seen, WIDE));
    expect(nodes.filter((n) => states[n]?.state !== 'failed')).toHaveLength(count);
  });
});

describe('a pull that goes on without a Pod', () => {
  const bare: PullState = { state: 'absent', inFlight: true };
  const one = { ...WIDE, maxPullingNodes: 1 };

  test('gets a Pod again where it runs, at the limit too: nothing begins by that', () => {
    const seen = world([puller(), { n1: bare }]);
    expect(granted(plan([prewarm('a')], seen, one))).toEqual(['n1']);
    expect(waits(plan([prewarm('a')], seen, one), 'a')).toBe('cluster');
  });
  test('keeps its node and its place from other images', () => {
    const seen = world([puller('b'), { n1: bare }]);
    expect(granted(plan([prewarm('a')], seen, one))).toEqual([]);
    expect(granted(plan([prewarm('a')], seen, WIDE))).not.toContain('n1');
  });
  test('gets none where more than the limit is counted, or another image is pulled on its node: it may have ended unseen', () => {
    expect(granted(plan([prewarm('a')], world([puller(), { n1: bare, n2: bare }]), one))).toEqual([]);
    expect(granted(plan([prewarm('a')], world([puller(), { n1: bare }], [puller('b'), { n1: bare }]), WIDE))).not.toContain('n1');
  });
  test('gets none for who may begin nothing', () =>
    expect(granted(plan([prewarm('a', { mayPull: false })], world([puller(), { n1: bare }]), WIDE))).toEqual([]));

  test('begins nowhere, nor does any of its puller, while Pods of a set that is gone are waited for', () => {
    const seen = { ...world([puller(), { n1: bare }]), awaited: new Set([`/${puller().hash}`]) };
    const result = plan([prewarm('a'), prewarm('b', {}, { image: puller('b') })], seen, WIDE);
    expect(granted(result)).toEqual([]);
    expect(result.progress.get('a')).toMatchObject({ pulling: 0, waitsFor: 'collection' });
    expect(granted(result, puller('b')).length).toBeGreaterThan(0);
    const elsewhere = { ...seen, awaited: new Set([`team/${puller().hash}`]) };
    expect(granted(plan([prewarm('a')], elsewhere, WIDE)).length).toBeGreaterThan(0);
  });
});

describe('gangs in a line', () => {
  const gang = (key: string, letter: string, priority: number, of: number): PlannedPrewarm =>
    prewarm(key, { occupies: true, rank: { reserved: false, priority, queuedAt: 0 } }, { image: puller(letter), of, count: 3 });

  test('are warmed on nodes that those ahead are not going to take', () => {
    const result = plan([gang('first', 'a', 2, 6), gang('second', 'b', 1, 6)], world(), WIDE);
    expect(granted(result, puller('a'))).toEqual(['n1', 'n2', 'n3']);
    expect(granted(result, puller('b'))).toEqual(['n4', 'n5', 'n6']);
  });
  test('share nodes where there are no others, and wait for the pulls on them', () => {
    const result = plan([gang('first', 'a', 2, 4), gang('second', 'b', 1, 4)], world(), WIDE);
    expect(granted(result, puller('b'))).toEqual(['n4']);
    expect(waits(result, 'second')).toBe('node');
  });
  test('keep what they have when others overtake them', () => {
    const seen = world([puller('b'), { n1: warm, n2: pulling }]);
    const result = plan([gang('first', 'a', 2, 6), gang('second', 'b', 1, 6)], seen, WIDE);
    expect(granted(result, puller('b'))).toEqual(expect.arrayContaining(['n1', 'n2']));
    expect(result.progress.get('second')).toMatchObject({ desired: 3, warm: 1, pulling: 2 });
  });
  test('beyond the head pull nothing, and take nothing of what those at the head need', () => {
    const tail = { ...gang('tail', 'c', 9, 6), mayPull: false };
    const result = plan([tail, gang('head', 'a', 1, 6)], world(), { ...WIDE, maxPullingNodes: 3 });
    expect([granted(result, puller('c')), granted(result, puller('a'))]).toEqual([[], ['n1', 'n2', 'n3']]);
    expect(result.progress.get('tail')).toMatchObject({ desired: 3, pending: 3, pulling: 0 });
  });
});

describe('time', () => {
  test.each<[string, number, Parameters<typeof wavesOf>[1], number]>([
    ['all at once', 8, { concurrency: 8 }, 1],
    ['full waves', 9, { concurrency: 4 }, 3],
    ['one, two, four and the rest', 8, { concurrency: 100, first: 1 }, 4],
    ['growth ends at the limit', 20, { concurrency: 4, first: 1 }, 7],
    ['nothing to do', 0, { concurrency: 4, first: 1 }, 0],
  ])('%s', (_case, count, growth, expected) => {
    expect(wavesOf(count, growth)).toBe(expected);
  });

  test('a slow start is given the time that it needs to grow', () => {
    const demand = { bytesPerNode: 60 * GIB, nodes: 64, concurrency: 64 };
    const [at, slow] = [prewarmDeadlineMs(demand, RATES), prewarmDeadlineMs({ ...demand, first: 1 }, RATES)];
    expect(slow).toBe(7 * at);
  });

  test('an estimate counts the waves that are still to come', () => {
    const left = { runningMs: [0], waiting: 6, bytes: 0, seenMs: [10_000], concurrency: 64 };
    expect(remainingMs(left, RATES)).toBe(20_000);
    expect(remainingMs({ ...left, first: 2 }, RATES)).toBe(30_000);
  });
});
