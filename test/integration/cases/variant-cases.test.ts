import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { resolveSource } from '../../../src/images/resolve.js';
import { findVariant } from '../../../src/images/ladder/variant.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { classifyPullError } from '../../../src/preheat/pull-errors.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import { CachedRegistry } from '../../../src/registry/cache.js';
import type { Image, Layer } from '../../../tools/oci-image/index.js';
import {
  SOURCE_DIGEST,
  buildImage,
  buildIndex,
  estargzVariant,
  memoryBlob,
  payloadImage,
  push,
} from '../../../tools/oci-image/index.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { condition, context, prewarm, progress, recorded, snapshot } from '../../unit/controller/fixtures.js';
import { OCI, bodyDigest, manifestBody } from '../../unit/images/support.js';
import { RegistryDouble, TestClock, clientOf, closeClients, listed } from '../../unit/registry/support.js';
import { NS, decisionsOf, imageOf, metric, pod, policy, pushPair, untilOutcome } from '../webhook/ground.js';
import type { Decision, Images } from '../webhook/ground.js';
import { admit, bothNamespaces } from './ground.js';

const POD = 'v1/Pod';
const OTHER_NS = 'other-team';
const GENERATION = 'node.example/generation';
const MINUTE = 60_000;

interface NodeParts {
  arch?: string;
  labels?: Record<string, string>;
  /** Age of the sign that the Nydus snapshotter lives, ms; absent: no sign. */
  sign?: number;
}

/** A Node as a kubelet registers it; nobody runs behind it. */
function node(name: string, { arch = 'amd64', labels = {}, sign }: NodeParts): Draft {
  const at = new Date(Date.now() - (sign ?? 0)).toISOString();
  const conditions =
    sign === undefined
      ? []
      : [{ type: 'NydusReady', status: 'True', reason: 'Probe', message: '', lastHeartbeatTime: at, lastTransitionTime: at }];
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/arch': arch, 'kubernetes.io/os': 'linux', ...labels } },
    status: { nodeInfo: { ...NODE_INFO, architecture: arch }, conditions },
  };
}

const NODE_INFO = {
  machineID: '',
  systemUUID: '',
  bootID: '',
  kernelVersion: '',
  osImage: '',
  containerRuntimeVersion: '',
  kubeletVersion: '',
  kubeProxyVersion: '',
  operatingSystem: 'linux',
};

const layer = (mediaType: string, text: string, annotations: Record<string, string>): Layer => {
  const blob = memoryBlob(mediaType, Buffer.from(text));
  return { ...blob, annotations, diffId: blob.digest };
};

const GZIP = 'application/vnd.oci.image.layer.v1.tar+gzip';
/** Layers of formats that plain nodes cannot run. Their bytes are of no interest to a webhook. */
const LAYERS: Record<'nydus' | 'overlaybd', (seed: string) => Layer[]> = {
  nydus: (seed) => [
    layer('application/vnd.oci.image.layer.nydus.blob.v1', `${seed} blob`, { 'containerd.io/snapshot/nydus-blob': 'true' }),
    layer(GZIP, `${seed} bootstrap`, { 'containerd.io/snapshot/nydus-bootstrap': 'true' }),
  ],
  overlaybd: (seed) => [
    layer(GZIP, `${seed} layer`, { 'containerd.io/snapshot/overlaybd/blob-digest': `sha256:${'e'.repeat(64)}` }),
  ],
};

