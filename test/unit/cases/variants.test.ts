import { afterEach, describe, expect, test } from '@jest/globals';
import type { ResolvedSource } from '../../../src/images/resolve.js';
import { resolveSource } from '../../../src/images/resolve.js';
import type { Descriptor, ReferrersFact } from '../../../src/images/registry-port.js';
import { findVariant } from '../../../src/images/ladder/variant.js';
import type { VariantAnswer } from '../../../src/images/ladder/variant.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { CachedRegistry, TTL_MS } from '../../../src/registry/cache.js';
import { MemoryRegistry, OCI, bodyDigest, digestOf, indexBody, manifestBody } from '../images/support.js';
import { RegistryDouble, TestClock, clientOf, closeClients, listed } from '../registry/support.js';

const NYDUS_ARTIFACT = 'application/vnd.nydus.image.manifest.v1+json';
const BOOTSTRAP = 'containerd.io/snapshot/nydus-bootstrap';
const SOURCE_DIGEST = 'harbinger.dev/source-digest';
const IMAGE = 'r.example/team/app:v1';
const AMD = 'linux/amd64';

async function resolved(registry: MemoryRegistry): Promise<ResolvedSource> {
  const source = await resolveSource(IMAGE, registry);
  if (!source.ok) throw new Error(source.message);
  return source;
}

/** A Nydus image for `source`: one blob and a bootstrap. */
function nydusBody(source: object): object {
  const blob = 'application/vnd.oci.image.layer.nydus.blob.v1';
  const layers = [
    { mediaType: blob, digest: digestOf('blob'), size: 900, annotations: { 'containerd.io/snapshot/nydus-blob': 'true' } },
    {
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest: digestOf('bootstrap'),
      size: 90,
      annotations: { [BOOTSTRAP]: 'true' },
    },
  ];
  return { ...manifestBody({ name: 'nydus', annotations: { [SOURCE_DIGEST]: bodyDigest(source) } }), layers };
}

describe('variants', () => {
  const source = manifestBody({ name: 'app' });
  const child = nydusBody(source);
  const plain = { platform: AMD, body: source };
  const byType = { platform: AMD, body: child, extra: { artifactType: NYDUS_ARTIFACT } };
  const byFeature = {
    platform: AMD,
    body: child,
    extra: { platform: { os: 'linux', architecture: 'amd64', 'os.features': ['nydus.remoteimage.v1'] } },
  };

  /** What the ladder says of `variant` where no node runs Nydus. */
  async function judge(variant: object): Promise<VariantAnswer> {
    const registry = new MemoryRegistry().set(IMAGE, source).set(`${IMAGE}-nydus`, variant);
    for (const body of [source, child]) registry.set(`r.example/team/app@${bodyDigest(body)}`, body);
    return findVariant({
      source: await resolved(registry),
      rules: [{ format: 'nydus', discover: { tagSuffix: '-nydus' } }],
      port: registry,
      obstacle: () => 'plain nodes',
    });
  }

  test('H-16 a merged index is known by either mark and only by one, and a Nydus entry that stands first is flagged', async () => {
    for (const marked of [byType, byFeature]) {
      const merged = indexBody([plain, marked]);
      const answer = await judge(merged);
      expect(answer).toMatchObject({ outcome: 'accelerated', format: 'nydus', digest: bodyDigest(merged) });
      expect(answer.evidence.some((s) => s.step === 'index order')).toBe(false);
    }
    expect(await judge(indexBody([plain]))).toMatchObject({ outcome: 'variant-unrecognised' });
    const first = await judge(indexBody([byType, plain]));
    // A runtime that takes the first match gets the Nydus image on plain nodes, so it is safe for capable nodes only.
    expect(first).toMatchObject({ outcome: 'node-incapable' });
    expect(first.evidence).toContainEqual(
      expect.objectContaining({ step: 'index order', detail: expect.stringContaining('stands first') }),
    );
  });

  test('H-17 a SOCI index of the first generation is nothing to write and is never reported as accelerated', async () => {
    const referrer = (artifactType: string): Descriptor => ({
      digest: digestOf(artifactType),
      mediaType: OCI,
      size: 1,
      annotations: {},
      artifactType,
    });
    class WithReferrers extends MemoryRegistry {
      override referrers(): Promise<ReferrersFact> {
        return Promise.resolve({ referrers: [referrer('application/vnd.amazon.soci.index.v1+json')], how: 'api', detail: '' });
      }
    }
    const ask = async (registry: MemoryRegistry): Promise<VariantAnswer> =>
      findVariant({
        source: await resolved(registry),
        rules: [
          { format: 'soci', discover: { referrers: true } },
          { format: 'soci', discover: { tagSuffix: '-soci' } },
        ],
        port: registry,
      });
    const old = new WithReferrers().set(IMAGE, source);
    const answer = await ask(old);
    expect(['no-candidate', 'variant-missing']).toContain(answer.outcome);
    expect(answer.evidence).toContainEqual(
      expect.objectContaining({ step: 'referrers', verdict: 'skip', detail: expect.stringMatching(/v1.*nothing to write/) }),
    );
    // Negative twin: the second generation, which nodes of today want, is found and written.
    const image = { ...manifestBody({ name: 'app', annotations: { 'com.amazon.soci.index-digest': bodyDigest(sociBody()) } }) };
    const converted = indexBody([
      { platform: AMD, body: image },
      {
        platform: AMD,
        body: sociBody(),
        extra: {
          artifactType: 'application/vnd.amazon.soci.index.v2+json',
          annotations: { 'com.amazon.soci.image-manifest-digest': bodyDigest(image) },
        },
      },
    ]);
    const renewed = new WithReferrers()
      .set(IMAGE, source)
      .set(`${IMAGE}-soci`, converted)
      .set(`r.example/team/app@${bodyDigest(image)}`, image);
    expect(await ask(renewed)).toMatchObject({ outcome: 'accelerated', format: 'soci', digest: bodyDigest(converted) });
  });
});

