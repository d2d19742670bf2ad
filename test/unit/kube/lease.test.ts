import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeError } from '../../../src/kube/errors.js';
import { Lease, type LeaseOptions } from '../../../src/kube/lease.js';
import type { ObjectName, Patch } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { FakeClock, keepLog, settle } from './fake-clock.js';

type Stored = KubeObject & { spec: Record<string, unknown> };

/** One Lease with the API server's optimistic locking. */
class OneLease {
  stored: Stored | undefined;
  writes = 0;
  #version = 0;
  /** Thrown instead of an answer; by holder, since a partition cuts off one side. */
  readonly cutOff = new Map<string, Error | 'hang'>();

  clientOf(identity: string): LeaseOptions['client'] {
    const through = async <T>(work: () => unknown): Promise<T> => {
      const fault = this.cutOff.get(identity);
      if (fault === 'hang') return new Promise<T>(() => undefined);
      if (fault !== undefined) throw fault;
      return Promise.resolve(structuredClone(work()) as T);
    };
    return {
      get: <T extends KubeObject>(_: Resource, __: ObjectName) => through<T>(() => this.stored ?? this.#fail(404, 'NotFound')),
      create: <T extends KubeObject>(_: Resource, object: KubeObject) =>
        through<T>(() => (this.stored ? this.#fail(409, 'AlreadyExists') : this.#keep(object as Stored))),
      patch: <T extends KubeObject>(_: Resource, __: ObjectName, patch: Patch) => through<T>(() => this.#merge(patch)),
    };
  }

  #merge(patch: Patch): Stored {
    if (patch.type !== 'merge') throw new Error('a merge patch was expected');
    const body = patch.body as { metadata: { resourceVersion: string }; spec: Record<string, unknown> };
    if (this.stored === undefined) return this.#fail(404, 'NotFound');
    if (body.metadata.resourceVersion !== this.stored.metadata.resourceVersion) return this.#fail(409, 'Conflict');
    return this.#keep({ ...this.stored, spec: { ...this.stored.spec, ...body.spec } });
  }

  #keep(object: Stored): Stored {
    this.writes++;
    this.stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#version) } };
    return this.stored;
  }

  #fail(status: number, reason: string): never {
    throw new KubeError(reason, { status, reason });
  }
}

function candidate(server: OneLease, clock: FakeClock, options: Pick<LeaseOptions, 'identity'> & Partial<LeaseOptions>) {
  const told: string[] = [];
  const { log, lines } = keepLog();
  const lease = new Lease({
    client: server.clientOf(options.identity),
    namespace: 'ns',
    name: 'l',
    clock,
    log,
    random: () => 0,
    ...options,
  });
  const stop = new AbortController();
  let held: AbortSignal | undefined;
  const running = lease.run(stop.signal, {
    onStarted: (signal) => {
      held = signal;
      told.push('started');
    },
    onLost: (reason) => told.push(`lost: ${reason}`),
  });
  return { lease, told, stop, running, lines, held: () => held };
}

function world() {
  const clock = new FakeClock();
  const began = clock.now();
  let jumped = 0;
  const server = new OneLease();
  const monotonic = (): number => clock.now() - began - jumped;
  return {
    clock,
    server,
    join: (identity: string, more: Partial<LeaseOptions> = {}) => candidate(server, clock, { identity, monotonic, ...more }),
    jump: (ms: number) => ((jumped += ms), clock.jump(ms)),
  };
}

describe('the lease', () => {
  test('has one holder, who renews it every two seconds with six-digit stamps', async () => {
    const { clock, server, join } = world();
    const a = join('a');
    await settle();
    const b = join('b');
    await clock.advance(60_000);
    expect([a.told, b.told, a.lease.held, b.lease.held]).toEqual([['started'], [], true, false]);
    expect(server.writes).toBeGreaterThan(25);
    expect(server.stored?.spec).toMatchObject({ holderIdentity: 'a', leaseDurationSeconds: 15, leaseTransitions: 0 });
    expect(server.stored?.spec['renewTime']).toMatch(/^2026-01-01T00:01:00\.000000Z$/);
  });

  test('goes to the next one at once when the holder stops cleanly', async () => {
    const { clock, server, join } = world();
    const a = join('a');
    await settle();
    const b = join('b');
    await clock.advance(5_000);
    a.stop.abort();
    await a.running;
    expect([a.lease.held, a.held()?.aborted, a.told]).toEqual([false, true, ['started']]);
    await clock.advance(2_000);
    expect(b.told).toEqual(['started']);
    expect(server.stored?.spec).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
  });

  test.each<[string, Error | 'hang']>([
    ['gets errors', new KubeError('refused', { status: 0, reason: 'Unreachable' })],
    ['is answered with 500', new KubeError('etcd', { status: 500, reason: 'InternalError' })],
  ])('is given up after 10 s by a holder who %s, before another can take it after 15 s', async (_what, fault) => {
    const { clock, server, join } = world();
    const a = join('a');
    await settle();
    const b = join('b');
    await clock.advance(4_000);
    server.cutOff.set('a', fault);
    await clock.advance(10_000);
    expect(a.told).toEqual(['started', expect.stringContaining('could not be renewed within 10000 ms')]);
    expect([a.lease.held, a.held()?.aborted, b.told]).toEqual([false, true, []]);
    await clock.advance(8_000);
    expect(b.told).toEqual(['started']);
    await a.running;
  });

  test('is lost to a process that was stopped for a while and finds another holder', async () => {
    const { clock, server, join } = world();
    const a = join('a');
    await clock.advance(4_000);
    // The process sleeps: its timers do not fire, and somebody else writes.
    if (server.stored === undefined) throw new Error('nobody holds the lease');
    server.stored = {
      ...server.stored,
      metadata: { ...server.stored.metadata, resourceVersion: '99' },
      spec: { ...server.stored.spec, holderIdentity: 'b' },
    };
    await clock.advance(2_000);
    expect(a.told).toEqual(['started', 'lost: b took lease ns/l']);
  });

  test('is not taken from a live holder when the wall clock is set forward, nor when its stamps are from another time', async () => {
    const { clock, server, join, jump } = world();
    const a = join('a');
    // b looks often, so that it knows a's newest record when the clock jumps, and could take it.
    const b = join('b', { retryPeriodMs: 500 });
    await clock.advance(3_000);
    jump(3_600_000);
    await clock.advance(4_000);
    jump(-7_200_000);
    await clock.advance(20_000);
    expect([a.told, b.told, server.stored?.spec['holderIdentity']]).toEqual([['started'], [], 'a']);
  });

  test('is created again when a person deletes it', async () => {
    const { clock, server, join } = world();
    const a = join('a');
    await clock.advance(3_000);
    server.stored = undefined;
    await clock.advance(6_000);
    expect(a.told).toEqual(['started']);
    expect(server.stored).toMatchObject({ spec: { holderIdentity: 'a' } });
  });

  test('a renewal that arrived without its answer is no loss', async () => {
    const { clock, server, join } = world();
    const a = join('a');
    await clock.advance(3_000);
    if (server.stored === undefined) throw new Error('nobody holds the lease');
    server.stored = { ...server.stored, metadata: { ...server.stored.metadata, resourceVersion: '77' } };
    await clock.advance(6_000);
    expect(a.told).toEqual(['started']);
  });

  test('of two who find it expired one wins', async () => {
    const { clock, server, join } = world();
    const dead = join('dead');
    await settle();
    server.cutOff.set('dead', new Error('gone'));
    const a = join('a');
    const b = join('b');
    await clock.advance(30_000);
    expect([a.told.length + b.told.length, dead.told.length]).toEqual([1, 2]);
  });

  test('stopping while it waits writes nothing', async () => {
    const { clock, server, join } = world();
    join('a');
    await clock.advance(1_000);
    const b = join('b');
    await settle();
    const { stored } = server;
    b.stop.abort();
    await b.running;
    expect([server.stored, b.told]).toEqual([stored, []]);
  });

  test('work that has to end first keeps the lease until it has', async () => {
    const { clock, server } = world();
    const { log } = keepLog();
    const lease = new Lease({
      client: server.clientOf('a'),
      namespace: 'ns',
      name: 'l',
      identity: 'a',
      clock,
      log,
      random: () => 0,
      monotonic: () => clock.now(),
    });
    const stop = new AbortController();
    let finish: () => void = () => undefined;
    const running = lease.run(stop.signal, {
      onStarted: () => undefined,
      onLost: () => undefined,
      onStopping: () => new Promise((done) => (finish = done)),
    });
    await clock.advance(1_000);
    stop.abort();
    await clock.advance(20_000);
    expect([server.stored?.spec['holderIdentity'], lease.held]).toEqual(['a', true]);
    finish();
    await running;
    expect(server.stored?.spec['holderIdentity']).toBe('');
  });

  test('times that cannot work are refused', () => {
    const clock = new FakeClock();
    expect(
      () =>
        new Lease({
          client: new OneLease().clientOf('a'),
          namespace: 'ns',
          name: 'l',
          identity: 'a',
          clock,
          log: keepLog().log,
          renewDeadlineMs: 20_000,
        }),
    ).toThrow('does not hold');
  });
});
