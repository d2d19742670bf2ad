import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { RegistryDouble, type Handler } from '../../unit/registry/support.js';
import { metric } from '../webhook/ground.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pushImage,
  pushPuller,
  QUEUE,
  workloadOf,
} from './ground.js';

const OCI = { 'content-type': 'application/vnd.oci.image.manifest.v1+json' };

interface Row {
  name: string;
  /** Absent: nobody listens. */
  handler?: Handler;
  /** Reason of condition Ready, and what its message says. */
  reason: string;
  text: RegExp;
  /** Why the gang was let go: at once where waiting cannot help, else when its hold is over. */
  released: 'Hopeless' | 'DeadlineExceeded';
}

const broken = (name: string, text: RegExp, handler?: Handler): Row => ({
  name,
  ...(handler === undefined ? {} : { handler }),
  reason: 'RegistryError',
  text,
  released: 'DeadlineExceeded',
});
const answer =
  (status: number, headers: Record<string, string> = {}, body: string | Buffer = ''): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body);

const ROWS: readonly Row[] = [
  { name: 'denies', handler: answer(401), reason: 'AuthDenied', text: /denied access \(401\)/, released: 'Hopeless' },
  broken('limits', /limits requests \(429\)/, answer(429, { 'retry-after': '3600' })),
  broken('babbles', /not a JSON object/, answer(200, OCI, Buffer.from([0, 255, 1, 254]))),
  broken('hangs', /did not answer within/, () => undefined),
  broken('is-down', /cannot be reached \(ECONNREFUSED\)/),
];

/** One gang for each way in which a registry can fail, all with quota at the same time, and one whose registry is well. */
describe('a gang whose registry', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let recovering: RegistryDouble;
  const doubles: RegistryDouble[] = [];

  async function double(handler?: Handler): Promise<RegistryDouble> {
    const started = await RegistryDouble.start(handler);
    doubles.push(started);
    return started;
  }

  beforeAll(async () => {
    const images = new Map<string, string>();
    for (const { name, handler } of ROWS)
      images.set(name, `${handler ? (await double(handler)).host : '127.0.0.1:1'}/team/app:v1`);
    recovering = await double(answer(500));
    cluster = await Cluster.start({ name: 'it-registries', kueue: true, nodes: { fake: 2 }, say: () => undefined });
    await cluster.client.apply(namespace);
    const hosts = [cluster.registry.host, recovering.host, ...[...images.values()].map((image) => image.split('/')[0])];
    const registries = hosts.map((host) => ({ host, plainHTTP: true, allowLocalAddresses: true }));
    harbinger = await cluster.installHarbinger({ pullerImage: await pushPuller(cluster), config: { registries } });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '20' }, checks: [CHECK] });
    for (const [name, image] of images) await cluster.client.create(gang(name, image, { pods: 1, annotations: prewarm('20s') }));
    const well = await pushImage(cluster, 'well');
    await cluster.client.create(gang('is-well', well.image, { pods: 1, annotations: prewarm('10m') }));
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'recovers', namespace: NS },
      spec: { targets: [{ name: 'main', images: [{ reference: `${recovering.host}/well:v1` }], nodes: { names: ['fake-1'] } }] },
    });
  }, 300_000);
  afterAll(async () => {
    await cluster?.stop();
    await Promise.all(doubles.map((d) => d.stop()));
  });

  const released = (name: string): Promise<Raw> =>
    prewarmOf(cluster, name, (p) => conditionOf(p, 'Released')?.status === 'True', 60_000);

  test('is well is warmed meanwhile: the others cost it nothing', async () => {
    await workloadOf(cluster, 'is-well', admitted);
    expect(conditionOf(await released('is-well'), 'Released')?.reason).toBe('WarmVerified');
  }, 120_000);

  test('recovers: the next look finds the image, without anybody doing anything', async () => {
    const found = (status: string) => (p: Raw) => conditionOf(p, 'TargetsResolved')?.status === status;
    const before = await cluster.client.watchUntil(PREWARM, `${NS}/recovers`, found('False'));
    expect(conditionOf(before, 'Ready')?.message).toContain('answered 500');
    recovering.handler = (request, response) => {
      void fetch(`${cluster.registry.url}${request.url ?? ''}`, { headers: { accept: request.headers.accept ?? '*/*' } }).then(
        async (r) =>
          response
            .writeHead(r.status, { 'content-type': r.headers.get('content-type') ?? '' })
            .end(Buffer.from(await r.arrayBuffer())),
      );
    };
    const after = await cluster.client.watchUntil(PREWARM, `${NS}/recovers`, found('True'), 60_000);
    expect(after['status'].targets[0].images[0].resolved).toMatch(/\/well@sha256:/);
  }, 150_000);

  test.each(ROWS)(
    '$name: the reason stands on the ImagePrewarm, and the gang goes',
    async ({ name, reason, text, released: why }) => {
      const record = await prewarmOf(cluster, name, (p) => conditionOf(p, 'Ready')?.reason === reason);
      expect(conditionOf(record, 'Ready')?.message).toMatch(text);
      expect(conditionOf(record, 'TargetsResolved')).toMatchObject({ status: 'False', reason });
      const workload = await workloadOf(cluster, name, admitted, 60_000);
      expect(checkOf(workload)).toMatchObject({ state: 'Ready', message: expect.stringMatching(text) });
      expect(conditionOf(await released(name), 'Released')?.reason).toBe(why);
      // Its Pods are made as they were written: kubelets have credentials and mirrors of their own.
      const pods = await cluster.client.list('v1/Pod', { namespace: NS, labelSelector: `batch.kubernetes.io/job-name=${name}` });
      expect(pods.map((p) => p['spec'].containers[0].image as string).filter((image) => !image.endsWith('/team/app:v1'))).toEqual(
        [],
      );
    },
    180_000,
  );

  test('fails is let go by the controller itself: releases by the watchdog are an alert', async () => {
    const counts = await Promise.all(
      harbinger.webhooks.map((w) => metric(w, 'harbinger_watchdog_releases_total', '{reason="DeadlineExceeded"}')),
    );
    expect(counts).toEqual([0]);
  });
});
