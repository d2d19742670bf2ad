import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../cluster/cluster.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { PREWARM, PULLER, pushImage, pushPuller, ready, SYSTEM } from './controller/ground.js';

const DS = 'apps/v1/DaemonSet';

/** The API server of 1.34 as the one of today plays it: it drops image volumes without a word. */
describe('pullers on an API server without image volumes', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-pullers-old',
      nodes: { fake: 2 },
      flags: { 'kube-apiserver': ['--emulated-version=1.34'] },
      say: () => undefined,
    });
    await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'team' } });
    harbinger = await cluster.installHarbinger({
      webhookReplicas: 0,
      pullerImage: await pushPuller(cluster),
      config: { pullers: { method: 'ImageVolume' } },
    });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  test('are refused with what to change, and with method Auto run the image as a container instead', async () => {
    const { image, resolved } = await pushImage(cluster, 'old');
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'job', namespace: 'team' },
      spec: { targets: [{ name: 'main', images: [{ reference: image }], nodes: { names: ['fake-1', 'fake-2'] } }] },
    });
    const refused = await cluster.client.watchUntil(
      PREWARM,
      'team/job',
      (p) => p['status']?.failures?.[0]?.reason === 'Rejected',
      60_000,
    );
    expect(refused['status'].failures[0].message).toMatch(/does not keep image volumes.*pullers.method Auto/);
    expect(refused['status'].nodes.warm).toBe(0);

    const registries = [{ host: cluster.registry.host, plainHTTP: true, allowLocalAddresses: true }];
    harbinger.writeConfig({ registries });
    await cluster.client.watchUntil(PREWARM, 'team/job', ready, 90_000);
    const pods = await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved]);
    // Learnt anew after a restart, at no cost to what is warm.
    const [before] = await cluster.client.list(DS, { namespace: SYSTEM });
    await harbinger.controllers[0]?.restart();
    await harbinger.controllers[0]?.untilReady();
    const again = await pushImage(cluster, 'old-again');
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'again', namespace: 'team' },
      spec: { targets: [{ name: 'main', images: [{ reference: again.image }], nodes: { names: ['fake-1'] } }] },
    });
    await cluster.client.watchUntil(PREWARM, 'team/again', ready, 90_000);
    expect((await cluster.client.get(DS, `${SYSTEM}/${before?.metadata.name ?? ''}`)).metadata.uid).toBe(before?.metadata.uid);
  }, 400_000);
});
