import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { namespace, NS, PREWARM, PULLER, pushImage, pushPuller, ready, SYSTEM } from './ground.js';

const SET = 'apps/v1/DaemonSet';
const POD = 'v1/Pod';
const COLLECTOR = 'kube-controller-manager';

const prewarmOfImage = (name: string, reference: string): Draft => ({
  apiVersion: 'harbinger.dev/v1alpha1',
  kind: 'ImagePrewarm',
  metadata: { name, namespace: NS },
  // Kept where it is warm: a puller that still pulls would outlive its ImagePrewarm.
  spec: { retain: 'Always', targets: [{ name: 'main', images: [{ reference }], nodes: { names: ['fake-1'] } }] },
});

/** Garbage collection that does not hear of a DaemonSet that goes, because its watches were cut, must not take the next one for it. */
describe('pullers whose garbage collector is away', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  const pullers = async (): Promise<string[]> =>
    (await cluster.client.list(POD, { namespace: SYSTEM, labelSelector: PULLER })).map((p) => p.metadata.uid).sort();

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-collector', nodes: { fake: 1 }, say: () => undefined });
    await cluster.client.apply(namespace);
    harbinger = await cluster.installHarbinger({ webhookReplicas: 0, pullerImage: await pushPuller(cluster) });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  test('do not stay when their DaemonSet is made again meanwhile', async () => {
    const { image } = await pushImage(cluster, 'train');
    await cluster.client.create(prewarmOfImage('first', image));
    await cluster.client.watchUntil(PREWARM, `${NS}/first`, ready, 60_000);
    const old = await pullers();
    expect(old).toHaveLength(1);

    await cluster.pause(COLLECTOR);
    // An API server that is away for longer than a Lease lasts ends the controller, and here nobody would start it again.
    for (const controller of harbinger.controllers) await controller.kill();
    await cluster.restartApiServer();
    for (const controller of harbinger.controllers) await controller.start();
    await Promise.all(harbinger.controllers.map((c) => c.untilReady()));
    await cluster.client.delete(PREWARM, `${NS}/first`);
    await until(
      'the DaemonSet to go',
      async () => {
        const sets = await cluster.client.list(SET, { namespace: SYSTEM });
        return sets.length === 0 || notYet(sets.map((s) => s.metadata.name));
      },
      { timeoutMs: 60_000 },
    );
    await cluster.client.create(prewarmOfImage('second', image));
    // What it would make it has made by the time at which it says so.
    await cluster.client.watchUntil(PREWARM, `${NS}/second`, (p) => p['status']?.nodes?.desired === 1, 60_000);
    expect(await pullers()).toEqual(old);
    await cluster.resume(COLLECTOR);

    await until(
      'the old pullers to be gone',
      async () => {
        const left = (await pullers()).filter((uid) => old.includes(uid));
        return left.length === 0 || notYet(left);
      },
      { timeoutMs: 90_000 },
    );
    await cluster.client.watchUntil(PREWARM, `${NS}/second`, ready, 60_000);
  }, 400_000);
});
