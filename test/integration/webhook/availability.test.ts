import { createServer, type Server } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import type { Images } from './ground.js';
import { decisionsOf, imageOf, metric, namespace, pod, policy, pushPair, untilOutcome, verdictOf } from './ground.js';

const WEBHOOK = 'admissionregistration.k8s.io/v1/MutatingWebhookConfiguration';
/** Lives short enough for both certificates to be replaced while a test watches, and a farewell long enough to be seen. */
const SHORT_LIVED = ['--ca-validity=40s', '--leaf-validity=15s', '--drain-delay=8s'];

/** Creates Pods in a row, in a dry run, until told to stop; counts those that came back with their own image. */
class Traffic {
  total = 0;
  missed: string[] = [];
  readonly #running: Promise<unknown>;
  #stopped = false;

  constructor(cluster: Cluster, image: string, lanes = 2) {
    const lane = async (): Promise<void> => {
      while (!this.#stopped) {
        const path = '/api/v1/namespaces/team/pods?dryRun=All';
        const admitted = (await cluster.client.request('POST', path, pod(image))) as Raw;
        this.total++;
        if (imageOf(admitted) === image)
          this.missed.push(`${new Date().toISOString()} ${decisionsOf(admitted)[0]?.outcome ?? 'not seen'}`);
      }
    };
    this.#running = Promise.all(Array.from({ length: lanes }, lane));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }
}

describe('availability of the webhook', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let app: Images;
  let silent: Server;
  let silentHost: string;
  const replicas = (): [HarbingerProcess, HarbingerProcess] => {
    const [a, b] = harbinger.webhooks;
    if (a === undefined || b === undefined) throw new Error('two replicas are needed');
    return [a, b];
  };
  const caBundle = async (): Promise<string> =>
    (await cluster.client.get(WEBHOOK, 'harbinger'))['webhooks'][0].clientConfig.caBundle as string;
  const certificatesIn = (bundle: string): number =>
    Buffer.from(bundle, 'base64').toString().split('BEGIN CERTIFICATE').length - 1;
  const rewrites = async (p: HarbingerProcess): Promise<number> =>
    metric(p, 'harbinger_admission_requests_total', '{result="mutated"}');

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-availability', say: () => undefined });
    silent = createServer((socket) => socket.on('error', () => undefined));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    silentHost = `127.0.0.1:${(silent.address() as { port: number }).port}`;
    app = await pushPair(cluster, 'team/app');
    await cluster.client.apply(namespace());
    const registries = [cluster.registry.host, silentHost].map((host) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
    // A busy test machine stalls processes; what that does to admissions is not what these tests are about.
    const config = { registries, budgets: { maxInFlightRequests: 4, eventLoopLagMs: 2_000 } };
    harbinger = await cluster.installHarbinger({ controllers: 0, webhookReplicas: 2, config, flags: { webhook: SHORT_LIVED } });
    await cluster.client.apply(policy('all'));
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 300_000);
  afterAll(async () => {
    silent?.close();
    await cluster?.stop();
  });

  test('certificates and their authority are replaced under constant traffic, and no admission is lost', async () => {
    const [a, b] = replicas();
    const first = await caBundle();
    const since = Date.now();
    const traffic = new Traffic(cluster, app.source);
    const served = await rewrites(a);
    const news = (p: HarbingerProcess, what: string): number =>
      p
        .logs()
        .split('\n')
        .filter((l) => l.includes(what)).length;
    await until(
      'two new authorities, and leaves of them in both replicas',
      () => {
        const authorities = news(a, 'new certificate authority') + news(b, 'new certificate authority');
        const leaves = [a, b].map(
          (p) =>
            p
              .logs()
              .split('\n')
              .filter((l) => l.includes('the authority changed')).length,
        );
        return (
          (authorities >= 3 && leaves.every((n) => n >= 2)) ||
          notYet({ authorities, leaves, missed: traffic.missed, total: traffic.total })
        );
      },
      { timeoutMs: 120_000, everyMs: 500 },
    );
    await traffic.stop();
    const last = await caBundle();
    expect(traffic.missed).toEqual([]);
    expect(traffic.total).toBeGreaterThan(50);
    expect(await rewrites(a)).toBeGreaterThan(served);
    expect(last).not.toBe(first);
    expect(certificatesIn(last)).toBeGreaterThanOrEqual(2);
    // Replicas that fought over the bundle would write without end: each authority comes once and goes once.
    const writes = cluster.audit.query({ verb: 'patch', resource: 'mutatingwebhookconfigurations', since });
    expect(writes.length).toBeGreaterThan(0);
    expect(writes.length).toBeLessThanOrEqual(12);
    // The first authority is long expired and gone.
    expect(Buffer.from(last, 'base64').toString()).not.toContain(Buffer.from(first, 'base64').toString().split('\n')[3]);
  }, 240_000);

  test.each([
    ['emptied', ''],
    ['spoiled', Buffer.from('garbage').toString('base64')],
  ])(
    'a caBundle that somebody %s is restored',
    async (_, value) => {
      await cluster.client.patch(WEBHOOK, 'harbinger', [{ op: 'replace', path: '/webhooks/0/clientConfig/caBundle', value }], {
        type: 'json',
      });
      await until('the bundle to be restored', async () => certificatesIn((await caBundle()) ?? '') > 0);
      await untilOutcome(cluster, app.source, 'accelerated');
    },
    120_000,
  );

  test('the Secret deleted: a new authority, while the old leaves are still trusted', async () => {
    const traffic = new Traffic(cluster, app.source, 1);
    await cluster.client.delete('v1/Secret', 'harbinger-system/harbinger-ca');
    await until(
      'a new Secret',
      async () => (await cluster.client.find('v1/Secret', 'harbinger-system/harbinger-ca')) !== undefined,
    );
    await untilOutcome(cluster, app.source, 'accelerated');
    await traffic.stop();
    expect(traffic.missed).toEqual([]);
    expect(traffic.total).toBeGreaterThan(0);
  }, 150_000);

  test('one of two replicas goes down on SIGTERM and no admission is lost', async () => {
    const [a, b] = replicas();
    const traffic = new Traffic(cluster, app.source);
    const before = await rewrites(b);
    const exit = a.kill('SIGTERM');
    await until('the replica to say that it is going', async () => {
      const answer = await fetch(`http://127.0.0.1:${a.healthPort}/readyz`);
      return answer.status === 503;
    });
    expect(await exit).toBe(0);
    const during = traffic.total;
    await until('the other replica to serve alone', () => traffic.total > during + 20);
    await traffic.stop();
    expect(traffic.missed).toEqual([]);
    expect(await rewrites(b)).toBeGreaterThan(before);
    await a.start();
    await a.untilReady();
  }, 150_000);

  test('above the number in flight Pods pass unread and at once; afterwards all is as before', async () => {
    const slow = Array.from({ length: 24 }, (_, i) =>
      cluster.client.request('POST', '/api/v1/namespaces/team/pods?dryRun=All', pod(`${silentHost}/slow/app-${i}:v1`)),
    );
    const admitted = await Promise.all(slow);
    expect(admitted).toHaveLength(24);
    const shed = await Promise.all(replicas().map((p) => metric(p, 'harbinger_admission_shed_total', '{reason="requests"}')));
    expect(shed.reduce((x, y) => x + y, 0)).toBeGreaterThan(0);
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 150_000);

  test('the API server away: replicas stay ready and go on when it is back', async () => {
    await cluster.restartApiServer();
    await untilOutcome(cluster, app.source, 'accelerated');
    for (const p of replicas()) await p.untilReady();
  }, 240_000);

  test('all replicas dead: Pods are created, with their own images', async () => {
    const [a, b] = replicas();
    await Promise.all([a.kill(), b.kill()]);
    const admitted = await cluster.client.create(pod(app.source));
    expect(imageOf(admitted)).toBe(app.source);
    expect(await verdictOf(cluster, admitted.metadata.name)).not.toBe('mutated');
    await Promise.all([a.start(), b.start()]);
    await Promise.all([a.untilReady(), b.untilReady()]);
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 240_000);
});
