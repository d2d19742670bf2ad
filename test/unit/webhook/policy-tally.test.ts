import { describe, expect, test } from '@jest/globals';
import type { Outcome } from '../../../src/api/outcomes.js';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { ObjectName, Patch } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import type { Verdict } from '../../../src/rewrite/decide.js';
import type { PolicyCounts } from '../../../src/webhook/policy-tally.js';
import { PolicyTallies } from '../../../src/webhook/policy-tally.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';

const SECOND = 1_000;

function verdict(outcome: Outcome, parts: Partial<Verdict['decision']> = {}, already = false): Verdict {
  const container = {
    kind: 'container',
    name: 'app',
    image: 'x',
    pullPolicy: undefined,
    pointer: '/spec/containers/0/image',
  } as const;
  return {
    decision: { container: 'app', source: 'r.example/app:v1', image: 'x', policy: 'p', outcome, ...parts },
    container,
    already,
  };
}

function withoutPolicy({ decision: { policy: _, ...decision }, ...rest }: Verdict): Verdict {
  return { ...rest, decision };
}

function make() {
  const clock = new FakeClock();
  const { log, lines } = keepLog();
  const counts = new Map<string, PolicyCounts>([['p', { resourceVersion: '7', accelerated: 10, left: 20, countedAt: 0 }]]);
  const written: { name: string; body: Record<string, unknown> }[] = [];
  const world: { error?: Error } = {};
  const client = {
    patch: <T extends KubeObject>(_: Resource, { name }: ObjectName, patch: Patch): Promise<T> => {
      if (world.error !== undefined) return Promise.reject(world.error);
      if (patch.type !== 'merge') throw new Error('not a merge patch');
      written.push({ name, body: patch.body as Record<string, unknown> });
      const { decisions } = (patch.body as { status: { decisions: { accelerated: number; left: number } } }).status;
      counts.set(name, { ...decisions, resourceVersion: '8', countedAt: clock.now() });
      return Promise.resolve({} as T);
    },
  };
  const tallies = new PolicyTallies({ client, counts: (name) => counts.get(name), clock, log, random: () => 0 });
  return { tallies, clock, written, counts, world, lines };
}

describe('PolicyTallies', () => {
  test('adds to what stands there, guarded by its version, with the last problem', async () => {
    const { tallies, clock, written } = make();
    tallies.count([verdict('accelerated'), verdict('no-candidate')], true);
    tallies.count([verdict('variant-stale', { message: 'first' }), verdict('freshness-unknown', { message: 'last' })], true);
    expect(written).toEqual([]);
    await clock.advance(SECOND);
    expect(written).toEqual([
      {
        name: 'p',
        body: {
          metadata: { resourceVersion: '7' },
          status: {
            decisions: { accelerated: 11, left: 23 },
            lastProblem: {
              time: '2026-01-01T00:00:00Z',
              outcome: 'freshness-unknown',
              image: 'r.example/app:v1',
              message: 'last',
            },
          },
        },
      },
    ]);
    expect(clock.pending).toBe(0);
  });

  test('writes a policy once a minute, whichever replica wrote it last', async () => {
    const { tallies, clock, written, counts } = make();
    counts.set('p', { resourceVersion: '7', accelerated: 0, left: 0, countedAt: clock.now() });
    tallies.count([verdict('accelerated')], true);
    await clock.advance(58 * SECOND);
    expect(written).toEqual([]);
    await clock.advance(3 * SECOND);
    expect(written).toHaveLength(1);
    for (let i = 0; i < 50; i++) {
      tallies.count([verdict('accelerated')], true);
      await clock.advance(SECOND);
    }
    expect(written).toHaveLength(1);
    await clock.advance(60 * SECOND);
    expect(written.map((w) => (w.body['status'] as { decisions: { accelerated: number } }).decisions.accelerated)).toEqual([
      1, 51,
    ]);
  });

  test.each<[string, Verdict[], boolean, number[]]>([
    ['what an earlier call wrote', [verdict('accelerated', {}, true)], true, []],
    ['what no policy decided', [withoutPolicy(verdict('pinned'))], true, []],
    ['what was not carried out, as left', [verdict('accelerated')], false, [10, 21]],
  ])('counts %s', async (_, verdicts, changed, want) => {
    const { tallies, clock, written } = make();
    tallies.count(verdicts, changed);
    await clock.advance(5 * SECOND);
    expect(written.flatMap((w) => Object.values((w.body['status'] as { decisions: Record<string, number> }).decisions))).toEqual(
      want,
    );
  });

  test('a write that meets another is made again on the newer counts, without a word', async () => {
    const { tallies, clock, written, counts, world, lines } = make();
    world.error = new KubeError('conflict', { status: 409, reason: 'Conflict' });
    tallies.count([verdict('accelerated'), verdict('auth-denied', { message: 'denied' })], true);
    await clock.advance(SECOND);
    delete world.error;
    counts.set('p', { resourceVersion: '9', accelerated: 100, left: 200, countedAt: 0 });
    await clock.advance(SECOND);
    expect(written).toMatchObject([
      {
        body: {
          metadata: { resourceVersion: '9' },
          status: { decisions: { accelerated: 101, left: 201 }, lastProblem: { message: 'denied' } },
        },
      },
    ]);
    expect(lines).toEqual([]);
  });

  test('an API server that is away is told in the log, and nothing is lost', async () => {
    const { tallies, clock, written, world, lines } = make();
    world.error = new KubeError('away', { status: 0, reason: 'ServiceUnavailable' });
    tallies.count([verdict('accelerated')], true);
    await clock.advance(SECOND);
    expect(lines).toMatchObject([{ policy: 'p' }]);
    delete world.error;
    await clock.advance(5 * SECOND);
    expect(written).toHaveLength(1);
  });

  test('a policy that is gone is forgotten', async () => {
    const { tallies, clock, written, counts } = make();
    counts.clear();
    tallies.count([verdict('accelerated')], true);
    await clock.advance(5 * SECOND);
    expect([written, clock.pending]).toEqual([[], 0]);
  });

  test('a replica that ends writes what is left', async () => {
    const { tallies, clock, written, counts } = make();
    counts.set('p', { resourceVersion: '7', accelerated: 0, left: 0, countedAt: clock.now() });
    tallies.count([verdict('accelerated')], true);
    await tallies.stop();
    expect([written.length, clock.pending]).toEqual([1, 0]);
  });
});
