import { describe, expect, test } from '@jest/globals';
import { RegistryError } from '../../../../src/images/registry-port.js';
import type { VariantQuestion } from '../../../../src/images/ladder/variant.js';
import {
  CHUNKED,
  HARBOR_SOURCE,
  chunkedImage,
  configBody,
  estargzImage,
  layerOf,
  mergedIndex,
  mergedPlain,
  nydusCache,
  nydusImage,
  overlaybdImage,
  plain,
  sociIndex,
  turboImage,
  zranImage,
  zstdImage,
} from '../bodies.js';
import { REPOSITORY, SOURCE, byTag, climb, ground } from './climb.js';
import type { Ground } from './climb.js';
import { bodyDigest, digestOf, indexBody } from '../support.js';

const single = plain('source');
const S = bodyDigest(single);
const amd = plain('amd');
const arm = plain('arm');
const index = indexBody([
  { platform: 'linux/amd64', body: amd },
  { platform: 'linux/arm64', body: arm },
  { body: plain('attestation') },
  { platform: 'unknown/unknown', body: plain('another attestation') },
]);
const capable: Partial<VariantQuestion> = { obstacle: () => undefined };
const incapable: Partial<VariantQuestion> = { obstacle: (format) => `node n3 does not run ${format}` };
const older = digestOf('older');
const MOVED = 'variant-stale';

describe('Nydus', () => {
  test.each([
    ['that records the manifest of the source', nydusImage('n', S), capable, 'accelerated'],
    ['of a tag that moved since', nydusImage('n', older), capable, MOVED],
    [
      'with the key that Harbor used before',
      nydusImage('n', undefined, { annotations: { [HARBOR_SOURCE]: S } }),
      capable,
      'accelerated',
    ],
    ['with that key for another source', nydusImage('n', undefined, { annotations: { [HARBOR_SOURCE]: older } }), capable, MOVED],
    ['with the source as OCI subject', nydusImage('n', undefined, { subject: S }), capable, 'accelerated'],
    ['that is a cache of the converter', nydusCache('c', S), capable, 'variant-unrecognised'],
    ['that is a plain image', plain('p'), capable, 'variant-unrecognised'],
    ['where a node cannot run it', nydusImage('n', S), incapable, 'node-incapable'],
    ['where nothing is known of nodes', nydusImage('n', S), {}, 'node-incapable'],
    ['that is stale where a node cannot run it either', nydusImage('n', older), incapable, MOVED],
    ['without any record', nydusImage('n'), capable, 'freshness-unknown'],
  ])('%s', async (_, variant, more, outcome) => {
    const answer = await climb(ground({ source: single, variant }), byTag('nydus'), more);
    expect(answer.outcome).toBe(outcome);
    if (answer.outcome === 'accelerated')
      expect(answer).toMatchObject({ image: `${REPOSITORY}@${bodyDigest(variant)}`, rung: 'record' });
  });

  test('the reason of the nodes is told in their words', async () => {
    const answer = await climb(ground({ source: single, variant: nydusImage('n', S) }), byTag('nydus'), incapable);
    expect(answer.message).toContain('node n3 does not run nydus');
  });
});

