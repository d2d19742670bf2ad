import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseManifest } from '../../../src/images/manifest.js';
import { SOCI_V2 } from './bodies.js';
import { DOCKER, OCI, OCI_INDEX, bodyDigest, digestOf, factOf, indexBody, manifestBody } from './support.js';

const D = digestOf('x');
const LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';

describe('a manifest', () => {
  test('is read with its layers, config and compressed size', () => {
    const fact = factOf(manifestBody({ name: 'a', layers: 3 }));
    expect(fact).toMatchObject({ kind: 'manifest', mediaType: OCI, sizeBytes: 3100, manifests: [] });
    expect(fact.layers).toHaveLength(3);
  });

  test.each([
    ['of Docker kind', { ...manifestBody({ name: 'a' }), mediaType: DOCKER }, '', DOCKER],
    [
      'that names no kind is what the header says',
      { ...manifestBody({ name: 'a' }), mediaType: undefined },
      `${DOCKER}; charset=utf-8`,
      DOCKER,
    ],
    [
      'that names no kind, with a generic header, is OCI',
      { ...manifestBody({ name: 'a' }), mediaType: undefined },
      'application/json',
      OCI,
    ],
    ['whose body and header differ is what the body says', manifestBody({ name: 'a' }), DOCKER, OCI],
  ])('%s', (_, body, header, mediaType) => {
    expect(parseManifest(JSON.stringify(body), D, header)).toMatchObject({ ok: true, fact: { mediaType, kind: 'manifest' } });
  });

  test('keeps its subject and artifact type', () => {
    const body = { ...manifestBody({ name: 'a', subject: D }), artifactType: 'application/x' };
    expect(factOf(body)).toMatchObject({ subject: { digest: D }, artifactType: 'application/x' });
  });

  test('keeps only annotations that are texts', () => {
    const body = { ...manifestBody({ name: 'a' }), annotations: { good: 'yes', bad: 1, worse: { a: 'b' } } };
    expect(factOf(body).annotations).toEqual({ good: 'yes' });
  });
});

describe('an index', () => {
  const child = manifestBody({ name: 'a' });

  test('lists its platforms in canonical form', () => {
    const fact = factOf(
      indexBody([
        { platform: 'linux/amd64', body: child },
        { platform: 'linux/arm64/v8', body: child },
        { platform: 'linux/arm/v6', body: child },
      ]),
    );
    expect(fact.manifests.map((m) => m.platform)).toEqual(['linux/amd64', 'linux/arm64', 'linux/arm/v6']);
    expect(fact).toMatchObject({ kind: 'index', sizeBytes: 0, layers: [] });
  });

  test.each([
    ['attestations', { platform: 'unknown/unknown', body: child }],
    ['children without platform', { body: child }],
    ['children without digest', { platform: 'linux/amd64', body: child, extra: { digest: 'sha256:short' } }],
    ['children without size', { platform: 'linux/amd64', body: child, extra: { size: -1 } }],
    ['platforms that are no words', { platform: 'linux/amd 64', body: child }],
    ['endless platforms', { platform: `linux/${'x'.repeat(5000)}`, body: child }],
  ])('%s are left out', (_, entry) => {
    const fact = factOf(indexBody([{ platform: 'linux/s390x', body: child }, entry]));
    expect(fact.manifests.map((m) => m.platform)).toEqual(['linux/s390x']);
  });

  test('indexes in indexes stay, as runtimes go into one that comes first', () => {
    const fact = factOf(indexBody([{ platform: 'linux/amd64', body: child, extra: { mediaType: OCI_INDEX } }]));
    expect(fact.manifests).toMatchObject([{ platform: 'linux/amd64', mediaType: OCI_INDEX }]);
  });

  test('SOCI indexes without platform are kept apart, other children without one are not', () => {
    const extra = { artifactType: SOCI_V2 };
    const fact = factOf(indexBody([{ platform: 'linux/amd64', body: child }, { body: child, extra }, { body: child }]));
    expect(fact.manifests).toHaveLength(1);
    expect(fact.unplaced).toMatchObject([extra]);
  });

  test('versions tell images of Windows apart, and mean nothing for other systems', () => {
    const of = (os: string): object => ({ platform: { os, architecture: 'amd64', 'os.version': '10.0.17763.1' } });
    const fact = factOf(indexBody(['windows', 'linux'].map((os) => ({ platform: `${os}/amd64`, body: child, extra: of(os) }))));
    expect(fact.manifests.map(({ osVersion }) => osVersion)).toEqual(['10.0.17763.1', undefined]);
  });

  test('children that need a feature or are artifacts stay, marked', () => {
    const fact = factOf(
      indexBody([
        {
          platform: 'linux/amd64',
          body: child,
          extra: { artifactType: 'application/x', platform: { os: 'linux', architecture: 'amd64', 'os.features': ['f', 1] } },
        },
      ]),
    );
    expect(fact.manifests[0]).toMatchObject({ artifactType: 'application/x', osFeatures: ['f'] });
  });

  test('of Docker kind is an index too', () => {
    expect(factOf({ ...indexBody([{ platform: 'linux/amd64', body: child }]), mediaType: LIST })).toMatchObject({
      kind: 'index',
      mediaType: LIST,
    });
  });
});

