import { describe, expect, test } from '@jest/globals';
import type { Format } from '../../../../src/api/kinds/acceleration-policy.js';
import { choicesFor } from '../../../../src/images/ladder/picks.js';
import type { VariantQuestion } from '../../../../src/images/ladder/variant.js';
import {
  NYDUS_SOURCE,
  SOCI_V2,
  ZSTD,
  estargzImage,
  image,
  mergedIndex,
  nydusCache,
  nydusImage,
  overlaybdImage,
  plain,
  sociIndex,
  zstdImage,
} from '../bodies.js';
import { byTag, climb, ground } from './climb.js';
import { OCI_INDEX, bodyDigest, digestOf, factOf, indexBody } from '../support.js';

const RECORD = 'harbinger.dev/source-digest';
const NYDUS = { artifactType: 'application/vnd.nydus.image.manifest.v1+json' };
const OVERLAYBD = { artifactType: 'application/vnd.containerd.overlaybd.native.v1+json' };
const AMD = 'linux/amd64';

const single = plain('source');
const S = bodyDigest(single);
const older = digestOf('older');
const source = indexBody([{ platform: AMD, body: single }]);
const esgz = (of = S): object => estargzImage(`e ${of}`, 2, { annotations: { [RECORD]: of } });
const nydus = (of = S): object => nydusImage(`n ${of}`, of);
const overlaybd = (of = S): object => overlaybdImage(`o ${of}`, { subject: of });
const capable: Partial<VariantQuestion> = { obstacle: () => undefined };

interface Entry {
  platform?: string;
  body: object;
  extra?: object;
}

/** What the ladder says of an index of these children as the variant of `of`. */
async function judge(format: Format, children: readonly Entry[], { of = source, more = capable, sources = [single] } = {}) {
  const bodies = [...sources, ...children.map(({ body }) => body)];
  const variant = indexBody(children.map((child) => ({ platform: AMD, ...child })));
  return climb(ground({ source: of, children: bodies, variant }), byTag(format), more);
}

describe('every image that a node may take is proven, whatever format the rule names', () => {
  test.each<[string, Format, Entry[], string]>([
    [
      'an ordinary image of another program before an OverlayBD one',
      'overlaybd',
      [{ body: plain('other') }, { body: overlaybd(), extra: OVERLAYBD }],
      'freshness-unknown',
    ],
    [
      'a stale ordinary image before an OverlayBD one',
      'overlaybd',
      [{ body: esgz(older) }, { body: overlaybd(), extra: OVERLAYBD }],
      'variant-stale',
    ],
    [
      'the source before an OverlayBD image of it',
      'overlaybd',
      [{ body: single }, { body: overlaybd(), extra: OVERLAYBD }],
      'accelerated',
    ],
    ['a stale Nydus sibling of eStargz', 'estargz', [{ body: esgz() }, { body: nydus(older), extra: NYDUS }], 'variant-stale'],
    ['a fresh Nydus sibling of eStargz', 'estargz', [{ body: esgz() }, { body: nydus(), extra: NYDUS }], 'accelerated'],
    [
      'a Nydus sibling that cannot be run',
      'estargz',
      [{ body: esgz() }, { body: nydusCache('c', S), extra: NYDUS }],
      'variant-unrecognised',
    ],
    [
      'a stale OverlayBD sibling of eStargz',
      'estargz',
      [{ body: esgz() }, { body: overlaybd(older), extra: OVERLAYBD }],
      'variant-stale',
    ],
    [
      'a stale sibling that CRI-O prefers',
      'estargz',
      [
        { body: esgz() },
        {
          body: zstdImage('z', 2, { annotations: { [RECORD]: older } }),
          extra: { annotations: { 'io.github.containers.compression.zstd': 'true' } },
        },
      ],
      'variant-stale',
    ],
    ['a second ordinary image that no runtime takes', 'estargz', [{ body: esgz() }, { body: esgz(older) }], 'accelerated'],
    ['an index where an image should be', 'estargz', [{ body: indexBody([]) }, { body: esgz() }], 'variant-unrecognised'],
    [
      'an index inside the index before the image',
      'estargz',
      [{ body: indexBody([{ platform: AMD, body: esgz(older) }]), extra: { mediaType: OCI_INDEX } }, { body: esgz() }],
      'variant-unrecognised',
    ],
    [
      'an artifact of unknown kind before the image',
      'estargz',
      [{ body: esgz(older), extra: { artifactType: 'application/x' } }, { body: esgz() }],
      'variant-unrecognised',
    ],
    [
      'an artifact of unknown kind behind the image',
      'estargz',
      [{ body: esgz() }, { body: esgz(older), extra: { artifactType: 'application/x' } }],
      'accelerated',
    ],
    [
      'attestations beside the image',
      'estargz',
      [{ body: esgz() }, { platform: 'unknown/unknown', body: plain('sbom') }],
      'accelerated',
    ],
    [
      'an OverlayBD image that is not marked as such, before a Nydus one',
      'nydus',
      [{ body: overlaybdImage('o', { annotations: { [NYDUS_SOURCE]: S } }) }, { body: nydus(), extra: NYDUS }],
      'variant-unrecognised',
    ],
  ])('%s', async (_, format, children, outcome) => {
    expect(await judge(format, children)).toMatchObject({ outcome });
  });
});

