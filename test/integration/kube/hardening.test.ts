import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { isExpired, type KubeError, isUnreachable } from '../../../src/kube/errors.js';
import { EventRecorder, referenceOf } from '../../../src/kube/events.js';
import { WorkQueue } from '../../../src/kube/work-queue.js';
import { systemClock } from '../../../src/observe/clock.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { statusObject } from '../../cluster/faults/proxy.js';
import { notYet, until } from '../../cluster/until.js';
import { keepLog } from '../../unit/kube/fake-clock.js';
import { conformanceCases } from './conformance-cases.js';
import { Ground, isList, isWatch } from './ground.js';
import { processCases } from './process-cases.js';
import { CONFIG_MAPS, WIDGETS } from './shared.js';

const START_MS = 300_000;
const FAST = { backoffMs: [100, 1_000], slowRetryMs: 1_000 } as const;

let ground: Ground;
beforeAll(async () => (ground = await Ground.start()), START_MS);
afterEach(async () => ground.release(), 30_000);
afterAll(async () => ground?.stop(), 60_000);

/** Requests of one namespace that reached the proxy. */
const requests = (namespace: string, which = isList) =>
  ground.proxy.requests.filter((r) => which(r) && r.url.pathname.includes(`/${namespace}/`));
const relists = async (metrics: Metrics, cause: string): Promise<number> =>
  Number(new RegExp(`relists_total{resource="configmaps",cause="${cause}"} (\\d+)`).exec(await metrics.text())?.[1] ?? 0);

async function following(namespace: string, options: Parameters<Ground['follow']>[1] = {}) {
  await ground.write(namespace, 'a', 'one');
  const metrics = new Metrics();
  const { reflector, lines } = await ground.follow(namespace, { metrics, pace: FAST, ...options });
  await ground.seen(reflector, `${namespace}/a`, 'one');
  // The positive control of every case: without a fault a change comes through.
  await ground.write(namespace, 'a', 'two');
  await ground.seen(reflector, `${namespace}/a`, 'two');
  return { reflector, lines, metrics };
}

