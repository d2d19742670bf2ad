import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { notYet, until } from '../cluster/until.js';
import { gang, NS, prewarm, prewarmOf, pullersOf, pushImage, pushPuller, ready, runningPods } from './controller/ground.js';
import type { PaperNode } from './nodes-on-paper.js';
import { paperNodes } from './nodes-on-paper.js';
import { namespace, policy, pushPair, untilOutcome } from './webhook/ground.js';

const NODES = 40;
const WARM = 10;
const PODS = 8;
const IMAGE_BYTES = 40e9;
const OUTPUTS = ['Digest', 'TagAndDigest', 'Tag'] as const;

const FAKES = ['fake-1', 'fake-2', 'fake-3', 'fake-4', 'fake-5'];
/** Those that are warmed, as they come first by name; each runs something, for which the scheduler likes the others more. */
const BUSY = ['fake-1', 'fake-2'];

/** What `nodes.steer` adds: images of some hundred kB are nothing to the scheduler's own preference for nodes that have them. */
describe('on the real scheduler, a gang that was warmed on the two of five nodes that are busy', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-steer', nodes: { fake: FAKES.length }, say: () => undefined });
    await cluster.client.apply(namespace(NS));
    harbinger = await cluster.installHarbinger({ pullerImage: await pushPuller(cluster) });
    const bystander = await pushImage(cluster, 'bystander');
    const resources = { requests: { cpu: '3' } };
    for (const nodeName of BUSY)
      await cluster.client.create({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: `on-${nodeName}`, namespace: NS },
        spec: { nodeName, containers: [{ name: 'c', image: bystander.image, command: ['/pause', 'sleep', '3600'], resources }] },
      });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  async function steer(value: 'Off' | 'Preferred'): Promise<void> {
    const [webhook] = harbinger.webhooks;
    const changes = (): number => webhook?.logs().split('configuration changed').length ?? 0;
    const before = changes();
    harbinger.writeConfig({ nodes: { steer: value } });
    await until('the new configuration', () => changes() > before || notYet(before));
  }

  /** Runs a gang that was warm before it began; returns its Pods. */
  async function run(name: string): Promise<Raw[]> {
    const { image, resolved } = await pushImage(cluster, name);
    const job = gang(name, image, { pods: 2, cpu: '4', jobAnnotations: prewarm(), annotations: prewarm() });
    await cluster.client.create({ ...job, metadata: { ...job.metadata, labels: {} } });
    await prewarmOf(cluster, name, ready);
    const warm = (await pullersOf(cluster, resolved)).map((p) => p['spec'].nodeName as string);
    expect(warm.sort()).toEqual(BUSY);
    await cluster.client.patch('batch/v1/Job', `${NS}/${name}`, { spec: { suspend: false } });
    const pods = await runningPods(cluster, name, 2);
    expect(pods.map((p) => p['spec'].containers[0].image as string)).toEqual([resolved, resolved]);
    await cluster.client.delete('batch/v1/Job', `${NS}/${name}`, { propagationPolicy: 'Foreground' });
    await cluster.client.untilGone('batch/v1/Job', `${NS}/${name}`);
    return pods;
  }
  const nodesOf = (pods: readonly Raw[]): string[] => pods.map((p) => p['spec'].nodeName as string).sort();
  const term = [
    {
      weight: 100,
      preference: { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: BUSY }] },
    },
  ];
  const affinities = (pods: readonly Raw[]): unknown[] =>
    pods.map((p) => p['spec'].affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution);

  test('lands elsewhere with steer Off, whose Pods prefer nothing', async () => {
    const pods = await run('off');
    expect(affinities(pods)).toEqual([undefined, undefined]);
    expect(nodesOf(pods).filter((n) => BUSY.includes(n))).toEqual([]);
  }, 150_000);

  test('lands where it is warm once steer is set to Preferred, without a restart', async () => {
    await steer('Preferred');
    const pods = await run('preferred');
    expect(affinities(pods)).toEqual([term, term]);
    expect(nodesOf(pods)).toEqual(BUSY);
  }, 150_000);

  test('lands there from the first Pod on after a restart of the webhook', async () => {
    await harbinger.webhooks[0]?.restart();
    await harbinger.webhooks[0]?.untilReady();
    const pods = await run('restarted');
    expect(affinities(pods)).toEqual([term, term]);
    expect(nodesOf(pods)).toEqual(BUSY);
  }, 150_000);

  test('lands elsewhere again once steer is Off', async () => {
    await steer('Off');
    const pods = await run('off-again');
    expect(affinities(pods)).toEqual([undefined, undefined]);
    expect(nodesOf(pods).filter((n) => BUSY.includes(n))).toEqual([]);
  }, 150_000);
});

