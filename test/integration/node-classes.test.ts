import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { constraintsOf } from '../../src/placement/constraints.js';
import { landingOf, obstacleTo, platformsNeeded, privateObstacleTo } from '../../src/placement/landing.js';
import type { NodeClasses } from '../../src/placement/node-classes.js';
import { parseNodeClasses } from '../../src/placement/node-classes.js';
import { Cluster } from '../cluster/cluster.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { notYet, until } from '../cluster/until.js';
import type { PaperNode } from './nodes-on-paper.js';
import { paperNodes } from './nodes-on-paper.js';
import { ACCELERATED, DECISIONS, metric, NS, pod } from './webhook/ground.js';

const OBJECT = 'harbinger-system/harbinger-node-classes';
const READY = { 'example.com/nydus': 'ready' };
const VARIANT = `reg.example.com/train@sha256:${'a'.repeat(64)}`;
const sign = (secondsAgo: number): object => ({
  type: 'NydusReady',
  status: 'True',
  reason: 'Probe',
  message: '',
  lastHeartbeatTime: new Date(Date.now() - secondsAgo * 1000).toISOString(),
  lastTransitionTime: new Date().toISOString(),
});
const NODES: PaperNode[] = [
  { name: 'lazy-1', labels: READY },
  { name: 'lazy-2', labels: { ...READY, keys: 'yes' } },
  { name: 'plain-1', arch: 'arm64' },
  { name: 'obd-1', labels: { obd: 'yes' }, conditions: [sign(5)] },
  { name: 'obd-2', labels: { obd: 'yes' }, conditions: [sign(1200)] },
  { name: 'tainted', taints: [{ key: 'owner', value: 'team', effect: 'NoSchedule' }] },
  { name: 'starting', taints: [{ key: 'node.cilium.io/agent-not-ready', value: '', effect: 'NoExecute' }] },
];

