import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import type { RealNode } from '../cluster/nodes/index.js';
import { ensurePackages } from '../cluster/packages/index.js';
import { notYet, until } from '../cluster/until.js';
import {
  conditionOf,
  gang,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersGone,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  runningPods,
  type Pushed,
} from '../integration/controller/ground.js';

const MIB = 1 << 20;
const SIZE = 8 * MIB;

/**
 * What kubelets do to images that nobody holds. They collect garbage when they start and every five minutes; with thresholds this low
 * each collection takes whatever is not in use, so that starting a kubelet anew is a collection.
 */
describe('images that are retained on real nodes', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    const kubelet = { imageGCHighThresholdPercent: 1, imageGCLowThresholdPercent: 0, imageMinimumGCAge: '0s' };
    cluster = await Cluster.start({
      name: 'nodes-retain',
      kueue: true,
      nodes: { real: { count: 2, root: 'tmpfs', tmpfsMiB: 256, kubelet } },
      flags: { 'kube-controller-manager': ['--node-monitor-grace-period=20s', '--node-monitor-period=1s'] },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    await cluster.installHarbinger({ pullerImage: await pushPuller(cluster) });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '1' } });
  }, 900_000);
  afterAll(async () => cluster?.stop(), 60_000);

  const push = (repository: string): Promise<Pushed> => pushImage(cluster, repository, { bytes: SIZE, bare: false });
  const node = (n: number): RealNode => {
    const real = cluster.realNodes[n - 1];
    if (!real) throw new Error(`there is no node ${n}`);
    return real;
  };
  const make = (name: string, image: string, spec: Record<string, unknown>): Promise<Raw> =>
    cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name, namespace: NS },
      spec: { targets: [{ name: 'main', images: [{ reference: image }], nodes: { selector: {} } }], ...spec },
    });
  const seen = (name: string, check: (p: Raw) => boolean): Promise<Raw> =>
    cluster.client.watchUntil(PREWARM, `${NS}/${name}`, check, 90_000);
  const progress = (text: string) => (p: Raw) => ready(p) && p['status'].progress === text;
  /** Waits until a kubelet has collected what nobody holds. */
  const collected = (n: number, image: string): Promise<boolean> =>
    until(
      `${image} to be collected on node ${n}`,
      async () => !(await node(n).images()).includes(image) || notYet('it is there'),
      {
        timeoutMs: 60_000,
      },
    );

  test('survive garbage collection while they are held; those that are not held are collected', async () => {
    const [base, once] = [await push('base'), await push('once')];
    await make('base', base.image, { retain: 'Always' });
    await make('once', once.image, { retain: 'Never' });
    await seen('base', progress('2/2'));
    await seen('once', (p) => conditionOf(p, 'Ready')?.reason === 'Finished');
    await pullersGone(cluster, once.resolved);
    expect(await node(1).images()).toEqual(expect.arrayContaining([base.resolved, once.resolved]));
    await node(1).stopKubelet();
    await node(1).startKubelet();
    await collected(1, once.resolved);
    expect(await node(1).images()).toContain(base.resolved);
    // The control: the kubelet that was not started anew has collected nothing.
    expect(await node(2).images()).toContain(once.resolved);
    await seen('base', progress('2/2'));
    // Held by a puller, not by chance: without it the next collection takes the base image too.
    await cluster.client.delete(PREWARM, `${NS}/base`);
    await pullersGone(cluster, base.resolved);
    await node(1).stopKubelet();
    await node(1).startKubelet();
    await collected(1, base.resolved);
  }, 240_000);

  test('come to a node that joins, and to one that comes back with an empty disk', async () => {
    const base = await push('joining');
    await make('joining', base.image, { retain: 'Always' });
    await seen('joining', progress('2/2'));
    await node(2).stopKubelet();
    await cluster.client.delete('v1/Node', node(2).name);
    await seen('joining', progress('1/1'));
    await node(2).wipe();
    expect(await node(2).images()).not.toContain(base.resolved);
    await node(2).startKubelet();
    await seen('joining', progress('2/2'));
    expect(await node(2).images()).toContain(base.resolved);
    await cluster.client.delete(PREWARM, `${NS}/joining`);
  }, 240_000);

  test('stay on the spare node of a gang that runs, through a collection there', async () => {
    const { image, resolved } = await push('spare');
    await cluster.client.create(gang('blocker', image, { pods: 1, command: ['sleep', '3600'] }));
    await runningPods(cluster, 'blocker', 1, 60_000);
    const train = await push('train');
    await cluster.client.create(gang('train', train.image, { pods: 1, command: ['sleep', '3600'], annotations: prewarm() }));
    const { metadata } = await prewarmOf(cluster, 'train', ready, 60_000);
    await cluster.client.patch(PREWARM, `${NS}/${metadata.name}`, { spec: { retain: 'WhileGangRuns', spareNodes: 1 } });
    await prewarmOf(cluster, 'train', progress('2/2'), 60_000);
    await removeJob(cluster, 'blocker');
    const [pod] = await runningPods(cluster, 'train', 1, 60_000);
    const spare = cluster.realNodes.findIndex((n) => n.name !== pod?.['spec'].nodeName) + 1;
    await node(spare).stopKubelet();
    await node(spare).startKubelet();
    if ((await node(spare).images()).includes(resolved)) await collected(spare, resolved);
    expect(await node(spare).images()).toContain(train.resolved);
    await prewarmOf(cluster, 'train', progress('2/2'), 60_000);
    await removeJob(cluster, 'train');
  }, 240_000);
});
