import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  prewarm,
  prewarmOf,
  pushImage,
  pushPuller,
  QUEUE,
  removeJob,
  reserved,
  runningPods,
  SYSTEM,
  workloadOf,
  type Pushed,
} from './ground.js';

/** Charts are installed in any order. The tests of this file are one story: nothing, then the CRDs, then Kueue. */
describe('Harbinger before its CRDs and before Kueue', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let image: Pushed;
  let began: number;
  let pids: number[];

  const all = (): HarbingerProcess[] => [...harbinger.webhooks, ...harbinger.controllers];
  const ask = async (process: HarbingerProcess, path: string): Promise<{ status: number; text: string }> => {
    const answer = await fetch(`http://127.0.0.1:${process.healthPort}${path}`, { signal: AbortSignal.timeout(20_000) });
    return { status: answer.status, text: await answer.text() };
  };
  const own = (account: string) => cluster.audit.query({ user: `${SYSTEM}:${account}`, since: began });

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-absent', nodes: { fake: 2 }, say: () => undefined });
    await cluster.client.apply(namespace);
    image = await pushImage(cluster, 'train');
    const puller = await pushPuller(cluster);
    began = Date.now();
    harbinger = await cluster.installHarbinger({ crds: false, waitReady: false, pullerImage: puller });
    pids = all().map((p) => p.pid);
  }, 300_000);
  afterAll(async () => cluster?.stop());

  test('each process lives, is not ready and says which CRDs to install', async () => {
    for (const process of all()) {
      await until(`${process.name} to say what is missing`, async () => {
        const { status, text } = await ask(process, '/readyz');
        return (
          (status === 503 && /imageprewarms\.harbinger\.dev|accelerationpolicies\.harbinger\.dev/.test(text)) || notYet(text)
        );
      });
      expect((await ask(process, '/healthz')).status).toBe(200);
      expect(process.logs()).toMatch(/"problem":"[^"]*harbinger\.dev[^"]*: install its CustomResourceDefinition/);
    }
    await until('the log to name Kueue', () =>
      /"problem":"[^"]*workloads\.kueue\.x-k8s\.io/.test(harbinger.controllers[0]?.logs() ?? ''),
    );
  }, 120_000);

  test('a Pod passes as it is', async () => {
    const spec = { schedulerName: 'nobody', containers: [{ name: 'main', image: image.image }] };
    const pod = await cluster.client.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'early', namespace: NS }, spec });
    expect(pod['spec'].containers[0].image).toBe(image.image);
    await cluster.client.delete('v1/Pod', `${NS}/early`);
  });

  test('what is absent is asked for slowly', async () => {
    const lists = (resource: string) => own('harbinger-controller').filter((e) => e.resource === resource && e.code === 404);
    await until('a second try', () => lists('workloads').length > 1 || notYet(lists('workloads').length), { timeoutMs: 60_000 });
    const tries = 2 + (Date.now() - began) / 15_000;
    for (const account of ['harbinger-controller', 'harbinger-webhook']) {
      const failed = own(account).filter((e) => e.code === 404 && /harbinger\.dev|kueue/.test(e.apiGroup));
      const counts = new Map<string, number>();
      for (const e of failed) counts.set(e.resource, (counts.get(e.resource) ?? 0) + 1);
      // The control: there was something to count.
      expect(counts.size).toBeGreaterThan(1);
      // Twice where both the watchdog and the check of its selector look.
      expect([...counts].filter(([, n]) => n > 2 * tries)).toEqual([]);
    }
  }, 150_000);

  test('once both are installed the same processes do their whole work', async () => {
    await Promise.all([harbinger.applyCrds(), cluster.startKueue()]);
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '2' }, checks: [CHECK] });
    await Promise.all(all().map((p) => p.untilReady()));
    await cluster.client.create(gang('train', image.image, { pods: 2, annotations: prewarm('10m') }));
    // Its quota is free: it is Ready only for as long as its Pods take to start.
    await prewarmOf(cluster, 'train', (p) => conditionOf(p, 'Released')?.reason === 'WarmVerified', 60_000);
    expect(checkOf(await workloadOf(cluster, 'train', admitted, 60_000)).state).toBe('Ready');
    const pods = await runningPods(cluster, 'train', 2);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([image.resolved, image.resolved]);
    expect(all().map((p) => p.pid)).toEqual(pids);
    for (const { name } of all()) await cluster.supervisor.mustRun(name);
    await removeJob(cluster, 'train');
  }, 300_000);

  test('and the watchdog, whose Workloads came later than itself, ends a hold', async () => {
    for (const n of cluster.fakeNodes.names) await knob(cluster, n, knobNames.hang, 'true');
    const cold = await pushImage(cluster, 'cold');
    await cluster.client.create(gang('cold', cold.image, { pods: 2, annotations: prewarm('20s') }));
    await workloadOf(
      cluster,
      'cold',
      (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined,
    );
    await harbinger.controllers[0]?.kill();
    expect(checkOf(await workloadOf(cluster, 'cold', admitted, 90_000)).message).toContain('DeadlineExceeded');
  }, 180_000);
});
