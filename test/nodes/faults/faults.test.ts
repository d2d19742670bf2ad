import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isTrue, type Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { RealNode } from '../../cluster/nodes/index.js';
import { ensurePackages } from '../../cluster/packages/index.js';
import {
  conditionOf,
  namespace,
  NS,
  PREWARM,
  pullersOf,
  pushImage,
  pushPuller,
  ready,
  type Pushed,
} from '../../integration/controller/ground.js';

const MIB = 1 << 20;

const kubelet = { localStorageCapacityIsolation: true, evictionPressureTransitionPeriod: '0s' };

/** What real kubelets do when things go wrong, and what an ImagePrewarm says of it. The tests are one story on two nodes. */
describe('nodes that fail', () => {
  let cluster: Cluster;
  let image: Pushed;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    cluster = await Cluster.start({
      name: 'nodes-faults',
      // The kubelet looks at disks only where it also accounts for them.
      nodes: { real: { count: 2, root: 'disk', kubelet } },
      // Kubelets renew their Lease every 10 s: one that restarts may be silent for that and as long as it takes to start.
      flags: { 'kube-controller-manager': ['--node-monitor-grace-period=40s', '--node-monitor-period=1s'] },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    await cluster.installHarbinger({ webhookReplicas: 0, pullerImage: await pushPuller(cluster) });
    image = await pushImage(cluster, 'base', { bytes: 8 * MIB });
    await cluster.client.create(prewarm('base', image));
    await until('base', ready, 60_000);
  }, 600_000);
  afterAll(async () => cluster?.stop(), 60_000);

  const prewarm = (name: string, of: Pushed) => ({
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace: NS },
    spec: {
      targets: [{ name: 'main', images: [{ reference: of.image }], nodes: { names: ['node-1', 'node-2'] } }],
      pull: { rampUp: 'Immediate' },
      retain: 'Always',
    },
  });
  const until = (name: string, check: (p: Raw) => boolean, timeoutMs = 90_000): Promise<Raw> =>
    cluster.client.watchUntil(PREWARM, `${NS}/${name}`, check, timeoutMs);
  const nodeTwo = (): RealNode => {
    const [, second] = cluster.realNodes;
    if (!second) throw new Error('there is no second node');
    return second;
  };
  const has = async (resolved: string): Promise<boolean> => (await nodeTwo().images()).includes(resolved);
  const failure = (p: Raw): { node: string; reason: string; message: string } | undefined => p['status'].failures?.[0];

  test('a kubelet that restarts costs no warmth and no pull', async () => {
    const before = await nodeTwo().bytesReceived();
    const seen: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const { object } of cluster.client.watch(PREWARM, { namespace: NS, signal: stop.signal }))
        seen.push(conditionOf(object, 'Ready')?.status ?? '');
    })().catch(() => undefined);
    await nodeTwo().stopKubelet();
    const restarted = Date.now();
    await nodeTwo().startKubelet();
    // A renewal after the restart is the new process's.
    await cluster.client.watchUntil(
      'coordination.k8s.io/v1/Lease',
      'kube-node-lease/node-2',
      (l) => Date.parse(l['spec'].renewTime as string) > restarted,
      60_000,
    );
    expect(ready(await until('base', ready))).toBe(true);
    stop.abort();
    await watching;
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.filter((s) => s !== 'True' && s !== '')).toEqual([]);
    expect((await nodeTwo().bytesReceived()) - before).toBeLessThan(4 * MIB);
  }, 180_000);

  test('a kubelet that stops takes the warmth of its node back, and one that returns gives it again without a pull', async () => {
    await nodeTwo().stopKubelet();
    const short = await until('base', (p) => p['status'].nodes.failed === 1);
    expect(short['status']).toMatchObject({ progress: '1/2', failures: [{ node: 'node-2', reason: 'NodeNotReady' }] });
    expect(ready(short)).toBe(false);
    // The image is still there: what is taken back is the word, since nobody can vouch for the node.
    expect(await has(image.resolved)).toBe(true);
    const before = await nodeTwo().bytesReceived();
    await nodeTwo().startKubelet();
    await until('base', ready);
    expect((await nodeTwo().bytesReceived()) - before).toBeLessThan(4 * MIB);
  }, 300_000);

  test('a disk under pressure takes the node out with its reason, and what was warm is warm again when there is room', async () => {
    await withKubelet({ evictionHard: { 'nodefs.available': '99%', 'imagefs.available': '99%' } });
    await cluster.client.watchUntil('v1/Node', 'node-2', (n) => isTrue(n, 'DiskPressure'), 90_000);
    const short = await until('base', (p) => p['status'].nodes.failed === 1 && failure(p)?.reason !== 'NodeNotReady', 60_000);
    expect(failure(short)).toMatchObject({ node: 'node-2', reason: 'NodeNotEligible' });
    expect(failure(short)?.message).toMatch(/disk|pressure/i);
    expect(ready(short)).toBe(false);
    await withKubelet({ evictionHard: { 'nodefs.available': '0%', 'imagefs.available': '0%' } });
    await cluster.client.watchUntil('v1/Node', 'node-2', (n) => !isTrue(n, 'DiskPressure'), 60_000);
    await until('base', ready, 60_000);
    expect(await has(image.resolved)).toBe(true);
  }, 500_000);

  test('a node that is deleted in mid-pull is lost, and one that registers under its name proves everything anew', async () => {
    const second = await pushImage(cluster, 'second', { bytes: 12 * MIB });
    await cluster.registry.shape(8);
    await cluster.client.create(prewarm('second', second));
    await until('second', (p) => p['status']?.nodes?.pulling === 2);
    const old = await cluster.client.get('v1/Node', 'node-2');
    await cluster.client.delete('v1/Node', 'node-2');
    await cluster.registry.shape(undefined);
    for (const name of ['second', 'base']) {
      const lost = await until(name, (p) => failure(p)?.reason === 'NodeLost');
      expect(failure(lost)?.message).toContain('there is no node node-2');
      expect(ready(lost)).toBe(false);
    }
    await nodeTwo().stopKubelet();
    await nodeTwo().startKubelet();
    const again = await cluster.client.watchUntil('v1/Node', 'node-2', (n) => isTrue(n, 'Ready'), 60_000);
    expect(again.metadata.uid).not.toBe(old.metadata.uid);
    for (const name of ['second', 'base']) await until(name, ready, 60_000);
    expect(await has(second.resolved)).toBe(true);
    const pods = await pullersOf(cluster, second.resolved);
    expect(pods.filter((p) => p['spec'].nodeName === 'node-2' && p['status'].phase === 'Running')).toHaveLength(1);
  }, 500_000);

  /** Starts the second node's kubelet again with other fields in its configuration. */
  async function withKubelet(fields: Record<string, unknown>): Promise<void> {
    const file = join(cluster.runDir, 'nodes', 'node-2', 'kubelet.json');
    await nodeTwo().stopKubelet();
    writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), ...fields }));
    await nodeTwo().startKubelet();
  }
});
