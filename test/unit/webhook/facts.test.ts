import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import type { Page, WatchEvent, WatchOptions, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { KubePort } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { Facts } from '../../../src/webhook/facts.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { FakeClock, keepLog, settle } from '../kube/fake-clock.js';

const SECOND = 1000;

/** An API server with no objects. Watches stay open and silent unless bookmarks are sent or the server is away. */
class Server implements WatchPort {
  away = false;
  readonly #ends = new Set<() => void>();
  readonly #bookmarks = new Set<() => void>();

  listPage<T extends KubeObject>(): Promise<Page<T>> {
    return this.away ? Promise.reject(this.#refusal()) : Promise.resolve({ items: [], resourceVersion: '1' });
  }

  async *watch<T extends KubeObject>(_: Resource, options: WatchOptions = {}): AsyncGenerator<WatchEvent<T>> {
    if (this.away) throw this.#refusal();
    options.onOpen?.();
    for (;;) {
      const said = await new Promise<'bookmark' | 'end'>((done) => {
        this.#bookmarks.add(() => done('bookmark'));
        this.#ends.add(() => done('end'));
        options.signal?.addEventListener('abort', () => done('end'));
      });
      if (said === 'end') return;
      yield { type: 'BOOKMARK', object: { metadata: { name: '', resourceVersion: '2' } } } as unknown as WatchEvent<T>;
    }
  }

  async bookmark(): Promise<void> {
    for (const send of this.#bookmarks) send();
    await settle();
  }

  /** Ends all watches and refuses new ones: what clients see of a restart. */
  async leave(): Promise<void> {
    this.away = true;
    for (const end of this.#ends) end();
    await settle();
  }

  #refusal(): KubeError {
    return new KubeError('connection refused', { status: 0, reason: 'ServiceUnavailable' });
  }
}

async function make(server = new Server()) {
  const clock = new FakeClock();
  const metrics = new Metrics();
  const client = server as unknown as KubePort & WatchPort;
  const facts = new Facts({
    client,
    namespace: 'harbinger-system',
    clock,
    log: keepLog().log,
    metrics,
    admission: new AdmissionMetrics(metrics, () => 0),
  });
  facts.start();
  await settle();
  await clock.advance(0);
  return { facts, clock, server };
}

describe('whether a replica should get admissions', () => {
  test('one that has not listed yet should not, and does not judge', async () => {
    const server = new Server();
    server.away = true;
    const { facts } = await make(server);
    expect(facts.problem).toContain('policies');
    expect(facts.staleness).toBe(facts.problem);
    await facts.stop();
  });

  test('one that hears a bookmark a minute should, for as long as it does', async () => {
    const { facts, clock, server } = await make();
    for (let minute = 0; minute < 4; minute++) {
      await clock.advance(60 * SECOND);
      await server.bookmark();
      expect(facts.staleness).toBeUndefined();
    }
    await facts.stop();
  });

  test('one whose watches went silent should not any more; what reaches it is still judged', async () => {
    const { facts, clock, server } = await make();
    await server.bookmark();
    await clock.advance(140 * SECOND);
    expect(facts.staleness).toBeUndefined();
    await clock.advance(20 * SECOND);
    expect(facts.staleness).toMatch(/nothing heard from the API server for 160 s/);
    expect(facts.problem).toBeUndefined();
    await facts.stop();
  });

  test('one that cannot reach the server stays in for a restart of it, goes when it lasts, and comes back', async () => {
    const { facts, clock, server } = await make();
    await server.leave();
    await clock.advance(80 * SECOND);
    expect(facts.staleness).toBeUndefined();
    await clock.advance(15 * SECOND);
    expect(facts.staleness).toMatch(/95 s \(.*connection refused/);
    server.away = false;
    await clock.advance(3 * SECOND);
    expect(facts.staleness).toBeUndefined();
    await facts.stop();
  });
});
