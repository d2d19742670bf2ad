import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import { notYet, until } from '../cluster/until.js';
import type { PaperNode } from './nodes-on-paper.js';
import { paperNodes } from './nodes-on-paper.js';
import { namespace, policy, pushPair, untilOutcome } from './webhook/ground.js';

const NODES = 40;
const WARM = 10;
const PODS = 8;
const IMAGE_BYTES = 40e9;
const OUTPUTS = ['Digest', 'TagAndDigest', 'Tag'] as const;

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
    90_000,
  );
});