describe('a reflector on a real API server', () => {
  test('resumes after a cut connection without listing again, and misses nothing', async () => {
    const ns = await ground.namespace();
    const { reflector } = await following(ns);
    const hold = ground.proxy.fail(isWatch, { status: 503, reason: 'ServiceUnavailable' });
    ground.proxy.gate.cut();
    await until('watches to be refused', () => hold.hits >= 2 || notYet(hold.hits));
    expect(reflector.problem).toContain('503');
    await ground.write(ns, 'a', 'three');
    await ground.cluster.client.delete('v1/ConfigMap', `${ns}/kube-root-ca.crt`);
    hold.end();
    await ground.seen(reflector, `${ns}/a`, 'three');
    expect(reflector.problem).toBeUndefined();
    expect(requests(ns)).toHaveLength(1);
  }, 120_000);

  test.each([
    ['by status', 'status'],
    ['in the middle of a watch', 'in band'],
  ])(
    'lists again when the version has expired: 410 %s',
    async (_what, way) => {
      const ns = await ground.namespace();
      const { reflector, metrics } = await following(ns);
      await ground.write(ns, 'goes', 'x');
      await ground.seen(reflector, `${ns}/goes`, 'x');
      const hold = ground.proxy.fail(isWatch, { status: 503, reason: 'ServiceUnavailable' });
      if (way === 'in band')
        expect(ground.proxy.inject(isWatch, { type: 'ERROR', object: statusObject(410, 'Expired') })).toBe(1);
      else ground.proxy.gate.cut();
      await until('the watch to be refused', () => hold.hits > 0 || relists(metrics, 'expired').then((n: number) => n > 0));
      await ground.cluster.client.delete('v1/ConfigMap', `${ns}/goes`);
      if (way === 'status') ground.proxy.fail(isWatch, { status: 410, reason: 'Expired', times: 1 });
      hold.end();
      await ground.seen(reflector, `${ns}/goes`, undefined);
      await until('one relist', async () => (await relists(metrics, 'expired')) === 1);
      await ground.write(ns, 'a', 'three');
      await ground.seen(reflector, `${ns}/a`, 'three');
    },
    120_000,
  );

  test('survives a restart of the API server, whose fresh watch cache no longer knows the version', async () => {
    const ns = await ground.namespace();
    const { reflector, metrics } = await following(ns);
    await ground.write(ns, 'goes', 'x');
    await ground.seen(reflector, `${ns}/goes`, 'x');
    await ground.cluster.stopApiServer();
    await until('the outage to be noticed', () => reflector.problem ?? notYet('no problem'));
    expect([reflector.hasSynced, reflector.get(`${ns}/a`)?.value]).toEqual([true, 'two']);
    // Our watch stays away until the server has news that only a list can tell.
    const hold = ground.proxy.fail(isWatch, { status: 503, reason: 'ServiceUnavailable' });
    await ground.cluster.startApiServer();
    await ground.cluster.client.delete('v1/ConfigMap', `${ns}/goes`);
    await ground.write(ns, 'a', 'three');
    await ground.cluster.restartApiServer();
    hold.end();
    await ground.seen(reflector, `${ns}/a`, 'three');
    await ground.seen(reflector, `${ns}/goes`, undefined);
    expect(await relists(metrics, 'expired')).toBe(1);
    expect(reflector.problem).toBeUndefined();
  }, 120_000);

  test('stays away for as long as 429 asks, for lists and watches', async () => {
    const ns = await ground.namespace();
    const busy = { status: 429, reason: 'TooManyRequests', headers: { 'retry-after': '3' }, times: 2 };
    const lists = ground.proxy.fail(isList, busy);
    const { reflector } = await following(ns);
    const gaps = (which: typeof isList): number[] => {
      const at = requests(ns, which)
        .filter((r) => r.status === 429 || r.forwarded)
        .map((r) => r.at);
      return at.slice(1).map((t, i) => t - (at[i] ?? 0));
    };
    expect(lists.hits).toBe(2);
    expect(Math.min(...gaps(isList))).toBeGreaterThanOrEqual(2_990);
    const before = requests(ns, isWatch).length;
    const watches = ground.proxy.fail(isWatch, { ...busy, times: 1 });
    ground.proxy.gate.cut();
    await ground.write(ns, 'a', 'three');
    await ground.seen(reflector, `${ns}/a`, 'three');
    expect(watches.hits).toBe(1);
    const [refused, accepted] = requests(ns, isWatch).slice(before);
    expect((accepted?.at ?? 0) - (refused?.at ?? 0)).toBeGreaterThanOrEqual(2_990);
    expect(requests(ns)).toHaveLength(3);
  }, 120_000);

  test('takes a half-open connection for dead and watches on over a new one', async () => {
    const ns = await ground.namespace();
    const { reflector } = await following(ns, { pace: { ...FAST, watchMs: [4_000, 4_000], graceMs: 1_000 } });
    const watches = requests(ns, isWatch).length;
    ground.proxy.gate.freeze({ newOnesWork: true });
    const frozenAt = Date.now();
    await ground.write(ns, 'a', 'three');
    await ground.seen(reflector, `${ns}/a`, 'three');
    expect(Date.now() - frozenAt).toBeGreaterThan(500);
    expect(requests(ns, isWatch).length).toBeGreaterThan(watches);
    expect(requests(ns)).toHaveLength(1);
    ground.proxy.gate.thaw();
  }, 120_000);

  test('tells what it is not allowed to do, and goes on once it is', async () => {
    const ns = await ground.namespace(false);
    await ground.write(ns, 'a', 'one');
    const { reflector } = await ground.follow(ns, { pace: FAST });
    const problem = await until('the problem to be told', () => reflector.problem ?? notYet('no problem'));
    expect(problem).toMatch(/not allowed to list and watch configmaps: grant both verbs .*system:serviceaccount:.*:tester/);
    expect(reflector.hasSynced).toBe(false);
    await ground.grant(ns);
    await ground.seen(reflector, `${ns}/a`, 'one');
    expect([reflector.hasSynced, reflector.problem]).toEqual([true, undefined]);
  }, 120_000);

  test('waits for a CRD that is not installed yet', async () => {
    const ns = await ground.namespace();
    const { reflector } = await ground.follow(ns, { resource: WIDGETS, pace: FAST });
    const problem = await until('the problem to be told', () => reflector.problem ?? notYet('no problem'));
    expect(problem).toContain(
      'does not serve widgets.test.harbinger.dev in test.harbinger.dev/v1: install its CustomResourceDefinition',
    );
    const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    await ground.cluster.client.apply({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'widgets.test.harbinger.dev' },
      spec: {
        group: 'test.harbinger.dev',
        scope: 'Namespaced',
        names: { plural: 'widgets', singular: 'widget', kind: 'Widget', listKind: 'WidgetList' },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: schema } }],
      },
    });
    await until('the cache to be synced', () => reflector.hasSynced || notYet(reflector.problem));
    const client = await ground.client(ns, 'direct');
    await client.create(WIDGETS, { apiVersion: 'test.harbinger.dev/v1', kind: 'Widget', metadata: { namespace: ns, name: 'w' } });
    await until('the widget', () => reflector.get(`${ns}/w`) !== undefined || notYet(reflector.problem));
    await client.close();
  }, 120_000);

  test('stops at once while it backs off, and asks for nothing afterwards', async () => {
    const ns = await ground.namespace();
    const away = ground.proxy.fail(isList, { status: 500, reason: 'InternalError' });
    const { reflector, lines } = await ground.follow(ns, { pace: { backoffMs: [20_000, 30_000] } });
    await until('the first failure', () => away.hits > 0 && reflector.problem !== undefined);
    const told = lines.length;
    const began = performance.now();
    await reflector.stop();
    // Half of the back-off: a busy machine takes a second for nothing.
    expect(performance.now() - began).toBeLessThan(10_000);
    expect([requests(ns).length, lines.length]).toEqual([1, told]);
    away.end();
  }, 120_000);
});

