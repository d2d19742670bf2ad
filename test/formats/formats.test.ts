import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Format } from '../../src/api/kinds/acceleration-policy.js';
import { push } from '../../tools/oci-image/index.js';
import type { Cluster } from '../cluster/cluster.js';
import { buildRafs, mergedIndex, nydusImage } from './converters/nydus.js';
import { overlaybdShape, sociV2Shape } from './converters/shapes.js';
import { zstdBySkopeo } from './converters/skopeo.js';
import type { Ground } from './ground.js';
import {
  create,
  harbingerCli,
  LAZY_BYTES,
  NAMESPACE,
  node,
  NYDUS_LABEL,
  offer,
  pushSource,
  removePod,
  runOn,
  SIZE,
  SLEEPER,
  startGround,
} from './ground.js';
import { startRangeless, type RangeAnswer } from './rangeless.js';

const RANGELESS_PORT = 5001;

/** What explain says of one container, as far as it is looked at here. */
interface Explained {
  outcome: string;
  format?: string;
  image: string;
  message?: string;
}

describe('images of real converters', () => {
  let ground: Ground;
  let cluster: Cluster;

  beforeAll(async () => {
    ground = await startGround({ rangeless: RANGELESS_PORT });
    cluster = ground.cluster;
  }, 1_800_000);
  afterAll(async () => ground?.stop(), 60_000);

  /** The decision of the whole ladder against the real registry, by `harbinger explain`. */
  async function explain(image: string, ...flags: string[]): Promise<Explained> {
    const text = await harbingerCli(cluster, 'explain', image, '-n', NAMESPACE, '-o', 'json', ...flags);
    return (JSON.parse(text) as { decision: Explained }).decision;
  }

  describe.each<{
    format: Format;
    by: string;
    convert: (source: string, target: string) => Promise<void>;
    /** The converter leaves no trace of the source. */
    record: boolean;
    lazy: boolean;
  }>([
    { format: 'estargz', by: 'ctr-remote', convert: (s, t) => ground.ctrRemote.estargz(s, t), record: true, lazy: true },
    { format: 'zstdchunked', by: 'ctr-remote', convert: (s, t) => ground.ctrRemote.zstdChunked(s, t), record: true, lazy: true },
    { format: 'zstd', by: 'skopeo', convert: zstdBySkopeo, record: false, lazy: false },
  ])('$format by $by', ({ format, convert, record, lazy }) => {
    let image: string;
    beforeAll(async () => {
      ({ image } = await pushSource(cluster, format));
      await convert(image, `${image}-lazy`);
      await offer(cluster, image, [{ format, discover: { tagSuffix: '-lazy' } }]);
    }, 120_000);

    if (record) {
      test('is not trusted before its source is recorded, and is afterwards', async () => {
        expect(await explain(image)).toMatchObject({ outcome: 'freshness-unknown', image });
        await harbingerCli(cluster, 'record', image, `${image}-lazy`);
        expect(await explain(image)).toMatchObject({ outcome: 'accelerated', format });
      }, 60_000);
    } else {
      test('is proven by its contents alone', async () => {
        expect(await explain(image)).toMatchObject({ outcome: 'accelerated', format });
      }, 60_000);
    }

    test('runs on a plain node, pulled in full', async () => {
      const { image: written } = await explain(image);
      const on = node(cluster, 'overlayfs');
      const ran = await runOn(ground, on, { name: `${format}-plain`, image, seed: format });
      expect(ran).toMatchObject({ image: written, fuse: 0, decision: { format, source: image } });
      expect(ran.image).toMatch(/@sha256:/);
      expect(ran.bytes).toBeGreaterThan(SIZE);
      await removePod(cluster, `${format}-plain`);
    }, 120_000);

    if (!lazy) {
      test('is pulled in full on a stargz node too, which is how the others are known to be lazy', async () => {
        const ran = await runOn(ground, node(cluster, 'stargz'), { name: `${format}-stargz`, image, seed: format });
        expect(ran).toMatchObject({ fuse: 0, decision: { outcome: 'accelerated', format } });
        expect(ran.bytes).toBeGreaterThan(SIZE);
        told(`${format} on a stargz node`, ran);
        await removePod(cluster, `${format}-stargz`);
      }, 120_000);
      return;
    }
    test('runs on a stargz node before its bytes are there', async () => {
      const ran = await runOn(ground, node(cluster, 'stargz'), { name: `${format}-lazy`, image, seed: format });
      expect(ran.decision).toMatchObject({ outcome: 'accelerated', format });
      expect(ran.fuse).toBeGreaterThan(0);
      expect(ran.bytes).toBeLessThan(LAZY_BYTES);
      told(`${format} on a stargz node`, ran);
      await removePod(cluster, `${format}-lazy`);
    }, 120_000);
  });

  describe('nydus by nydus-image', () => {
    let image: string;
    beforeAll(async () => {
      const source = await pushSource(cluster, 'nydus');
      image = source.image;
      const rafs = await buildRafs(source.built, cluster.tools['nydus-image'] ?? '');
      await push(nydusImage(source.built, rafs, SLEEPER), {
        host: cluster.registry.host,
        repository: 'nydus',
        tags: ['v1-lazy'],
      });
      await rafs.remove();
      await offer(cluster, image, [{ format: 'nydus', discover: { tagSuffix: '-lazy' } }]);
    }, 120_000);

    test('is left where a Pod may land on a plain node', async () => {
      const { decision, image: kept } = await create(cluster, { name: 'nydus-anywhere', image, expected: 'node-incapable' });
      expect(kept).toBe(image);
      expect(decision.message).toMatch(/node/);
      await removePod(cluster, 'nydus-anywhere');
      expect(await explain(image)).toMatchObject({ outcome: 'node-incapable', image });
    }, 90_000);

    test('would not run on a plain node', async () => {
      const forced = `${image}-lazy`;
      const spec = { nodeName: node(cluster, 'overlayfs').name, containers: [{ name: 'main', image: forced }] };
      await cluster.client.create({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'nydus-forced', namespace: 'default' },
        spec,
      });
      const pod = await cluster.client.watchUntil('v1/Pod', 'default/nydus-forced', (p) =>
        /ErrImagePull|ImagePullBackOff/.test(p['status']?.containerStatuses?.[0]?.state?.waiting?.reason ?? ''),
      );
      expect(pod['status'].containerStatuses[0].state.waiting.message).toContain('nydus.blob');
      await cluster.client.delete('v1/Pod', 'default/nydus-forced', { gracePeriodSeconds: 0 });
    }, 90_000);

    test('is written and runs lazily where the Pod asks for nodes that are declared capable', async () => {
      const on = node(cluster, 'nydus');
      const ran = await runOn(ground, on, { name: 'nydus-lazy', image, select: NYDUS_LABEL, seed: 'nydus' });
      expect(ran.decision).toMatchObject({ outcome: 'accelerated', format: 'nydus' });
      expect(ran.fuse).toBe(1);
      expect(ran.bytes).toBeLessThan(LAZY_BYTES);
      told('nydus on a nydus node', ran);
      await removePod(cluster, 'nydus-lazy');
    }, 120_000);
  });

  describe('a merged Nydus index', () => {
    let image: string;
    let index: string;
    beforeAll(async () => {
      const source = await pushSource(cluster, 'merged');
      image = source.image;
      const rafs = await buildRafs(source.built, cluster.tools['nydus-image'] ?? '');
      const merged = await mergedIndex(source.built, rafs, SLEEPER);
      index = await push(merged, { host: cluster.registry.host, repository: 'merged', tags: ['v1-lazy'] });
      await rafs.remove();
      await offer(cluster, image, [{ format: 'nydus', discover: { tagSuffix: '-lazy' } }]);
    }, 120_000);

    test('is written by the digest of the index and runs on a plain node as an ordinary image', async () => {
      expect(await explain(image)).toMatchObject({ outcome: 'accelerated', format: 'nydus', image: index });
      const ran = await runOn(ground, node(cluster, 'overlayfs'), { name: 'merged-plain', image, seed: 'merged' });
      expect(ran).toMatchObject({ image: index, fuse: 0 });
      expect(ran.bytes).toBeGreaterThan(SIZE);
      await removePod(cluster, 'merged-plain');
    }, 120_000);

    test('runs lazily on a node whose snapshotter looks into indexes', async () => {
      const ran = await runOn(ground, node(cluster, 'nydus'), { name: 'merged-lazy', image, seed: 'merged' });
      expect(ran).toMatchObject({ image: index, fuse: 1 });
      expect(ran.bytes).toBeLessThan(LAZY_BYTES);
      told('a merged index on a nydus node', ran);
      await removePod(cluster, 'merged-lazy');
    }, 120_000);
  });

  test('SOCI v2 of the documented shape is proven by its layers and runs on a plain node', async () => {
    const { image, built } = await pushSource(cluster, 'soci');
    const pushed = await push(sociV2Shape(built), { host: cluster.registry.host, repository: 'soci', tags: ['v1-lazy'] });
    await offer(cluster, image, [{ format: 'soci', discover: { tagSuffix: '-lazy' } }]);
    expect(await explain(image)).toMatchObject({ outcome: 'accelerated', format: 'soci', image: pushed });
    const ran = await runOn(ground, node(cluster, 'overlayfs'), { name: 'soci-plain', image, seed: 'soci' });
    expect(ran.image).toBe(pushed);
    await removePod(cluster, 'soci-plain');
  }, 120_000);

  test('OverlayBD of the documented shape is identified, and left because no node runs it', async () => {
    const { image, built } = await pushSource(cluster, 'overlaybd');
    await push(overlaybdShape(built, SLEEPER), { host: cluster.registry.host, repository: 'overlaybd', tags: ['v1-lazy'] });
    await offer(cluster, image, [{ format: 'overlaybd', discover: { tagSuffix: '-lazy' } }]);
    expect(await explain(image)).toMatchObject({ outcome: 'node-incapable', image });
    expect(await explain(image, '--assume-capable', 'overlaybd')).toMatchObject({ outcome: 'accelerated', format: 'overlaybd' });
  }, 60_000);

  test.each<[string, RangeAnswer, boolean]>([
    ['refuses Range requests is pulled as an ordinary image', 'refuse', false],
    ['ignores Range is mounted lazily and fetched in full all the same', 'ignore', true],
  ])(
    'eStargz from a registry that %s, and its Pod runs',
    async (_, answer, mounted) => {
      const seed = `range-${answer}`;
      const { image: direct } = await pushSource(cluster, seed);
      await ground.ctrRemote.estargz(direct, `${direct}-lazy`);
      await harbingerCli(cluster, 'record', direct, `${direct}-lazy`);
      const front = await startRangeless(cluster.network?.hostAddress ?? '', RANGELESS_PORT, {
        upstream: cluster.registry.host,
        answer,
      });
      try {
        const image = direct.replace(cluster.registry.host, front.host);
        await offer(cluster, image, [{ format: 'estargz', discover: { tagSuffix: '-lazy' } }]);
        const ran = await runOn(ground, node(cluster, 'stargz'), { name: seed, image, seed });
        expect(ran.decision).toMatchObject({ outcome: 'accelerated', format: 'estargz' });
        expect(front.asked()).toBeGreaterThan(0);
        expect(ran.bytes).toBeGreaterThan(SIZE);
        expect(ran.fuse > 0).toBe(mounted);
        told(`eStargz, Range requests met with "${answer}"`, ran);
        await removePod(cluster, seed);
      } finally {
        await front.close();
      }
    },
    180_000,
  );
});

/** Figures of a run, for docs/lazy-nodes.md. */
function told(what: string, ran: { bytes: number; seconds: number }): void {
  process.stderr.write(`   ${what}: ${(ran.bytes / 1e6).toFixed(1)} MB of ${(SIZE / 1e6).toFixed(1)} MB in ${ran.seconds} s\n`);
}