const sociBody = (): object => ({
  ...manifestBody({ name: 'soci', layers: 1 }),
  artifactType: 'application/vnd.amazon.soci.index.v2+json',
});

describe('a registry that answers for a tag what it does not have', () => {
  let double: RegistryDouble | undefined;
  afterEach(async () => {
    await closeClients();
    await double?.stop();
  });

  test('H-12 a variant whose digest is gone counts as absent, and is asked for once in a cache period', async () => {
    const source = manifestBody({ name: 'app' });
    const variant = manifestBody({ name: 'variant', marked: 2, annotations: { [SOURCE_DIGEST]: bodyDigest(source) } });
    const served = new Map([
      ['v1', source],
      [bodyDigest(source), source],
      ['v1-esgz', variant],
    ]);
    double = await RegistryDouble.start((_request, response, url) => {
      const body = served.get(url.pathname.split('/').at(-1) ?? '');
      if (body === undefined) return response.writeHead(404).end();
      return response.writeHead(200, { 'content-type': OCI }).end(JSON.stringify(body));
    });
    const [clock, { host }] = [new TestClock(), double];
    const port = new CachedRegistry(clientOf({ registries: [listed(host)], clock }), { clock, metrics: new Metrics() });
    const ask = async (): Promise<VariantAnswer> => {
      const found = await resolveSource(`${host}/team/app:v1`, port);
      if (!found.ok) throw new Error(found.message);
      return findVariant({ source: found, rules: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }], port });
    };
    const byDigest = (): number => double?.requests.filter((r) => r.path.endsWith(bodyDigest(variant))).length ?? 0;
    for (let i = 0; i < 50; i++)
      expect(await ask()).toMatchObject({ outcome: 'variant-missing', message: expect.stringContaining('digest') });
    expect(byDigest()).toBe(1);
    clock.advance(TTL_MS.notFound + 1);
    await ask();
    expect(byDigest()).toBe(2);
    // Negative twin: once the digest answers too, the variant is used.
    served.set(bodyDigest(variant), variant);
    clock.advance(TTL_MS.notFound + 1);
    expect(await ask()).toMatchObject({ outcome: 'accelerated', digest: bodyDigest(variant) });
  });
});