describe('calls to a real API server', () => {
  test('a token that expires between two pages is 410; a list goes on, and sees every object', async () => {
    const ns = await ground.namespace();
    const client = await ground.client(ns, 'direct');
    for (let i = 0; i < 12; i++) await ground.write(ns, `m${String(i).padStart(2, '0')}`, 'x');
    const first = await client.listPage(CONFIG_MAPS, { namespace: ns, limit: 5 });
    const pages = client.list(CONFIG_MAPS, { namespace: ns, limit: 5 });
    const names = new Set<string>(
      (await pages[Symbol.asyncIterator]().next()).value?.map((o: { metadata: { name: string } }) => o.metadata.name),
    );
    const token = first.continue ?? '';
    const error = await until(
      'etcd to be compacted',
      async () => {
        await ground.write(ns, 'm00', String(Math.random()));
        return client.listPage(CONFIG_MAPS, { namespace: ns, limit: 5, continue: token }).then(
          () => notYet('the token still works'),
          (e: unknown) => e as KubeError,
        );
      },
      { timeoutMs: 60_000, everyMs: 300 },
    );
    expect(isExpired(error)).toBe(true);
    expect(error.continueToken).toBeDefined();
    for await (const page of pages) for (const object of page) names.add(object.metadata.name);
    expect([...names].filter((n) => n.startsWith('m')).sort()).toHaveLength(12);
    await client.close();
  }, 90_000);

  test('after one call that was not answered the next one does not wait on the dead connections', async () => {
    const ns = await ground.namespace();
    await ground.write(ns, 'a', 'one');
    const client = await ground.client(ns);
    const get = (timeoutMs: number): Promise<unknown> => client.get(CONFIG_MAPS, { namespace: ns, name: 'a' }, { timeoutMs });
    await Promise.all(Array.from({ length: 8 }, () => get(20_000)));
    ground.proxy.gate.freeze({ newOnesWork: true });
    const error = await get(500).catch((e: unknown) => e);
    expect(isUnreachable(error)).toBe(true);
    for (let i = 0; i < 8; i++) await get(20_000);
    ground.proxy.gate.thaw();
    await client.close();
  }, 120_000);

  test('writes are refused when somebody else wrote first, and unknown fields survive a patch', async () => {
    const ns = await ground.namespace();
    await ground.write(ns, 'a', 'one');
    const client = await ground.client(ns, 'direct');
    const name = { namespace: ns, name: 'a' };
    const read = await client.get(CONFIG_MAPS, name);
    await client.patch(CONFIG_MAPS, name, {
      type: 'merge',
      body: { metadata: { resourceVersion: read.metadata.resourceVersion }, data: { more: 'x' } },
    });
    const late = client.patch(CONFIG_MAPS, name, {
      type: 'merge',
      body: { metadata: { resourceVersion: read.metadata.resourceVersion }, data: { value: 'y' } },
    });
    await expect(late).rejects.toMatchObject({ status: 409, reason: 'Conflict' });
    expect(await client.get(CONFIG_MAPS, name)).toMatchObject({ data: { value: 'one', more: 'x' } });
    await expect(client.delete(CONFIG_MAPS, name, { uid: 'another' })).rejects.toMatchObject({ status: 409 });
    await client.delete(CONFIG_MAPS, name);
    await client.delete(CONFIG_MAPS, name);
    await client.close();
  }, 120_000);
});

