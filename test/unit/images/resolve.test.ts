import { describe, expect, test } from '@jest/globals';
import { RegistryError } from '../../../src/images/registry-port.js';
import { resolveSource } from '../../../src/images/resolve.js';
import { DOCKER, MemoryRegistry, bodyDigest, digestOf, indexBody, manifestBody } from './support.js';

const IMAGE = 'r.example.com/a/b:1';
const amd = manifestBody({ name: 'amd', layers: 3 });
const arm = manifestBody({ name: 'arm', layers: 5 });
const index = indexBody([
  { platform: 'linux/amd64', body: amd },
  { platform: 'unknown/unknown', body: manifestBody({ name: 'attestation' }) },
  { platform: 'linux/arm64/v8', body: arm },
]);

function registry(): MemoryRegistry {
  return new MemoryRegistry().set(IMAGE, index).set('r.example.com/a/b:amd', amd).set('r.example.com/a/b:arm', arm);
}

const refused = (details: Partial<ConstructorParameters<typeof RegistryError>[1]>): RegistryError =>
  new RegistryError('r.example.com said no', { outcome: 'registry-error', host: 'r.example.com', ...details });

describe('an index', () => {
  test('is resolved for the platforms of the nodes; the size is that of the largest', async () => {
    const found = await resolveSource(IMAGE, registry(), { platforms: ['linux/amd64', 'linux/arm64'] });
    expect(found).toMatchObject({ ok: true, digest: bodyDigest(index), sizeBytes: 5100 });
    expect(found.ok && found.platforms.map((p) => [p.platform, p.digest, p.manifest?.layers.length])).toEqual([
      ['linux/amd64', bodyDigest(amd), 3],
      ['linux/arm64', bodyDigest(arm), 5],
    ]);
  });

  test('is resolved for one platform without reading the others', async () => {
    const port = registry();
    const found = await resolveSource(IMAGE, port, { platforms: ['linux/arm64'] });
    expect(found).toMatchObject({ ok: true, sizeBytes: 5100, platforms: [{ platform: 'linux/arm64' }] });
    expect(port.asked).toEqual([IMAGE, `r.example.com/a/b@${bodyDigest(arm)}`]);
  });

  test('has to cover what it has of the wanted platforms where one is enough', async () => {
    const found = await resolveSource(IMAGE, registry(), { platforms: ['linux/arm64', 'linux/s390x'], onePlatform: true });
    expect(found).toMatchObject({ ok: true, platforms: [{ platform: 'linux/arm64' }] });
  });

  test('without wanted platforms keeps all of them and measures the first', async () => {
    const port = registry();
    expect(await resolveSource(IMAGE, port)).toMatchObject({
      ok: true,
      sizeBytes: 3100,
      platforms: [{ platform: 'linux/amd64' }, { platform: 'linux/arm64' }],
    });
    expect(port.asked).toHaveLength(2);
  });

  test('that lacks a platform says which it has and which it lacks', async () => {
    expect(await resolveSource(IMAGE, registry(), { platforms: ['linux/amd64', 'linux/s390x'] })).toEqual({
      ok: false,
      outcome: 'platform-missing',
      reason: 'PlatformMissing',
      message: expect.stringMatching(/has images for linux\/amd64, linux\/arm64 but not for linux\/s390x; build/),
    });
  });

  test('of nothing but attestations has no image for any platform', async () => {
    const empty = indexBody([{ platform: 'unknown/unknown', body: amd }]);
    const port = new MemoryRegistry().set(IMAGE, empty);
    expect(await resolveSource(IMAGE, port)).toMatchObject({
      ok: false,
      outcome: 'platform-missing',
      message: expect.stringContaining('no image for any platform'),
    });
  });

  test('whose child is gone is an absent image', async () => {
    const port = new MemoryRegistry().set(IMAGE, index);
    expect(await resolveSource(IMAGE, port)).toMatchObject({ ok: false, reason: 'ImageNotFound' });
  });

  test('takes the ordinary child where an accelerated one stands beside it', async () => {
    const merged = indexBody([
      { platform: 'linux/amd64', body: arm, extra: { artifactType: 'application/vnd.nydus.image.manifest.v1+json' } },
      {
        platform: 'linux/amd64',
        body: arm,
        extra: { platform: { os: 'linux', architecture: 'amd64', 'os.features': ['nydus.remoteimage.v1'] } },
      },
      { platform: 'linux/amd64', body: amd },
    ]);
    expect(await resolveSource(IMAGE, registry().set(IMAGE, merged), { platforms: ['linux/amd64'] })).toMatchObject({
      ok: true,
      platforms: [{ digest: bodyDigest(amd) }],
    });
  });
});