describe('variants that some nodes cannot run, or cannot get', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let host: string;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-variant-cases', say: () => undefined });
    ({ host } = cluster.registry);
    const { client } = cluster;
    await client.apply([
      ...bothNamespaces(),
      { ...(bothNamespaces()[0] as Draft), metadata: { ...bothNamespaces()[0]?.metadata, name: OTHER_NS } },
    ]);
    // Three nodes whose sign is fresh, one whose snapshotter has been silent for 20 minutes, and one of another architecture.
    const nydus = { snapshotter: 'nydus' };
    for (const name of ['fresh-1', 'fresh-2', 'fresh-3']) {
      const labels = { ...nydus, [GENERATION]: '2', ...(name === 'fresh-3' ? {} : { overlaybd: 'true' }) };
      await client.create(node(name, { labels, sign: 0 }));
    }
    await client.create(node('silent', { labels: { ...nydus, [GENERATION]: '1' }, sign: 20 * MINUTE }));
    await client.create(node('arm', { arch: 'arm64' }));
    // What makes the generation a label that matters to placement.
    await client.create({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'gen2' },
      handler: 'runc',
      scheduling: { nodeSelector: { [GENERATION]: '2' } },
    });
    harbinger = await cluster.installHarbinger({
      config: {
        registries: [{ host, plainHTTP: true, allowLocalAddresses: true }],
        budgets: { admissionMs: 2_500, eventLoopLagMs: 5_000 },
        capabilities: [
          { format: 'nydus', nodeSelector: nydus, condition: 'NydusReady', heartbeatSeconds: 600 },
          { format: 'overlaybd', nodeSelector: { overlaybd: 'true' } },
        ],
      },
    });
    await client.apply([
      policy('all', { match: { images: [`${host}/**`] } }),
      policy('nydus', {
        priority: 1,
        match: { images: [`${host}/nydus/**`] },
        variants: [{ format: 'nydus', discover: { tagSuffix: '-nydus' } }],
      }),
      policy('overlaybd', {
        priority: 1,
        match: { images: [`${host}/overlaybd/**`] },
        variants: [{ format: 'overlaybd', discover: { tagSuffix: '-obd' } }],
      }),
    ]);
  }, 300_000);
  afterAll(() => cluster?.stop());

  /** What is decided about a Pod of one image for nodes with these labels. */
  async function decided(image: string, nodeSelector: Record<string, string> = {}, ns = NS): Promise<Decision> {
    const draft = pod(image, { namespace: ns, metadata: { name: 'probe' }, spec: { nodeSelector } });
    const [decision] = decisionsOf(await admit(cluster, draft, ns));
    if (decision === undefined) throw new Error('the webhook was not called');
    return decision;
  }

  const untilDecided = (image: string, want: string, nodeSelector: Record<string, string> = {}): Promise<unknown> =>
    until(`${image} to be decided ${want}`, async () => {
      const decision = await decided(image, nodeSelector);
      return decision.outcome === want || notYet(decision);
    });

  /** Pushes an image and its variant of a format for which nodes have to be prepared. */
  async function pushNative(format: 'nydus' | 'overlaybd', suffix: string): Promise<string> {
    const repository = `${format}/app`;
    const source = await payloadImage({ seed: repository, bytes: 2_000, files: 1, bare: true });
    const variant = buildImage({ layers: LAYERS[format](repository), annotations: { [SOURCE_DIGEST]: source.digest } });
    await push(source, { host, repository, tags: ['v1'] });
    await push(variant, { host, repository, tags: [`v1${suffix}`] });
    return `${host}/${repository}:v1`;
  }

  test('H-13 a variant of one architecture is for Pods that land on that one only', async () => {
    const make = async (architecture: string): Promise<[Image, Image]> => {
      const options = { seed: architecture, bytes: 2_000, files: 1, bare: true, platform: { os: 'linux', architecture } };
      const source = await payloadImage(options);
      return [source, await estargzVariant(source, options)];
    };
    const [[amd, variant], [arm]] = [await make('amd64'), await make('arm64')];
    await push(buildIndex([amd, arm]), { host, repository: 'team/multi', tags: ['v1'] });
    await push(variant, { host, repository: 'team/multi', tags: ['v1-esgz'] });
    const image = `${host}/team/multi:v1`;
    await untilDecided(image, 'accelerated', { 'kubernetes.io/arch': 'amd64' });
    expect(await decided(image, { 'kubernetes.io/arch': 'amd64' })).toMatchObject({
      image: `${host}/team/multi@${variant.digest}`,
    });
    expect(await decided(image)).toMatchObject({ outcome: 'platform-missing', image });
    // All nodes of now behind this label are amd64; the next one may not be.
    expect(await decided(image, { snapshotter: 'nydus' })).toMatchObject({ outcome: 'platform-missing', image });
    expect(await decided(image, { 'kubernetes.io/arch': 'arm64' })).toMatchObject({ outcome: 'platform-missing', image });
  });

  test('H-14 a node whose snapshotter has not been heard of keeps a Nydus image from Pods that may land there', async () => {
    const image = await pushNative('nydus', '-nydus');
    await untilDecided(image, 'accelerated', { snapshotter: 'nydus', [GENERATION]: '2' });
    const left = await decided(image, { snapshotter: 'nydus' });
    expect(left).toMatchObject({ outcome: 'node-incapable', image, message: expect.stringContaining('1 of the 4 nodes') });
    // An image that plain nodes run as well is given in both places.
    const portable = await pushPair(cluster, 'team/portable');
    await untilDecided(portable.source, 'accelerated');
    for (const selector of [{ snapshotter: 'nydus' }, { snapshotter: 'nydus', [GENERATION]: '2' }])
      expect(await decided(portable.source, selector)).toMatchObject({ outcome: 'accelerated' });
    // Once it is heard of again, the node counts.
    const heard = new Date().toISOString();
    const conditions = [
      { type: 'NydusReady', status: 'True', reason: 'Probe', message: '', lastHeartbeatTime: heard, lastTransitionTime: heard },
    ];
    await cluster.client.patch('v1/Node', 'silent', { status: { conditions } }, { type: 'strategic', subresource: 'status' });
    await untilDecided(image, 'accelerated', { snapshotter: 'nydus' });
  }, 240_000);

  test('H-19 an OverlayBD image is left where one of the nodes has no snapshotter for it', async () => {
    const image = await pushNative('overlaybd', '-obd');
    await untilDecided(image, 'accelerated', { overlaybd: 'true' });
    const left = await decided(image, { [GENERATION]: '2' });
    expect(left).toMatchObject({ outcome: 'node-incapable', image, message: expect.stringContaining('overlaybd') });
    expect(await decided(image)).toMatchObject({ outcome: 'node-incapable', image });
  });

  /** A Pod that runs a variant which its node cannot pull, for this reason. */
  async function failing(source: string, message: string): Promise<Raw> {
    const created = await cluster.client.create(pod(source));
    const waiting = { reason: 'ErrImagePull', message };
    const status = {
      phase: 'Pending',
      containerStatuses: [
        { name: 'app', image: imageOf(created), imageID: '', ready: false, restartCount: 0, state: { waiting } },
      ],
    };
    return cluster.client.patch(POD, `${NS}/${created.metadata.name}`, { status }, { subresource: 'status' });
  }

  const failures = async (reason: string): Promise<number> => {
    const [controller] = harbinger.controllers;
    return controller === undefined
      ? -1
      : metric(controller, 'harbinger_variant_pull_failures_total', `{format="estargz",reason="${reason}"}`);
  };

  /** After the failure of one Pod the next ones of its namespace get the plain image, and those of others do not care. */
  async function expectQuarantine({ source }: Images, reason: string, message: string): Promise<void> {
    await untilOutcome(cluster, source, 'accelerated');
    const before = await failures(reason);
    await failing(source, message);
    await untilDecided(source, 'variant-missing');
    expect(await decided(source)).toMatchObject({ image: source });
    expect(await failures(reason)).toBe(before + 1);
    expect(await decided(source, {}, OTHER_NS)).toMatchObject({ outcome: 'accelerated' });
  }

  afterEach(closeClients);

  test('H-11 a variant that was cleaned up is given to nobody after minutes, nor after the first Pod that fails to pull it', async () => {
    const source = manifestBody({ name: 'app' });
    const variant = manifestBody({ name: 'variant', marked: 2, annotations: { [SOURCE_DIGEST]: bodyDigest(source) } });
    const served = new Map(
      [source, variant].flatMap(
        (body, i) =>
          [
            [['v1', 'v1-esgz'][i] ?? '', body],
            [bodyDigest(body), body],
          ] as [string, object][],
      ),
    );
    const double = await RegistryDouble.start((_request, response, url) => {
      const body = served.get(url.pathname.split('/').at(-1) ?? '');
      return body === undefined
        ? response.writeHead(404).end()
        : response.writeHead(200, { 'content-type': OCI }).end(JSON.stringify(body));
    });
    try {
      const clock = new TestClock();
      const port = new CachedRegistry(clientOf({ registries: [listed(double.host)], clock }), { clock, metrics: new Metrics() });
      const outcome = async (): Promise<string> => {
        const found = await resolveSource(`${double.host}/team/app:v1`, port);
        if (!found.ok) return found.outcome;
        return (await findVariant({ source: found, rules: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }], port }))
          .outcome;
      };
      const seen: string[] = [await outcome()];
      clock.advance(5 * MINUTE);
      seen.push(await outcome());
      clock.advance(5 * MINUTE);
      for (const name of ['v1-esgz', bodyDigest(variant)]) served.delete(name);
      clock.advance(10 * MINUTE);
      seen.push(await outcome());
      expect(seen).toEqual(['accelerated', 'accelerated', 'variant-missing']);
    } finally {
      await double.stop();
    }
    const app = await pushPair(cluster, 'team/cleaned');
    const gone = `failed to pull and unpack image "${app.source}": failed to resolve reference: ${app.variantDigest}: not found`;
    await expectQuarantine(app, 'ImageNotFound', gone);
  }, 240_000);

  test('H-15 a node whose store lost what another snapshotter needs is told apart from a registry that has no image', async () => {
    const app = await pushPair(cluster, 'team/conflict');
    const conflict = `failed to pull and unpack image "${app.source}": content digest ${app.variantDigest}: not found`;
    expect(classifyPullError('ErrImagePull', conflict)).toBe('ImageStoreConflict');
    expect(classifyPullError('ErrImagePull', `failed to resolve reference "${app.source}": not found`)).toBe('ImageNotFound');
    await expectQuarantine(app, 'ImageStoreConflict', conflict);
    // A gang that waits for the node sees it as failed, not as one that still pulls; its hold ends as its policy says.
    const failed = { node: 'n1', image: app.source, reason: 'ImageStoreConflict' as const, message: conflict };
    const { status } = decidePrewarm(
      snapshot({ prewarm: prewarm({ targets: recorded() }), progress: progress({ warm: 2, failed: 1, failures: [failed] }) }),
      context(),
    );
    expect(status.failures).toMatchObject([{ node: 'n1', reason: 'ImageStoreConflict' }]);
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'PullFailed' });
  }, 240_000);
});