describe('the event recorder on a real API server', () => {
  test('writes an Event, tells repetitions as its series, and cuts what is too long', async () => {
    const ns = await ground.namespace();
    await ground.write(ns, 'a', 'one');
    const client = await ground.client(ns, 'direct');
    const { log, lines } = keepLog();
    const events = new EventRecorder({ client, controller: 'harbinger.dev/test', instance: 'test-1', clock: systemClock, log });
    const regarding = referenceOf(await client.get(CONFIG_MAPS, { namespace: ns, name: 'a' }));
    for (let i = 0; i < 3; i++)
      events.event({ regarding, type: 'Warning', reason: 'NoCandidateNodes', action: 'Prewarm', note: 'ä'.repeat(1_000) });
    await events.stop();
    expect(lines).toEqual([]);
    const [event, ...others] = (await ground.cluster.client.list('events.k8s.io/v1/Event', { namespace: ns })).filter(
      (e) => e['reason'] === 'NoCandidateNodes',
    );
    expect(others).toEqual([]);
    expect(event).toMatchObject({
      regarding,
      type: 'Warning',
      action: 'Prewarm',
      reportingController: 'harbinger.dev/test',
      series: { count: 3 },
    });
    expect(Buffer.byteLength(event?.['note'])).toBeLessThanOrEqual(1024);
    await client.close();
  }, 120_000);
});

describe('a work queue whose API server is away', () => {
  test('stops at once while a key backs off', async () => {
    const ns = await ground.namespace();
    const client = await ground.client(ns);
    const away = ground.proxy.fail((r) => r.url.pathname.includes(`/${ns}/`), {
      status: 503,
      reason: 'ServiceUnavailable',
      headers: { 'retry-after': '60' },
    });
    const runs: string[] = [];
    const reconcile = async (key: string): Promise<object> => {
      runs.push(key);
      await client.get(CONFIG_MAPS, { namespace: ns, name: key });
      return {};
    };
    const queue = new WorkQueue({ name: 'hardening', concurrency: 2, clock: systemClock, log: keepLog().log, reconcile });
    queue.start();
    queue.add('a');
    await until('the failure', () => away.hits > 0);
    // Asked for a minute of peace: not even another add brings the key back sooner.
    queue.add('a');
    const began = performance.now();
    await queue.stop();
    expect(performance.now() - began).toBeLessThan(10_000);
    away.end();
    expect(runs).toEqual(['a']);
    await client.close();
  }, 90_000);
});

processCases(() => ground);
conformanceCases(() => ground);
