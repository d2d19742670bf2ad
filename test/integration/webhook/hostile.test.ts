import { execFileSync } from 'node:child_process';
import { connect, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import type { Images } from './ground.js';
import { DECISIONS, decisionsOf, imageOf, metric, metricSum, namespace, pod, policy, pushPair, untilOutcome } from './ground.js';

/** A busy test machine stalls processes; what that does to admissions is not what these tests are about. */
const BUDGETS = { eventLoopLagMs: 5_000 };
const DRY_RUN = '/api/v1/namespaces/team/pods?dryRun=All';

const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));

describe('hostile Pods that an API server lets pass', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let app: Images;
  const webhook = (): HarbingerProcess => {
    const [first] = harbinger.webhooks;
    if (first === undefined) throw new Error('a replica is needed');
    return first;
  };
  const submit = async (draft: Draft): Promise<Raw> => (await cluster.client.request('POST', DRY_RUN, draft)) as Raw;
  const variant = (): string => `${cluster.registry.host}/team/app@${app.variantDigest}`;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-hostile', say: () => undefined });
    app = await pushPair(cluster, 'team/app');
    await cluster.client.apply(namespace());
    const registries = [{ host: cluster.registry.host, plainHTTP: true, allowLocalAddresses: true }];
    harbinger = await cluster.installHarbinger({ controllers: 0, config: { registries, budgets: BUDGETS } });
    await cluster.client.apply(policy('all'));
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 300_000);
  afterAll(() => cluster?.stop());

  afterEach(async () => {
    // Whatever came before, the next Pod gets its variant from the same process.
    expect(imageOf(await submit(pod(app.source)))).toBe(variant());
    expect(await metric(webhook(), 'process_resident_memory_bytes')).toBeLessThan(384 << 20);
    expect(await metric(webhook(), 'harbinger_admission_requests_total', '{result="failed"}')).toBe(0);
    await cluster.supervisor.mustRun(webhook().name);
  });

  test('10,000 containers are left alone as a whole, and nothing is asked for them', async () => {
    const asked = (): Promise<number> => metricSum(webhook(), 'harbinger_registry_requests_total');
    // Positive control: one image that is new to it makes it ask.
    const first = await asked();
    await submit(pod(`${cluster.registry.host}/none/another:v1`));
    const before = await asked();
    expect(before).toBeGreaterThan(first);
    const containers = many(10_000, (i) => ({ name: `c${i}`, image: `${cluster.registry.host}/none/app-${i}:v1` }));
    const admitted = await submit(pod(app.source, { spec: { containers } }));
    expect([admitted['spec'].containers.length, imageOf(admitted), admitted.metadata.annotations]).toEqual([
      10_000,
      containers[0]?.image,
      undefined,
    ]);
    expect(await asked()).toBe(before);
  }, 60_000);

  test('annotations near the limit of the API server stay, and leave no room for decisions', async () => {
    const annotations = Object.fromEntries(many(1_000, (i) => [`example.com/a${i}`, 'x'.repeat(240)]));
    const admitted = await submit(pod(app.source, { metadata: { annotations } }));
    expect([imageOf(admitted), admitted.metadata.annotations?.[DECISIONS]]).toEqual([variant(), undefined]);
    expect(Object.keys(admitted.metadata.annotations ?? {})).toHaveLength(1_000);
  });

  test('a Pod of 2.5 MB gets its variant', async () => {
    const env = many(25, (i) => ({ name: `E${i}`, value: 'x'.repeat(100_000) }));
    const admitted = await submit(pod(app.source, { container: { env } }));
    expect([imageOf(admitted), admitted['spec'].containers[0].env.length]).toEqual([variant(), 25]);
  });

  test.each([
    ['letters is left alone with a reason', 'a'.repeat(100_000), 'unparsable'],
    ['slashes is left alone with a reason', `a${'/a'.repeat(50_000)}`, 'unparsable'],
    ['separators is left alone with a reason', `r.example.com/a${'-'.repeat(100_000)}!`, 'unparsable'],
    // Each is written as six characters in JSON, twice: that is more than annotations may have.
    ['control characters is left alone without a word', `a${'\u0001\u001b[2J'.repeat(20_000)}b`, undefined],
  ])('an image of 100 kB of %s', async (_, image, outcome) => {
    const admitted = await submit(pod(image));
    expect(imageOf(admitted)).toBe(image);
    const [decision] = decisionsOf(admitted);
    expect(decision?.outcome).toBe(outcome);
    expect(decision?.message?.length ?? 0).toBeLessThanOrEqual(256);
  });

  test('names of JavaScript are names like others', async () => {
    const labels = { constructor: 'a', toString: 'b', hasOwnProperty: 'c' };
    const admitted = await submit(pod(app.source, { metadata: { labels }, spec: { nodeSelector: labels } }));
    expect(imageOf(admitted)).toBe(variant());
    expect(admitted.metadata.labels).toMatchObject(labels);
    expect(admitted['spec'].nodeSelector).toEqual(labels);
  });

  test('numbers that JavaScript would round come back as they were', () => {
    const text = JSON.stringify(pod(app.source, { spec: { terminationGracePeriodSeconds: '@' } })).replace(
      '"@"',
      '9007199254740993',
    );
    const args = ['create', '-f', '-', '--dry-run=server', '-o', 'json', '--kubeconfig', cluster.kubeconfig];
    const answer = execFileSync(cluster.tools['kubectl'] ?? 'kubectl', args, { input: text }).toString();
    expect(answer).toContain('"terminationGracePeriodSeconds": 9007199254740993');
    expect(answer).toContain(variant());
  });

  test('callers that never finish keep nobody else waiting', async () => {
    const port = Number(new URL(harbinger.webhookUrl).port);
    const ends: Promise<void>[] = [];
    const open = (text: string): Promise<void> =>
      new Promise((resolve, reject) => {
        const socket: TLSSocket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
          socket.write(text, () => resolve());
        });
        socket.on('error', reject);
        socket.resume();
        ends.push(new Promise((ended) => socket.on('close', () => ended())));
      });
    const head = 'POST /mutate HTTP/1.1\r\nhost: x\r\n';
    await Promise.all(many(200, (i) => open(i % 2 === 0 ? head : `${head}content-length: 100000\r\n\r\n{"request"`)));
    const begun = Date.now();
    for (let i = 0; i < 20; i++) expect(imageOf(await submit(pod(app.source)))).toBe(variant());
    expect(Date.now() - begun).toBeLessThan(20_000);
    // They are sent away, so that nobody can fill the replica with them.
    await Promise.all(ends);
  }, 60_000);
});