/**
 * Why `Digest` is the default form: the scheduler compares the text in the Pod with the names that nodes report. The warm nodes
 * are a little smaller here, so that nothing but the image speaks for them.
 */
describe(`on the real scheduler, ${NODES} nodes of which ${WARM} hold the 40 GB image by digest, a Job of ${PODS} whole-node Pods`, () => {
  let cluster: Cluster;
  let source: string;
  let nodes: PaperNode[];

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-steering', say: () => undefined });
    const pair = await pushPair(cluster, 'team/train');
    source = pair.source;
    const images = [{ names: [`${cluster.registry.host}/team/train@${pair.variantDigest}`], sizeBytes: IMAGE_BYTES }];
    nodes = Array.from({ length: NODES }, (_, i) => ({
      name: `node-${i + 1}`,
      ...(i < WARM ? { labels: { warm: 'yes' }, cpu: '7500m', images } : { cpu: '8' }),
    }));
    await cluster.client.apply(OUTPUTS.map((output) => namespace(output.toLowerCase())));
    await cluster.installHarbinger({ controllers: 0, config: {} });
    for (const output of OUTPUTS) {
      const match = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': output.toLowerCase() } } };
      await cluster.client.apply(policy(output.toLowerCase(), { match, output }));
      await untilOutcome(cluster, source, 'accelerated', output.toLowerCase());
    }
  }, 300_000);
  afterAll(async () => cluster?.stop());

  /** The node controller takes the taint of new nodes away one by one; until then the scheduler has no choice. */
  async function untilFree(): Promise<void> {
    await until('all nodes to be free to choose', async () => {
      const all = await cluster.client.list('v1/Node');
      const tainted = all.filter((n) => (n['spec'].taints ?? []).length > 0).map((n) => n.metadata.name);
      return (all.length === NODES && tainted.length === 0) || notYet(tainted);
    });
  }

  /** Runs the Job and tells how its image was written and how many of its Pods were bound to warm nodes. */
  async function run(ns: string): Promise<{ images: Set<string>; warm: number }> {
    await paperNodes(cluster, nodes);
    await untilFree();
    const requests = { cpu: '5' };
    await cluster.client.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'train', namespace: ns },
      spec: {
        completions: PODS,
        parallelism: PODS,
        template: { spec: { restartPolicy: 'Never', containers: [{ name: 'train', image: source, resources: { requests } }] } },
      },
    });
    const pods = await until(`${PODS} Pods of ${ns} to be bound`, async () => {
      const all = await cluster.client.list('v1/Pod', { namespace: ns });
      const bound = all.filter((p) => p['spec'].nodeName !== undefined);
      return bound.length === PODS ? bound : notYet(all.map((p) => p['status']));
    });
    const isWarm = (pod: Raw): boolean => nodes.some((n) => n.name === pod['spec'].nodeName && n.images !== undefined);
    await cluster.client.delete('batch/v1/Job', `${ns}/train`, { propagationPolicy: 'Foreground' });
    await Promise.all(pods.map((p) => cluster.client.delete('v1/Pod', `${ns}/${p.metadata.name}`, { gracePeriodSeconds: 0 })));
    return { images: new Set(pods.map((p) => p['spec'].containers[0].image as string)), warm: pods.filter(isWarm).length };
  }

  const rows: [string, string, RegExp, number][] = [
    ['output Digest lands 8 of 8 on warm nodes', 'digest', /:\d+\/team\/train@sha256:[0-9a-f]{64}$/, PODS],
    ['output TagAndDigest lands 0 of 8 there, although it names the same bytes', 'taganddigest', /-esgz@sha256:[0-9a-f]{64}$/, 0],
    ['output Tag lands 0 of 8 there, as the image was warmed by digest', 'tag', /-esgz$/, 0],
  ];
  test.each(rows)(
    '%s',
    async (_title, ns, form, expected) => {
      const { images, warm } = await run(ns);
      expect([...images]).toEqual([expect.stringMatching(form)]);
      expect(warm).toBe(expected);
    },
    150_000,
  );
});