describe('a manifest without index', () => {
  const image = 'r.example.com/a/b:amd';
  const config = digestOf('config amd');

  test('says its platform in its config', async () => {
    const port = registry().setConfig(config, 'linux/amd64');
    expect(await resolveSource(image, port, { platforms: ['linux/amd64'] })).toMatchObject({
      ok: true,
      sizeBytes: 3100,
      platforms: [{ platform: 'linux/amd64' }],
    });
  });

  test('of another platform is platform-missing', async () => {
    const port = registry().setConfig(config, 'linux/arm64');
    expect(await resolveSource(image, port, { platforms: ['linux/amd64'] })).toMatchObject({
      ok: false,
      outcome: 'platform-missing',
      message: expect.stringContaining('has images for linux/arm64'),
    });
  });

  test('is enough for one platform of several where that is asked, and not for none of them', async () => {
    const port = registry().setConfig(config, 'linux/amd64');
    const onePlatform = true;
    const both = ['linux/amd64', 'linux/arm64'];
    expect(await resolveSource(image, port, { platforms: both })).toMatchObject({ outcome: 'platform-missing' });
    expect(await resolveSource(image, port, { platforms: both, onePlatform })).toMatchObject({
      ok: true,
      platforms: [{ platform: 'linux/amd64' }],
    });
    expect(await resolveSource(image, port, { platforms: ['linux/arm64'], onePlatform })).toMatchObject({
      outcome: 'platform-missing',
    });
  });

  test('whose config is out of reach is taken as it is', async () => {
    expect(await resolveSource(image, registry(), { platforms: ['linux/amd64'] })).toMatchObject({
      ok: true,
      platforms: [{ platform: undefined }],
    });
  });

  test('is not asked for its config where platforms do not matter', async () => {
    const port = registry();
    await resolveSource(image, port);
    expect(port.asked).toEqual([image]);
  });

  test('of Docker kind is an image like any other', async () => {
    const port = new MemoryRegistry().set(IMAGE, manifestBody({ name: 'd', mediaType: DOCKER }));
    expect(await resolveSource(IMAGE, port)).toMatchObject({ ok: true, sizeBytes: 2100 });
  });
});

describe('what cannot be resolved has an outcome, a reason and a message', () => {
  test.each([
    [
      'an absent image',
      refused({ outcome: 'variant-missing', status: 404 }),
      { outcome: 'registry-error', reason: 'ImageNotFound' },
    ],
    ['a denied image', refused({ outcome: 'auth-denied', status: 401 }), { outcome: 'auth-denied', reason: 'AuthDenied' }],
    [
      'a registry that limits',
      refused({ status: 429, retryAfterMs: 7000 }),
      { outcome: 'registry-error', reason: 'RegistryError', retryAfterMs: 7000 },
    ],
    ['a registry that is left alone', refused({ outcome: 'circuit-open' }), { outcome: 'circuit-open', reason: 'RegistryError' }],
    ['a caller that gave up', refused({ outcome: 'budget-exceeded' }), { outcome: 'budget-exceeded', reason: 'RegistryError' }],
    [
      'an abort',
      Object.assign(new Error('r.example.com said no'), { name: 'AbortError' }),
      { outcome: 'budget-exceeded', reason: 'RegistryError' },
    ],
    ['anything else', new Error('r.example.com said no'), { outcome: 'registry-error', reason: 'RegistryError' }],
  ])('%s', async (_, error, expected) => {
    const port = new MemoryRegistry().set(IMAGE, error);
    expect(await resolveSource(IMAGE, port)).toEqual({ ok: false, message: 'r.example.com said no', ...expected });
  });

  test('a text that is no image, without asking any registry', async () => {
    const port = registry();
    expect(await resolveSource('A b', port)).toEqual({
      ok: false,
      outcome: 'unparsable',
      reason: 'Unparsable',
      message: expect.stringContaining('cannot be parsed'),
    });
    expect(port.asked).toEqual([]);
  });
});

test('credential, signal and freshness reach the registry; only the tag is asked anew', async () => {
  const port = registry();
  const { signal } = new AbortController();
  const credential = { username: 'u', password: 'p' };
  await resolveSource(IMAGE, port, { credential, signal, fresh: true, platforms: ['linux/amd64'] });
  expect(port.options).toEqual([
    { credential, signal, fresh: true },
    { credential, signal },
  ]);
});
