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
 * What kubelets do to images that nobody holds. They collect garbage every five minutes, which nothing hastens; hence a suite of its
 * own. It is done by age: thresholds need statistics of the image file system, which kubelets do not find on the tmpfs of these nodes.
 */
describe('images that are retained on real nodes', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    const kubelet = { imageMaximumGCAge: '60s', imageMinimumGCAge: '1s' };
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
        timeoutMs: 400_000,
        everyMs: 2_000,
      },
    );

  test('survive garbage collection while they are held, for good or for a gang that runs; those that nobody holds are collected', async () => {
    const [base, once, train] = [await push('base'), await push('once'), await push('train')];
    await make('base', base.image, { retain: 'Always' });
    await make('once', once.image, { retain: 'Never' });
    await seen('base', progress('2/2'));
    await seen('once', (p) => conditionOf(p, 'Ready')?.reason === 'Finished');
    await pullersGone(cluster, once.resolved);
    await cluster.client.create(gang('train', train.image, { pods: 1, command: ['sleep', '3600'], annotations: prewarm('5m') }));
    const { metadata } = await prewarmOf(cluster, 'train', () => true, 60_000);
    await cluster.client.patch(PREWARM, `${NS}/${metadata.name}`, { spec: { retain: 'WhileGangRuns', spareNodes: 1 } });
    await runningPods(cluster, 'train', 1, 90_000);
    await prewarmOf(cluster, 'train', progress('2/2'), 90_000);
    const held = [base.resolved, train.resolved];
    for (const n of [1, 2]) expect(await node(n).images()).toEqual(expect.arrayContaining([...held, once.resolved]));

    for (const n of [1, 2]) await collected(n, once.resolved);
    // What goes goes in one collection: those that are left have been passed over.
    for (const n of [1, 2]) expect(await node(n).images()).toEqual(expect.arrayContaining(held));
    expect(ready(await seen('base', () => true))).toBe(true);
    await removeJob(cluster, 'train');
    await cluster.client.delete(PREWARM, `${NS}/base`);
  }, 660_000);

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
});
