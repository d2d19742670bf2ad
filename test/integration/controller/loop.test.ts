import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { admitted, CHECK, checkOf, conditionOf, gang, namespace, NS, prewarm, prewarmOf, pullersGone, pullersOf, pushImage, pushPuller, QUEUE, ready, removeJob, reserved, runningPods, workloadOf } from './ground.js';

/** The whole loop on a real API server, scheduler, Kueue and registry; nodes are fake and keep an image store each. */
describe('a gang that waits in a queue', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let blockerImage: string;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-loop', kueue: true, nodes: { fake: 3 }, say: () => undefined });
    await cluster.client.apply(namespace);
    blockerImage = (await pushImage(cluster, 'blocker')).image;
    harbinger = await cluster.installHarbinger({ pullerImage: await pushPuller(cluster), config: { budgets: { tagRecheckSeconds: 2 } } });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '3' }, checks: [CHECK] });
  }, 300_000);
  afterAll(async () => {
    if (process.env['SHOW_LOGS']) console.log(harbinger?.controllers[0]?.logs());
    await cluster?.stop();
  });

  test('is warmed while the queue is full, is Ready without quota, and starts from the warm nodes', async () => {
    const { image, resolved } = await pushImage(cluster, 'train');
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('waiting', image, { annotations: prewarm() }));

    const warm = await prewarmOf(cluster, 'waiting', ready);
    expect(warm['status']).toMatchObject({ progress: '3/3', nodes: { desired: 3, warm: 3, pulling: 0, pending: 0, failed: 0 }, gang: 'Job/waiting', queue: QUEUE, placement: 'Candidates' });
    expect(warm['status'].targets[0].images[0]).toMatchObject({ source: image, resolved, outcome: 'pinned' });
    const queued = await workloadOf(cluster, 'waiting', (w) => checkOf(w)?.state === 'Ready');
    expect(reserved(queued)).toBe(false);

    await removeJob(cluster, 'blocker');
    await workloadOf(cluster, 'waiting', admitted);
    const pods = await runningPods(cluster, 'waiting', 3);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    const bytes = await cluster.fakeNodes.bytes();
    expect(Object.keys(bytes.byImage).filter((name) => name.includes('/train'))).toEqual([resolved]);
    const released = await prewarmOf(cluster, 'waiting', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('WarmVerified');
    await pullersGone(cluster, resolved);
    await removeJob(cluster, 'waiting');
  }, 120_000);

  test('that did not opt in is let go at first sight and nothing is pulled for it', async () => {
    const { image, resolved } = await pushImage(cluster, 'plain');
    await cluster.client.create(gang('plain', image));
    const workload = await workloadOf(cluster, 'plain', admitted);
    expect(checkOf(workload)).toMatchObject({ state: 'Ready', message: 'not opted in to prewarming' });
    await runningPods(cluster, 'plain', 3);
    expect(await pullersOf(cluster, resolved)).toEqual([]);
    await removeJob(cluster, 'plain');
  }, 90_000);
});