describe('what stands first decides what plain nodes run', () => {
  test('a Nydus image before eStargz is what containerd would take, so the index is no eStargz', async () => {
    const children = [{ body: nydus(), extra: NYDUS }, { body: esgz() }];
    expect(await judge('estargz', children)).toMatchObject({
      outcome: 'variant-unrecognised',
      message: expect.stringContaining('stands first'),
    });
    expect(await judge('estargz', children.toReversed())).toMatchObject({ outcome: 'accelerated', portable: true });
  });

  test.each(['artifactType', 'os.features'] as const)(
    'a merged index (%s) is portable unless the Nydus image is first',
    async (mark) => {
      const children = [{ platform: AMD, plain: single, nydus: nydus() }];
      const of = (first: boolean) =>
        climb(
          ground({ source, children: [single, nydus()], variant: mergedIndex(children, mark, first) }),
          byTag('nydus'),
          capable,
        );
      expect(await of(false)).toMatchObject({ outcome: 'accelerated', portable: true });
      const flagged = await of(true);
      expect(flagged).toMatchObject({ outcome: 'accelerated', portable: false });
      expect(flagged.evidence).toContainEqual(expect.objectContaining({ step: 'index order', verdict: 'unknown' }));
    },
  );

  test('a SOCI index before its image is tried as an image; behind it, it is none of the images', async () => {
    const { enabled, zone, index } = sociIndex('source');
    const [first, second] = factOf(index).manifests;
    const bodies = [enabled, zone];
    const entry = (i: number): Entry => ({
      body: bodies[i] ?? {},
      extra: i === 1 ? { artifactType: SOCI_V2, annotations: second?.annotations } : {},
    });
    expect(first?.digest).toBe(bodyDigest(enabled));
    expect(await judge('soci', [entry(0), entry(1)])).toMatchObject({ outcome: 'accelerated', portable: true });
    expect(await judge('soci', [entry(1), entry(0)])).toMatchObject({
      outcome: 'variant-unrecognised',
      message: expect.stringContaining('put the image first'),
    });
  });

  test('a SOCI index without platform belongs to the image that it names', async () => {
    const { enabled, zone } = sociIndex('source');
    const named = (digest: string): object => ({
      artifactType: SOCI_V2,
      platform: undefined,
      annotations: { 'com.amazon.soci.image-manifest-digest': digest },
    });
    const children = (digest: string): Entry[] => [{ body: enabled }, { body: zone, extra: named(digest) }];
    expect(await judge('soci', children(bodyDigest(enabled)))).toMatchObject({ outcome: 'accelerated' });
    expect(await judge('soci', children(older))).toMatchObject({ outcome: 'variant-unrecognised' });
  });
});