describe('what is no image is refused with a reason', () => {
  const layer = { mediaType: 'x', digest: D, size: 1 };
  test.each([
    ['not JSON', 'nonsense', 'not a JSON object'],
    ['a JSON list', '[]', 'not a JSON object'],
    ['null', 'null', 'not a JSON object'],
    ['a web page', '<!DOCTYPE html><html>', 'web page'],
    ['schema 1', JSON.stringify({ schemaVersion: 1, fsLayers: [] }), 'schema 1'],
    ['index and manifest at once', JSON.stringify({ manifests: [], layers: [], config: layer }), 'index and a manifest at once'],
    ['neither', JSON.stringify({ schemaVersion: 2 }), 'neither an image nor an index'],
    [
      'an artifact of another kind',
      JSON.stringify({ mediaType: 'application/vnd.x+json', layers: [], config: layer }),
      'application/vnd.x+json',
    ],
    ['an index that says it is a manifest', JSON.stringify({ mediaType: OCI, manifests: [] }), 'neither'],
    ['a layer without digest', JSON.stringify({ mediaType: OCI, config: layer, layers: [layer, { size: 1 }] }), 'layer 1'],
    ['a layer of negative size', JSON.stringify({ mediaType: OCI, config: layer, layers: [{ ...layer, size: -5 }] }), 'layer 0'],
    ['a layer that is no object', JSON.stringify({ mediaType: OCI, config: layer, layers: ['x'] }), 'layer 0'],
    ['no config', JSON.stringify({ mediaType: OCI, layers: [layer] }), 'config'],
  ])('%s', (_, text, reason) => {
    expect(parseManifest(text, D, '')).toEqual({ ok: false, problem: expect.stringContaining(reason) });
  });

  test('any JSON gives an answer and nothing is thrown', () => {
    const key = fc.constantFrom(
      'mediaType',
      'manifests',
      'layers',
      'config',
      'digest',
      'size',
      'platform',
      'annotations',
      'subject',
      'os',
      'architecture',
    );
    const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom<unknown>(OCI, OCI_INDEX, D, 1, -1, null, 'linux', true),
        fc.array(tie('tree')),
        fc.dictionary(key, tie('tree')),
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        expect(typeof parseManifest(JSON.stringify(value), D).ok).toBe('boolean');
      }),
      { numRuns: 2000 },
    );
  });
});

test('the digest is that of the bytes, not of the order of keys', () => {
  expect(bodyDigest({ a: 1, b: 2 })).not.toBe(bodyDigest({ b: 2, a: 1 }));
});