describe('a merged Nydus index', () => {
  const A = bodyDigest(amd);
  const R = bodyDigest(arm);
  const pairs = [
    { platform: 'linux/amd64', plain: amd, nydus: nydusImage('na', A) },
    { platform: 'linux/arm64', plain: arm, nydus: nydusImage('nr', R) },
  ];
  const modified = pairs.map((pair) => ({ ...pair, plain: mergedPlain(pair.platform, bodyDigest(pair.plain)) }));
  const groundOf = (children: typeof pairs, variant: object): Ground => ({
    source: index,
    children: [amd, arm, ...children.flatMap((c) => [c.plain, c.nydus])],
    variant,
  });

  test.each([
    ['marked by artifact type', pairs, 'artifactType' as const],
    ['marked by os.features', pairs, 'os.features' as const],
    ['whose ordinary images were changed by the merge', modified, 'artifactType' as const],
  ])('%s runs on plain nodes and is written as the index, never as its Nydus image', async (_, children, mark) => {
    const variant = mergedIndex(children, mark);
    const answer = await climb(ground(groundOf(children, variant)), byTag('nydus'));
    expect(answer).toMatchObject({
      outcome: 'accelerated',
      digest: bodyDigest(variant),
      image: `${REPOSITORY}@${bodyDigest(variant)}`,
    });
    expect(answer.evidence.map(({ step }) => step)).not.toContain('index order');
  });

  test('that lacks a platform on which the Pod can land is not taken; without such nodes it is', async () => {
    const variant = mergedIndex(pairs.slice(0, 1), 'artifactType');
    const port = (): ReturnType<typeof ground> => ground(groundOf(pairs, variant));
    expect(await climb(port(), byTag('nydus'))).toMatchObject({ outcome: 'platform-missing' });
    const both = { platforms: ['linux/amd64', 'linux/arm64'] };
    expect(await climb(port(), byTag('nydus'), both)).toMatchObject({ outcome: 'platform-missing' });
    expect(await climb(port(), byTag('nydus'), { platforms: ['linux/amd64'] })).toMatchObject({ outcome: 'accelerated' });
  });

  test('that lacks the Nydus image is a plain index', async () => {
    const variant = mergedIndex(
      pairs.map(({ platform, plain: ordinary }) => ({ platform, plain: ordinary })),
      'artifactType',
    );
    expect(await climb(ground(groundOf(pairs, variant)), byTag('nydus'), capable)).toMatchObject({
      outcome: 'variant-unrecognised',
    });
  });

  test('with the Nydus image first is recognised, flagged, and only for nodes that know Nydus', async () => {
    const variant = mergedIndex(pairs, 'artifactType', true);
    const answer = await climb(ground(groundOf(pairs, variant)), byTag('nydus'), capable);
    expect(answer.outcome).toBe('accelerated');
    expect(answer.evidence).toContainEqual(expect.objectContaining({ step: 'index order', verdict: 'unknown' }));
    expect(await climb(ground(groundOf(pairs, variant)), byTag('nydus'))).toMatchObject({ outcome: 'node-incapable' });
  });

  test.each([
    ['the Nydus image', 'the Nydus image: ', { ...pairs[0], nydus: nydusImage('na', older) }],
    ['the ordinary image', 'the ordinary image: ', { ...pairs[0], plain: mergedPlain('amd', older) }],
  ])('of which %s is of another build is stale: some node would run it', async (_, which, changed) => {
    const children = [changed as (typeof pairs)[number], ...pairs.slice(1)];
    const answer = await climb(ground(groundOf(children, mergedIndex(children, 'artifactType'))), byTag('nydus'));
    expect(answer).toMatchObject({ outcome: 'variant-stale', message: expect.stringContaining(which) });
  });

  test('whose marked child is no Nydus image is not one', async () => {
    const children = [{ ...pairs[0], nydus: nydusCache('c', A) }, ...pairs.slice(1)] as typeof pairs;
    const answer = await climb(ground(groundOf(children, mergedIndex(children, 'artifactType'))), byTag('nydus'));
    expect(answer).toMatchObject({ outcome: 'variant-unrecognised', message: expect.stringContaining('marks as Nydus') });
  });

  test.each(['artifactType', 'os.features'] as const)('as the source itself (%s) is left alone', async (mark) => {
    const source = mergedIndex(pairs, mark);
    const answer = await climb(ground({ source, children: pairs.flatMap((c) => [c.plain, c.nydus]) }), byTag('estargz'));
    expect(answer).toMatchObject({ outcome: 'already-accelerated', format: 'nydus' });
  });

  test('children without platform and attestations are no images and break nothing', async () => {
    const variant = indexBody([
      { body: plain('attestation') },
      { platform: 'linux/amd64', body: nydusImage('na', A) },
      { platform: 'unknown/unknown', body: plain('sbom') },
      { platform: 'linux/arm64', body: nydusImage('nr', R) },
    ]);
    expect(await climb(ground(groundOf(pairs, variant)), byTag('nydus'), capable)).toMatchObject({ outcome: 'accelerated' });
  });
});

test('an index of nothing but Nydus images is Nydus for capable nodes, and as the source it is accelerated already', async () => {
  const images = [nydusImage('na', bodyDigest(amd)), nydusImage('nr', bodyDigest(arm))];
  const extra = { artifactType: 'application/vnd.nydus.image.manifest.v1+json' };
  const only = indexBody(images.map((body, i) => ({ platform: i === 0 ? 'linux/amd64' : 'linux/arm64', body, extra })));
  const port = (): ReturnType<typeof ground> => ground({ source: index, children: [amd, arm, ...images], variant: only });
  expect(await climb(port(), byTag('nydus'), capable)).toMatchObject({ outcome: 'accelerated', digest: bodyDigest(only) });
  expect(await climb(port(), byTag('nydus'))).toMatchObject({ outcome: 'node-incapable' });
  expect(await climb(ground({ source: only, children: images }), byTag('estargz'))).toMatchObject({
    outcome: 'already-accelerated',
  });
});

