import { execFileSync } from 'node:child_process';
import { rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../cluster/client.js';
import { isTrue } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import { RUN_ROOT } from '../cluster/network/names.js';
import type { RealNode } from '../cluster/nodes/index.js';
import { ensurePackages } from '../cluster/packages/index.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang as gangOf,
  namespace,
  NS,
  prewarm,
  prewarmOf,
  pullersGone,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  runningPods,
  workloadOf,
  type JobOptions,
  type Pushed,
} from '../integration/controller/ground.js';

const MIB = 1 << 20;
const COUNT = 3;
const SIZE = 8 * MIB;
/** What a node hears without a pull, watches and answers of the API server, is less; what it hears with one is more. */
const CHATTER = SIZE / 2;

const imageId = (pod: Raw): string => pod['status'].containerStatuses[0].imageID as string;

/** Kubelets and containerd of real nodes; what the controller believes of them is compared with what they have. */
describe('a gang on real nodes', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    cluster = await Cluster.start({
      name: 'nodes-loop',
      kueue: true,
      nodes: { real: { count: COUNT, root: 'tmpfs', tmpfsMiB: 256 } },
      // The default of 50 s is only waited for.
      flags: { 'kube-controller-manager': ['--node-monitor-grace-period=20s', '--node-monitor-period=1s'] },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    // A tag that moves is not looked at again here: what was recorded has to hold all the same.
    await cluster.installHarbinger({ pullerImage: await pushPuller(cluster), config: { budgets: { tagRecheckSeconds: 3600 } } });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: String(COUNT) }, checks: [CHECK] });
    const blocker = await push('blocker', { bytes: 1000 });
    await cluster.client.create(gang('blocker', blocker.image));
    await runningPods(cluster, 'blocker', COUNT, 60_000);
  }, 900_000);
  afterAll(async () => cluster?.stop(), 60_000);

  const push = (repository: string, options: { seed?: string; bytes?: number } = {}): Promise<Pushed> =>
    pushImage(cluster, repository, { bytes: SIZE, bare: false, ...options });
  const gang = (name: string, image: string, options: JobOptions = {}): ReturnType<typeof gangOf> =>
    gangOf(name, image, { pods: COUNT, command: ['sleep', '3600'], ...options });
  const node = (n: number): RealNode => {
    const real = cluster.realNodes[n - 1];
    if (!real) throw new Error(`there is no node ${n}`);
    return real;
  };
  /** Numbers of the nodes whose containerd has the image by its digest. */
  const havers = async (resolved: string): Promise<number[]> => {
    const all = await Promise.all(cluster.realNodes.map(async (n, i) => ((await n.images()).includes(resolved) ? [i + 1] : [])));
    return all.flat();
  };
  const received = (): Promise<number[]> => Promise.all(cluster.realNodes.map((n) => n.bytesReceived()));
  const receivedSince = async (before: readonly number[]): Promise<number[]> =>
    (await received()).map((bytes, i) => bytes - (before[i] ?? 0));

  test('is not counted warm on a node whose kubelet stops in mid-pull, and is once it is back (P4)', async () => {
    const { image, resolved } = await push('stopped');
    // The two that follow pull for a quarter of a minute, in which one of them is lost.
    await cluster.registry.shape(8);
    await cluster.client.create(gang('stopped', image, { annotations: prewarm() }));
    // One node tries first; of the others that follow, one is lost on the way.
    await prewarmOf(cluster, 'stopped', (p) => p['status']?.nodes?.warm === 1 && p['status'].nodes.pulling === 2, 60_000);
    const victim = (await pullersOf(cluster, resolved)).filter((p) => !p['status'].containerStatuses?.[0]?.started)[0]?.['spec']
      .nodeName;
    const lost = cluster.realNodes.findIndex((n) => n.name === victim) + 1;
    await node(lost).stopKubelet();
    await cluster.registry.shape(undefined);

    const short = await prewarmOf(
      cluster,
      'stopped',
      (p) => p['status'].nodes.failed === 1 && p['status'].nodes.warm === 2,
      90_000,
    );
    expect(short['status']).toMatchObject({ progress: '2/3', failures: [{ node: victim, reason: 'NodeNotReady' }] });
    expect(ready(short)).toBe(false);
    expect(checkOf(await workloadOf(cluster, 'stopped')).state).toBe('Pending');
    // The two that count have it, which is also the control of this way to look.
    expect(await havers(resolved)).toEqual([1, 2, 3].filter((n) => n !== lost));

    await node(lost).startKubelet();
    await prewarmOf(cluster, 'stopped', ready, 90_000);
    expect(await havers(resolved)).toEqual([1, 2, 3]);
    await workloadOf(cluster, 'stopped', (w) => checkOf(w).state === 'Ready' && !reserved(w));
    await removeJob(cluster, 'stopped');
    await pullersGone(cluster, resolved);
  }, 300_000);

  test('is warmed while it is queued, and starts without a pull from the recorded digest though its tag has moved (P1, P3)', async () => {
    const fresh = await received();
    const { image, resolved, digest } = await push('train');
    await cluster.client.create(gang('train', image, { annotations: prewarm() }));
    const warm = await prewarmOf(cluster, 'train', ready, 60_000);
    expect(warm['status']).toMatchObject({ progress: '3/3', nodes: { desired: 3, warm: 3, failed: 0 } });
    expect(await havers(resolved)).toEqual([1, 2, 3]);
    for (const bytes of await receivedSince(fresh)) expect(bytes).toBeGreaterThan(SIZE);
    await workloadOf(cluster, 'train', (w) => checkOf(w).state === 'Ready' && !reserved(w));

    const next = await push('train', { seed: 'train again' });
    expect(next.digest).not.toBe(digest);
    const before = await received();
    await removeJob(cluster, 'blocker');
    const pods = await runningPods(cluster, 'train', COUNT);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    for (const pod of pods) expect(imageId(pod)).toContain(digest);
    for (const bytes of await receivedSince(before)) expect(bytes).toBeLessThan(CHATTER);
    const released = await prewarmOf(cluster, 'train', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('WarmVerified');
    await pullersGone(cluster, resolved);

    // The twin: a Pod of no gang, on the same node, gets what the tag names now, and pays for it.
    await cluster.client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'bystander', namespace: NS },
      spec: {
        nodeName: 'node-1',
        containers: [{ name: 'main', image, command: ['sleep', '3600'] }],
        terminationGracePeriodSeconds: 0,
      },
    });
    const bystander = await cluster.client.watchUntil('v1/Pod', `${NS}/bystander`, (p) => p['status']?.phase === 'Running');
    expect(imageId(bystander)).toContain(next.digest);
    expect((await receivedSince(before))[0]).toBeGreaterThan(SIZE);
    await cluster.client.delete('v1/Pod', `${NS}/bystander`);
    await removeJob(cluster, 'train');
  }, 300_000);

  test('that is held for an image larger than the free disk of a node is let go with that reason, and runs once there is room', async () => {
    const { image, resolved } = await push('large', { bytes: 16 * MIB });
    const ballast = fill(node(2), 8 * MIB);
    await cluster.client.create(gang('large', image, { annotations: prewarm('10m') }));
    const full = await prewarmOf(cluster, 'large', (p) => conditionOf(p, 'Ready')?.reason === 'InsufficientDisk', 60_000);
    expect(full['status']).toMatchObject({ progress: '2/3', nodes: { desired: 3, warm: 2, failed: 1 } });
    expect(full['status'].failures).toEqual([
      expect.objectContaining({
        node: 'node-2',
        reason: 'InsufficientDisk',
        message: expect.stringContaining('no space left on device'),
      }),
    ]);
    expect(await havers(resolved)).toEqual([1, 3]);
    const workload = await workloadOf(cluster, 'large', admitted);
    expect(checkOf(workload).message).toMatch(/let go cold, waiting cannot help: .*no space left on device/);
    const released = await prewarmOf(cluster, 'large', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('Hopeless');

    rmSync(ballast);
    const pods = await runningPods(cluster, 'large', COUNT, 90_000);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    await pullersGone(cluster, resolved);
    expect(await pullersOf(cluster, resolved)).toEqual([]);
    expect(isTrue(await cluster.client.get('v1/Node', 'node-2'), 'Ready')).toBe(true);
  }, 300_000);

  /** Takes all of a node's disk but `left` bytes; returns the file that takes it. The node's folder is a mount of its own. */
  function fill(real: RealNode, left: number): string {
    const root = join(RUN_ROOT, real.netns);
    const { bavail, bsize, blocks } = statfsSync(root);
    if (blocks * bsize > 512 * MIB) throw new Error(`${root} is no disk of its own`);
    const file = join(root, 'ballast');
    execFileSync('fallocate', ['--length', String(bavail * bsize - left), file]);
    return file;
  }
});
