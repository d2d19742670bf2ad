import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import type { Page, WatchEvent, WatchOptions, WatchPort } from '../../../src/kube/client.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { KubePort } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { encodeNodeClasses } from '../../../src/placement/node-classes.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { Facts } from '../../../src/webhook/facts.js';
import { AdmissionMetrics } from '../../../src/webhook/metrics.js';
import { FakeClock, keepLog, settle } from '../kube/fake-clock.js';

const SECOND = 1000;

/** An API server with no objects. Watches stay open and silent unless bookmarks are sent or the server is away. */
class Server implements WatchPort {
  away = false;
  readonly #ends = new Set<() => void>();
  readonly #sends = new Map<(event: WatchEvent<KubeObject>) => void, string>();

  /** By plural of the resource. */
  readonly objects: Record<string, unknown[]> = {};
  /** Resources that the account may not list. */
  readonly forbidden = new Set<string>();

  listPage<T extends KubeObject>({ plural }: Resource): Promise<Page<T>> {
    if (this.away) return Promise.reject(this.#refusal());
    if (this.forbidden.has(plural)) return Promise.reject(new KubeError('forbidden', { status: 403, reason: 'Forbidden' }));
    return Promise.resolve({ items: (this.objects[plural] ?? []) as T[], resourceVersion: '1' });
  }

  async *watch<T extends KubeObject>({ plural }: Resource, options: WatchOptions = {}): AsyncGenerator<WatchEvent<T>> {
    if (this.away) throw this.#refusal();
    options.onOpen?.();
    for (;;) {
      const said = await new Promise<WatchEvent<KubeObject> | 'end'>((done) => {
        this.#sends.set(done, plural);
        this.#ends.add(() => done('end'));
        options.signal?.addEventListener('abort', () => done('end'));
      });
      if (said === 'end') return;
      yield said as WatchEvent<T>;
    }
  }

  async bookmark(): Promise<void> {
    const event = { type: 'BOOKMARK', object: { metadata: { name: '', resourceVersion: '2' } } };
    for (const send of this.#sends.keys()) send(event as unknown as WatchEvent<KubeObject>);
    await settle();
  }

  /** Tells all watches of a resource about a changed object. */
  async modify(plural: string, object: unknown): Promise<void> {
    for (const [send, of] of this.#sends) if (of === plural) send({ type: 'MODIFIED', object } as WatchEvent<KubeObject>);
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

describe('what is published of nodes', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  const node = {
    labels: { 'kubernetes.io/arch': 'amd64' },
    taints: [],
    platform: 'linux/amd64',
    formats: ['nydus' as const],
    count: 3,
  };
  const quarantined = {
    namespace: 'team',
    variant: 'r.example/app@sha256:x',
    reason: 'PullFailed',
    message: 'nodes could not pull it',
  };
  const view = {
    publishedAt: now,
    tracked: ['kubernetes.io/arch'],
    classes: [node],
    capabilities: [{ format: 'nydus' as const, nodeSelector: { 'kubernetes.io/arch': 'amd64' } }],
    quarantined: [{ ...quarantined, variant: quarantined.variant, until: now + 120 * SECOND }],
    notes: [],
  };
  const serverWith = (data: Record<string, string>): Server => {
    const server = new Server();
    const metadata = { name: 'harbinger-node-classes', namespace: 'harbinger-system', resourceVersion: '1' };
    server.objects['configmaps'] = [{ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }];
    return server;
  };
  const pod = { spec: { nodeSelector: { 'kubernetes.io/arch': 'amd64' } } };

  test('tells where Pods can land, until it is too old', async () => {
    const { facts, clock } = await make(serverWith(encodeNodeClasses(view)));
    expect(facts.landing(pod)).toMatchObject({ platforms: ['linux/amd64'] });
    expect(facts.landing(pod).now['nydus']).toBeUndefined();
    expect(facts.landing(pod).now['overlaybd']).toBeTruthy();
    await clock.advance(301 * SECOND);
    expect(facts.landing(pod).platforms).toBeUndefined();
    expect(facts.landing(pod).now['nydus']).toMatch(/not known/);
    await facts.stop();
  });

  test('tells what is in quarantine, for its namespace and time alone', async () => {
    const { facts, clock } = await make(serverWith(encodeNodeClasses(view)));
    expect(facts.quarantine('other')).toBeUndefined();
    const held = facts.quarantine('team');
    expect(held?.messageOf('r.example/app@sha256:x')).toBe('nodes could not pull it');
    expect(held?.messageOf('r.example/other@sha256:x')).toBeUndefined();
    await clock.advance(121 * SECOND);
    expect(held?.messageOf('r.example/app@sha256:x')).toBeUndefined();
    await facts.stop();
  });

  test.each<[string, Server]>([
    ['nothing is published', new Server()],
    ['garbage is published', serverWith({ 'node-classes.json': '{' })],
  ])('where %s, platforms are not known and portable formats go on', async (_, server) => {
    const { facts } = await make(server);
    expect([facts.problem, facts.landing(pod).platforms]).toEqual([undefined, undefined]);
    await facts.stop();
  });

  test('a right that is missing does not stop admissions', async () => {
    const server = new Server();
    server.forbidden.add('configmaps');
    const { facts } = await make(server);
    expect([facts.problem, facts.staleness]).toEqual([undefined, undefined]);
    await facts.stop();
  });
});

test('counts of a policy are those of its status, and when they changed last', async () => {
  const server = new Server();
  const spec = { variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }] };
  const policy = (name: string, status?: unknown) => ({ metadata: { name, resourceVersion: '5' }, spec, status });
  server.objects['accelerationpolicies'] = [policy('fresh'), policy('used', { decisions: { accelerated: 3, left: 'x' } })];
  const { facts, clock } = await make(server);
  expect(facts.counts('fresh')).toEqual({ resourceVersion: '5', accelerated: 0, left: 0, countedAt: 0 });
  expect(facts.counts('used')).toEqual({ resourceVersion: '5', accelerated: 3, left: 0, countedAt: clock.now() });
  expect(facts.counts('absent')).toBeUndefined();
  await facts.stop();
});

test('a change of counts leaves the list of policies alone, and a change of rules does not', async () => {
  const server = new Server();
  const policy = (suffix: string, accelerated: number) => ({
    metadata: { name: 'p', resourceVersion: `${accelerated}`, generation: 1 },
    spec: { variants: [{ format: 'estargz', discover: { tagSuffix: suffix } }] },
    status: { decisions: { accelerated } },
  });
  server.objects['accelerationpolicies'] = [policy('-esgz', 1)];
  const { facts } = await make(server);
  const before = facts.policies;
  await server.modify('accelerationpolicies', policy('-esgz', 2));
  expect([facts.counts('p')?.accelerated, facts.policies === before]).toEqual([2, true]);
  // Deleted and made again while the watch was down: the generation is the same.
  await server.modify('accelerationpolicies', policy('-other', 3));
  expect(facts.policies[0]?.spec.variants[0]?.discover).toEqual({ tagSuffix: '-other' });
  await facts.stop();
});