describe('OverlayBD', () => {
  const layers = [layerOf('source', 0), layerOf('source', 1)];
  const configs = (port: ReturnType<typeof ground>, variant = configBody('a')): typeof port =>
    port.setConfig(digestOf('config source'), configBody('a')).setConfig(digestOf('config t'), variant);

  test.each([
    ['without a referrer has no record', overlaybdImage('t'), capable, 'freshness-unknown'],
    ['with a subject is taken where every node is capable', overlaybdImage('t', { subject: S }), capable, 'accelerated'],
    ['with a subject is left where one is not', overlaybdImage('t', { subject: S }), incapable, 'node-incapable'],
    ['with a subject of another build is stale', overlaybdImage('t', { subject: older }), capable, MOVED],
    ['TurboOCI over the layers of the source is taken', turboImage('t', layers), capable, 'accelerated'],
    ['TurboOCI behind a base layer too', turboImage('t', layers, { base: true }), capable, 'accelerated'],
    ['TurboOCI with one other target is stale', turboImage('t', [layers[0] ?? '', older]), capable, MOVED],
    ['TurboOCI with the targets in another order is stale', turboImage('t', layers.toReversed()), capable, MOVED],
    ['TurboOCI with a target too few is stale', turboImage('t', layers.slice(0, 1)), capable, MOVED],
    ['zran is judged alike, over the layers', zranImage('t', layers), capable, 'variant-unrecognised'],
  ])('%s', async (_, variant, more, outcome) => {
    expect(await climb(configs(ground({ source: single, variant })), byTag('overlaybd'), more)).toMatchObject({ outcome });
  });

  test.each([
    ['TurboOCI', byTag('overlaybd'), turboImage('t', layers)],
    ['zran', byTag('nydus'), zranImage('t', layers)],
  ])('%s over the same layers with another command is another program', async (_, rule, variant) => {
    const same = await climb(configs(ground({ source: single, variant })), rule, capable);
    expect(same).toMatchObject({ outcome: 'accelerated', rung: 'structure' });
    const other = configBody('a', {}, { Cmd: ['other'] });
    expect(await climb(configs(ground({ source: single, variant }), other), rule, capable)).toMatchObject({
      outcome: 'variant-stale',
      message: expect.stringContaining('command'),
    });
  });

  test("Alibaba's tags are recognised and left with the reason", async () => {
    const port = configs(ground({ source: single })).set(`${SOURCE}_accelerated`, overlaybdImage('t'));
    const rule = { format: 'overlaybd' as const, discover: { tagSuffix: '_accelerated' } };
    expect(await climb(port, rule, capable)).toMatchObject({
      outcome: 'freshness-unknown',
      message: expect.stringContaining("Alibaba's registry"),
    });
    const full = configs(ground({ source: single })).set(`${SOURCE}_containerd_accelerated`, plain('p'));
    expect(await climb(full, { ...rule, discover: { tagSuffix: '_containerd_accelerated' } }, capable)).toMatchObject({
      outcome: 'variant-unrecognised',
      message: expect.stringContaining("Alibaba's registry"),
    });
  });
});