describe('CPU variants and versions of Windows', () => {
  const V3 = 'linux/amd64/v3';
  const of = { more: { ...capable, platforms: [AMD] } };

  test.each<[string, Entry[], string]>([
    [
      'a fresh image for a newer CPU beside a stale one for all',
      [{ platform: V3, body: esgz() }, { body: esgz(older) }],
      'variant-stale',
    ],
    [
      'a stale image for a newer CPU beside a fresh one for all',
      [{ body: esgz() }, { platform: V3, body: esgz(older) }],
      'variant-stale',
    ],
    ['an image for a newer CPU alone', [{ platform: V3, body: esgz() }], 'platform-missing'],
    ['both fresh', [{ platform: V3, body: esgz() }, { body: esgz() }], 'accelerated'],
    [
      'endless variants',
      Array.from({ length: 50 }, (_, i) => ({ platform: `${AMD}${i === 0 ? '' : `/x${i}`}`, body: esgz() })),
      'platform-missing',
    ],
  ])('%s', async (_, children, outcome) => {
    expect(await judge('estargz', children, of)).toMatchObject({ outcome });
  });

  test.each([
    ['of one node architecture', 'linux/arm', ['linux/arm/v6', 'linux/arm/v7']],
    ['of one node architecture with the baseline last', AMD, [V3, AMD]],
  ])('each image of the source %s is compared', async (_, node, platforms) => {
    const bodies = platforms.map((platform) => plain(platform));
    const whole = indexBody(bodies.map((body, i) => ({ platform: platforms[i] ?? '', body })));
    const asked = { of: whole, sources: bodies, more: { ...capable, platforms: [node] } };
    const made = (stale: number): Entry[] =>
      bodies.map((body, i) => ({ platform: platforms[i] ?? '', body: esgz(i === stale ? older : bodyDigest(body)) }));
    expect(await judge('estargz', made(-1), asked)).toMatchObject({ outcome: 'accelerated' });
    expect(await judge('estargz', made(0), asked)).toMatchObject({ outcome: 'variant-stale' });
    expect(await judge('estargz', made(1), asked)).toMatchObject({ outcome: 'variant-stale' });
    expect(await judge('estargz', made(-1).slice(0, 1), asked)).toMatchObject({ outcome: 'platform-missing' });
  });

  test('images for several versions of Windows are told apart', async () => {
    const versions = ['10.0.17763.1', '10.0.20348.1'];
    const entry = (body: object, version = ''): Entry => ({
      platform: 'windows/amd64',
      body,
      extra: { platform: { os: 'windows', architecture: 'amd64', 'os.version': version } },
    });
    const bodies = versions.map((version) => plain(version));
    const whole = indexBody(bodies.map((body, i) => entry(body, versions[i])));
    const asked = { of: whole, sources: bodies, more: { ...capable, platforms: ['windows/amd64'] } };
    const zstd = (body: object, recorded = bodyDigest(body)): object =>
      image({ name: `z ${recorded}`, layers: [{ mediaType: ZSTD }], annotations: { [RECORD]: recorded } });
    const made = (stale: number): Entry[] =>
      bodies.map((body, i) => entry(zstd(body, i === stale ? older : undefined), versions[i]));
    expect(await judge('zstd', made(-1), asked)).toMatchObject({ outcome: 'accelerated' });
    expect(await judge('zstd', made(1), asked)).toMatchObject({ outcome: 'variant-stale' });
  });
});

describe('a source that does not tell its platform', () => {
  const children = [{ body: esgz() }, { platform: 'linux/arm64', body: esgz(older) }];

  test('may run on any node, so each image of the variant counts', async () => {
    expect(await judge('estargz', children, { of: single })).toMatchObject({ outcome: 'variant-stale' });
    expect(await judge('estargz', children.slice(0, 1), { of: single })).toMatchObject({ outcome: 'accelerated' });
  });

  test('is asked for its config where the variant has several', async () => {
    const variant = indexBody(children.map((child) => ({ platform: AMD, ...child })));
    const port = ground({ source: single, children: children.map(({ body }) => body), variant });
    port.setConfig(digestOf('config source'), AMD);
    expect(await climb(port, byTag('estargz'), capable)).toMatchObject({ outcome: 'accelerated' });
  });
});

test('an index of ten thousand platforms is sorted out at once', () => {
  const children = Array.from({ length: 10_000 }, (_, i) => ({ platform: `${AMD}/x${i}`, body: { i } }));
  const index = factOf(indexBody(children));
  const listed = Array.from({ length: 10_000 }, (_, i) => ({ platform: `${AMD}/y${i}` }));
  const started = performance.now();
  expect(choicesFor(index, { platform: `${AMD}/x0` }, listed)).toHaveLength(10);
  // Milliseconds even on a busy machine; comparing each with each is a hundred million comparisons.
  expect(performance.now() - started).toBeLessThan(5000);
});