describe('the classes of nodes that the leading controller publishes', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;

  beforeAll(async () => {
    // Nobody says of nodes on paper that they live, and nobody is to give them up.
    const flags = { 'kube-controller-manager': ['--node-monitor-grace-period=30m'] };
    cluster = await Cluster.start({ name: 'it-node-classes', registry: false, flags, say: () => undefined });
    await paperNodes(cluster, NODES);
    await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } });
    harbinger = await cluster.installHarbinger({
      webhookReplicas: 0,
      controllers: 2,
      config: {
        nodes: { lastingTaints: ['owner'] },
        capabilities: [
          { format: 'nydus', nodeSelector: READY },
          { format: 'nydus', nodeSelector: { ...READY, keys: 'yes' }, privateImages: true },
          { format: 'overlaybd', nodeSelector: { obd: 'yes' }, condition: 'NydusReady', heartbeatSeconds: 600 },
          { format: 'soci', runtimeClass: 'lazy' },
        ],
      },
    });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  /** What is published, once `check` accepts it. */
  const published = (what: string, check: (view: NodeClasses) => boolean): Promise<NodeClasses> =>
    until(
      `published classes of nodes with ${what}`,
      async () => {
        const raw = await cluster.client.find('v1/ConfigMap', OBJECT);
        const view = parseNodeClasses(raw);
        return view !== undefined && check(view) ? view : notYet(raw?.['data']);
      },
      { timeoutMs: 60_000 },
    );
  const obstacle = (view: NodeClasses, podSpec: object, now = view.publishedAt): string | undefined =>
    obstacleTo('nydus', landingOf(constraintsOf(podSpec as never), view, now), false);
  const count = (view: NodeClasses, format: string): number =>
    view.classes.filter((c) => c.formats.some((f) => f === format)).reduce((sum, c) => sum + c.count, 0);

  test('tell what each node runs, what keeps Pods away, and which declaration selects nothing', async () => {
    const view = await published('all nodes', (v) => v.classes.reduce((n, c) => n + c.count, 0) === NODES.length);
    expect({ nydus: count(view, 'nydus'), overlaybd: count(view, 'overlaybd'), soci: count(view, 'soci') }).toEqual({
      nydus: 2,
      overlaybd: 1,
      soci: 0,
    });
    expect(view.classes.filter((c) => c.platform === 'linux/arm64').map((c) => c.count)).toEqual([1]);
    expect(view.classes.flatMap((c) => c.taints.map((t) => t.key))).toEqual(['owner']);
    expect(view.notes).toEqual([expect.stringContaining('RuntimeClass lazy does not exist')]);
  }, 150_000);

  test('let a Pod have what only some nodes read where it demands those nodes, and nowhere else', async () => {
    const view = await published('the capability', (v) => count(v, 'nydus') === 2);
    expect(obstacle(view, { nodeSelector: READY })).toBeUndefined();
    expect(obstacle(view, {})).toContain('of the 6 nodes that the Pod can land on are not known to run nydus');
  }, 150_000);

  test('let a private image go only where the snapshotters have credentials of their own', async () => {
    const view = await published('the capability', (v) => count(v, 'nydus') === 2);
    const privately = (nodeSelector: Record<string, string>): string | undefined =>
      privateObstacleTo('nydus', landingOf(constraintsOf({ nodeSelector }), view, view.publishedAt), false);
    expect(privately({ ...READY, keys: 'yes' })).toBeUndefined();
    expect(privately(READY)).toContain('1 of the 2 nodes that the Pod can land on are not known to fetch private nydus images');
  }, 150_000);

  test('say nothing of the platforms of nodes that join later, unless the Pod or the policy does', async () => {
    const view = await published('all nodes', (v) => v.classes.reduce((n, c) => n + c.count, 0) === NODES.length);
    const needed = (podSpec: object, closed = false): readonly string[] | undefined =>
      platformsNeeded(landingOf(constraintsOf(podSpec as never), view, view.publishedAt), closed);
    expect(needed({ nodeSelector: READY })).toBeUndefined();
    expect(needed({ nodeSelector: READY }, true)).toEqual(['linux/amd64']);
    expect(needed({}, true)).toEqual(['linux/amd64', 'linux/arm64']);
    expect(needed({ nodeSelector: { 'kubernetes.io/arch': 'arm64' } })).toEqual(['linux/arm64']);
  }, 150_000);

  test('follow a label that comes and goes within seconds', async () => {
    const label = (value: string | null): Promise<unknown> =>
      cluster.client.patch('v1/Node', 'lazy-2', { metadata: { labels: { 'example.com/nydus': value } } });
    await label(null);
    await published('one capable node', (v) => count(v, 'nydus') === 1);
    await label('ready');
    await published('two capable nodes again', (v) => count(v, 'nydus') === 2);
  }, 150_000);

  test('follow a sign of the snapshotter that is renewed', async () => {
    await paperNodes(cluster, [{ ...(NODES[4] as PaperNode), conditions: [sign(0)] }]);
    await published('the renewed node', (v) => count(v, 'overlaybd') === 2);
  }, 150_000);

  test('follow a RuntimeClass that is made', async () => {
    await cluster.client.create({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'lazy' },
      handler: 'lazy',
      scheduling: { nodeSelector: { obd: 'yes' } },
    });
    const view = await published('the nodes of the class', (v) => count(v, 'soci') === 2);
    expect(view.notes).toEqual([]);
    expect(view.capabilities).toContainEqual({ format: 'soci', nodeSelector: { obd: 'yes' } });
  }, 150_000);

  test('name a variant that a node cannot pull, for the namespace of its Pod', async () => {
    const decisions = [
      { container: 'app', source: 'reg.example.com/train:v1', outcome: 'accelerated', image: VARIANT, format: 'nydus' },
    ];
    const metadata = {
      name: 'failing',
      labels: { [ACCELERATED]: 'true' },
      annotations: { [DECISIONS]: JSON.stringify(decisions) },
    };
    await cluster.client.create(pod(VARIANT, { metadata }));
    const waiting = { reason: 'ErrImagePull', message: `failed to extract layer: no processor for media-type` };
    const state = { name: 'app', image: VARIANT, imageID: '', ready: false, restartCount: 0, state: { waiting } };
    await cluster.client.patch('v1/Pod', `${NS}/failing`, { status: { containerStatuses: [state] } }, { subresource: 'status' });
    const view = await published('the quarantine', (v) => v.quarantined.length > 0);
    expect(view.quarantined).toMatchObject([
      { namespace: NS, variant: VARIANT.split('@')[1], format: 'nydus', reason: 'FormatUnreadable' },
    ]);
    const counts = await Promise.all(
      harbinger.controllers.map((c) =>
        metric(c, 'harbinger_variant_pull_failures_total', '{format="nydus",reason="FormatUnreadable"}'),
      ),
    );
    expect(counts.sort()).toEqual([0, 1]);
  }, 150_000);

  test('are not stopped by Pods that claim forged images of 200 KB', async () => {
    const before = await published('anything', () => true);
    const forged = 'x'.repeat(200_000);
    await Promise.all(
      Array.from({ length: 8 }, async (_, i) => {
        const image = `${forged}${i}`;
        const claim = [{ container: 'app', source: 'reg.example.com/train:v1', outcome: 'accelerated', image, format: 'nydus' }];
        const metadata = {
          name: `forged-${i}`,
          labels: { [ACCELERATED]: 'true' },
          annotations: { [DECISIONS]: JSON.stringify(claim) },
        };
        await cluster.client.create(pod(image, { metadata }));
        const state = {
          name: 'app',
          image,
          imageID: '',
          ready: false,
          restartCount: 0,
          state: { waiting: { reason: 'InvalidImageName', message: image.slice(0, 1000) } },
        };
        await cluster.client.patch(
          'v1/Pod',
          `${NS}/forged-${i}`,
          { status: { containerStatuses: [state] } },
          { subresource: 'status' },
        );
      }),
    );
    // A change of a node comes after the Pods, and is published.
    await cluster.client.patch('v1/Node', 'plain-1', { metadata: { labels: { pool: 'after' } } });
    const view = await published('the change', (v) => v.classes.some((c) => c.labels['pool'] === 'after'));
    expect(view.quarantined.map((q) => q.variant)).toEqual(before.quarantined.map((q) => q.variant));
    expect(JSON.stringify(view).length).toBeLessThan(20_000);
  }, 150_000);

  test('are written by the leader alone, and only when they change or once a minute', async () => {
    const user = 'system:serviceaccount:harbinger-system:harbinger-controller';
    const writes = cluster.audit.query({ user, resource: 'configmaps' }).filter((e) => e.verb === 'patch');
    expect(writes.length).toBeGreaterThan(4);
    expect(writes.length).toBeLessThan(25);
    const stamps = await Promise.all(
      harbinger.controllers.map((c) => metric(c, 'harbinger_node_classes_published_timestamp_seconds')),
    );
    expect(stamps.filter((s) => s > 0)).toHaveLength(1);
  }, 150_000);

  test('grow old when no controller lives, so that nothing is claimed of nodes, and the quarantine outlives all of them', async () => {
    await cluster.client.delete('v1/Pod', `${NS}/failing`, { gracePeriodSeconds: 0 });
    for (const controller of harbinger.controllers) await controller.kill();
    const last = await published('anything', () => true);
    expect(obstacle(last, { nodeSelector: READY })).toBeUndefined();
    expect(obstacle(last, { nodeSelector: READY }, last.publishedAt + 301_000)).toContain('the nodes are not known');
    expect(landingOf(constraintsOf({}), last, last.publishedAt + 301_000).platforms).toBeUndefined();
    await harbinger.controllers[0]?.start();
    const next = await until(
      'the next controller to publish',
      async () => {
        const view = parseNodeClasses(await cluster.client.find('v1/ConfigMap', OBJECT));
        return view !== undefined && view.publishedAt > last.publishedAt ? view : notYet(view?.publishedAt);
      },
      { timeoutMs: 60_000 },
    );
    expect(next.quarantined.map((q) => q.variant)).toEqual(last.quarantined.map((q) => q.variant));
    expect(next.quarantined).toHaveLength(1);
  }, 180_000);
});