describe('eStargz', () => {
  const port = (
    variant: object,
    theirs: object = configBody('a', { rootfs: { diff_ids: [older, older] } }),
  ): ReturnType<typeof ground> =>
    ground({ source: single, variant })
      .setConfig(digestOf('config source'), configBody('a'))
      .setConfig(digestOf('config e'), theirs);
  const probable = { freshness: 'Probable' as const };

  test.each([
    ['marked on all layers is probable', estargzImage('e'), probable, 'accelerated'],
    ['marked on all layers is not exact', estargzImage('e'), {}, 'freshness-unknown'],
    ['marked on some layers is a part', estargzImage('e', 1), probable, 'variant-unrecognised'],
    ['marked on none is not recognised', estargzImage('e', 0), probable, 'variant-unrecognised'],
  ])('%s', async (_, variant, more, outcome) => {
    expect(await climb(port(variant), byTag('estargz'), more)).toMatchObject({ outcome });
  });

  test('with the unpacked layers of the source (external tables) is exact', async () => {
    const answer = await climb(port(estargzImage('e'), configBody('a')), byTag('estargz'));
    expect(answer).toMatchObject({ outcome: 'accelerated', rung: 'structure' });
  });

  test('with external tables is told to be lazy by tag only', async () => {
    const pinned = await climb(port(estargzImage('e'), configBody('a')), byTag('estargz'));
    expect(pinned.evidence).toContainEqual(expect.objectContaining({ step: 'external tables', verdict: 'unknown' }));
    const tagged = await climb(port(estargzImage('e'), configBody('a')), byTag('estargz'), { output: 'Tag' });
    expect(tagged).toMatchObject({ outcome: 'accelerated', image: `${SOURCE}-x` });
    expect(tagged.evidence.map(({ step }) => step)).not.toContain('external tables');
  });
});

describe('zstd and zstd:chunked', () => {
  const same = digestOf('config source');

  test.each([
    [
      'zstd:chunked of containers/storage',
      byTag('zstdchunked'),
      chunkedImage('z', [CHUNKED.containers, CHUNKED.containers], { config: same }),
    ],
    [
      'zstd:chunked of stargz-snapshotter',
      byTag('zstdchunked'),
      chunkedImage('z', [CHUNKED.stargz, CHUNKED.stargz], { config: same }),
    ],
    ['zstd', byTag('zstd'), zstdImage('z', 2, { config: same })],
  ])('%s with the config of the source is the source, and no config is read', async (_, rule, variant) => {
    const port = ground({ source: single, variant });
    expect(await climb(port, rule)).toMatchObject({ outcome: 'accelerated', rung: 'structure' });
    expect(port.asked.filter((key) => key.startsWith('config'))).toEqual([]);
  });

  test('zstd of another build is stale, as converters keep what is inside the layers', async () => {
    const port = ground({ source: single, variant: zstdImage('z') })
      .setConfig(digestOf('config source'), configBody('a'))
      .setConfig(digestOf('config z'), configBody('b'));
    expect(await climb(port, byTag('zstd'))).toMatchObject({ outcome: 'variant-stale' });
  });

  test('as the source, zstd:chunked is accelerated already; plain zstd only bars its own rule', async () => {
    const chunked = chunkedImage('z', [CHUNKED.stargz, CHUNKED.stargz]);
    expect(await climb(ground({ source: chunked }), byTag('nydus'))).toMatchObject({ outcome: 'already-accelerated' });
    const source = zstdImage('z');
    const variant = nydusImage('n', bodyDigest(source));
    expect(await climb(ground({ source }), byTag('zstd'))).toMatchObject({ outcome: 'already-accelerated', format: 'zstd' });
    expect(await climb(ground({ source, variant }), [byTag('zstd'), byTag('nydus')], capable)).toMatchObject({
      outcome: 'accelerated',
      format: 'nydus',
    });
  });
});

describe('SOCI v2', () => {
  const source = indexBody([{ platform: 'linux/amd64', body: plain('source') }]);
  const made = sociIndex('source');

  test('with the config and layers of the source is the source', async () => {
    const port = ground({ source, children: [single, made.enabled, made.zone], variant: made.index });
    expect(await climb(port, byTag('soci'))).toMatchObject({
      outcome: 'accelerated',
      rung: 'structure',
      image: `${REPOSITORY}@${bodyDigest(made.index)}`,
    });
  });

  test.each([
    ['with another config', sociIndex('source', { config: older })],
    ['with other layers', sociIndex('another build', { config: digestOf('config source') })],
  ])('%s is stale', async (_, other) => {
    const port = ground({ source, children: [single, other.enabled, other.zone], variant: other.index });
    expect(await climb(port, byTag('soci'))).toMatchObject({ outcome: 'variant-stale' });
  });

  test('as the source itself is left alone, and its SOCI index is no platform', async () => {
    const port = ground({ source: made.index, children: [made.enabled, made.zone] });
    expect(await climb(port, byTag('nydus'))).toMatchObject({ outcome: 'already-accelerated', format: 'soci' });
  });
});

describe('a form that reads layers of the source', () => {
  const layers = [layerOf('source', 0), layerOf('source', 1)];
  const elsewhere = (format: 'nydus' | 'overlaybd') => ({ format, discover: { repositoryTemplate: 'lazy/{repository}' } });

  test.each([
    ['zran', 'nydus' as const, zranImage('t', layers, { subject: S })],
    ['zran in part', 'nydus' as const, zranImage('t', layers.slice(0, 1), { subject: S })],
    ['TurboOCI', 'overlaybd' as const, turboImage('t', layers, { subject: S })],
  ])('%s has to stand in the repository of the source, where nodes look for them', async (_, format, variant) => {
    const apart = ground({ source: single }).set('r.example.com/lazy/a/b:1', variant);
    expect(await climb(apart, elsewhere(format), capable)).toMatchObject({
      outcome: 'variant-unrecognised',
      message: expect.stringContaining('its own repository lazy/a/b, not in a/b'),
    });
    expect(await climb(ground({ source: single, variant }), byTag(format), capable)).toMatchObject({ outcome: 'accelerated' });
  });

  test.each([
    ['Nydus', 'nydus' as const, nydusImage('n', S)],
    ['OverlayBD', 'overlaybd' as const, overlaybdImage('o', { subject: S })],
  ])('%s with data of its own may stand elsewhere', async (_, format, variant) => {
    const apart = ground({ source: single }).set('r.example.com/lazy/a/b:1', variant);
    expect(await climb(apart, elsewhere(format), capable)).toMatchObject({ outcome: 'accelerated', portable: false });
  });
});

describe('a variant that not everyone may read', () => {
  const variant = nydusImage('n', S);
  const reasons: Partial<VariantQuestion> = {
    ...capable,
    privateObstacle: (format) => `snapshotters have no credentials for ${format}`,
  };
  const hidden = (error: RegistryError, body: object = variant): ReturnType<typeof ground> => {
    const port = ground({ source: single, variant: body });
    const manifest = port.manifest.bind(port);
    port.manifest = (reference, options) => (options?.anonymous === true ? Promise.reject(error) : manifest(reference, options));
    return port;
  };
  const refusal = (outcome: RegistryError['outcome']): RegistryError =>
    new RegistryError('no', { outcome, host: 'r.example.com' });

  test.each([
    ['denied to others', refusal('auth-denied'), reasons, 'node-incapable', 'no credentials for nydus'],
    ['told to others to be absent', refusal('variant-missing'), reasons, 'node-incapable', 'no credentials for nydus'],
    ['denied, and nothing is known of nodes', refusal('auth-denied'), capable, 'node-incapable', 'not known'],
    ['not known to be readable', refusal('registry-error'), reasons, 'registry-error', 'no'],
  ])('%s is left', async (_, error, ...[more, outcome, message]) => {
    const answer = await climb(hidden(error), byTag('nydus'), more);
    expect(answer).toMatchObject({ outcome, message: expect.stringContaining(message) });
  });

  test('is taken where the snapshotters have credentials, without asking', async () => {
    const answer = await climb(hidden(refusal('auth-denied')), byTag('nydus'), { ...capable, privateObstacle: () => undefined });
    expect(answer).toMatchObject({ outcome: 'accelerated', portable: false });
  });

  test('matters only where its format is not portable', async () => {
    const portable = estargzImage('e', 2, { subject: S });
    expect(await climb(hidden(refusal('auth-denied'), portable), byTag('estargz'), reasons)).toMatchObject({
      outcome: 'accelerated',
      portable: true,
    });
    expect(await climb(ground({ source: single, variant }), byTag('nydus'), reasons)).toMatchObject({ outcome: 'accelerated' });
  });
});

test('an image named by digest alone never leads to latest and a suffix', async () => {
  const port = ground({ source: single }).set(`${REPOSITORY}:latest-x`, nydusImage('n', S));
  const answer = await climb(port, byTag('nydus'), { ...capable, image: `${REPOSITORY}@${S}` });
  expect(answer).toMatchObject({ outcome: 'no-candidate' });
  expect(port.asked).toEqual([]);
});

test('a tag that would pass 128 characters is no candidate', async () => {
  const port = ground({ source: single }).set(`${REPOSITORY}:${'t'.repeat(127)}`, single);
  const answer = await climb(port, byTag('nydus'), { ...capable, image: `${REPOSITORY}:${'t'.repeat(127)}` });
  expect(answer).toMatchObject({ outcome: 'no-candidate', message: expect.stringContaining('longer than a tag') });
});
