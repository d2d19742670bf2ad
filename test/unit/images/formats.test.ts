import { describe, expect, test } from '@jest/globals';
import type { Format } from '../../../src/api/kinds/acceleration-policy.js';
import { FORMATS } from '../../../src/api/kinds/acceleration-policy.js';
import { IMAGE_FORMATS, formatOf, imageFormat } from '../../../src/images/formats/index.js';
import { choiceFor } from '../../../src/images/ladder/picks.js';
import {
  CHUNKED,
  FASTOCI,
  TOC_LAYER,
  chunkedImage,
  estargzImage,
  image,
  layerOf,
  nydusCache,
  nydusImage,
  nydusifyCache,
  overlaybdImage,
  plain,
  sociIndex,
  turboImage,
  zranImage,
  zstdImage,
} from './bodies.js';
import { DOCKER, digestOf, factOf } from './support.js';

const S = digestOf('source');
const refs = [layerOf('source', 0), layerOf('source', 1)];

test('every format that a policy may name is known', () => {
  expect(IMAGE_FORMATS.map(({ name }) => name).toSorted()).toEqual([...FORMATS].toSorted());
});

describe('a manifest is recognised by what it holds', () => {
  test.each<[string, Format, object, boolean]>([
    ['Nydus: blobs and a bootstrap', 'nydus', nydusImage('n', S), false],
    ['Nydus without a record is Nydus too', 'nydus', nydusImage('n'), false],
    ['zran: blobs that read layers of the source', 'nydus', zranImage('z', refs), false],
    ['eStargz: a table of contents on every layer', 'estargz', estargzImage('e'), true],
    ['zstd:chunked of containers/storage', 'zstdchunked', chunkedImage('c', [CHUNKED.containers, CHUNKED.containers]), true],
    ['zstd:chunked of stargz-snapshotter', 'zstdchunked', chunkedImage('c', [CHUNKED.stargz, CHUNKED.stargz]), true],
    ['zstd:chunked of both kinds', 'zstdchunked', chunkedImage('c', [CHUNKED.stargz, CHUNKED.containers]), true],
    ['zstd', 'zstd', zstdImage('p'), true],
    ['a SOCI-enabled image by its own digest', 'soci', sociIndex('source').enabled, true],
    ['OverlayBD', 'overlaybd', overlaybdImage('o'), false],
    ['TurboOCI', 'overlaybd', turboImage('t', refs), false],
    ['TurboOCI over a base layer', 'overlaybd', turboImage('t', refs, { base: true }), false],
    ['FastOCI, its name of old', 'overlaybd', turboImage('t', refs, { key: FASTOCI }), false],
  ])('%s', (_, name, body, portable) => {
    expect(imageFormat(name).identify({ manifest: factOf(body) })).toMatchObject({ is: true, portable });
    expect(formatOf(factOf(body))?.name).toBe(name);
  });
});

describe('what a format is not', () => {
  test.each<[string, Format, object, string]>([
    ['a plain image is no Nydus', 'nydus', plain('p'), 'no annotation'],
    ['a cache tag of acceld is no image, whatever source it records', 'nydus', nydusCache('c', S), 'cache of a converter'],
    ['a build cache of nydusify is none', 'nydus', nydusifyCache('c'), 'cache of a converter'],
    [
      'a manifest that says it is a cache is none',
      'nydus',
      nydusImage('n', undefined, { annotations: { 'containerd.io/snapshot/nydus-cache': 'v1' } }),
      'cache of a converter',
    ],
    [
      'ordinary layers below a bootstrap are none',
      'nydus',
      image({ name: 'x', layers: [{}, { annotations: { 'containerd.io/snapshot/nydus-bootstrap': 'true' } }] }),
      'layer 0 is no Nydus blob',
    ],
    ['no layers are no Nydus', 'nydus', image({ name: 'x', layers: [] }), 'no layers'],
    ['some layers with a table of contents are not eStargz', 'estargz', estargzImage('e', 1), 'only 1 of 2 layers'],
    ['no layer with one is not', 'estargz', plain('p'), 'no layer has'],
    ['Docker media types drop what marks eStargz', 'estargz', estargzImage('e', 0, { mediaType: DOCKER }), 'Docker media types'],
    [
      'the image of external tables is none itself',
      'estargz',
      image({ name: 't', layers: [{ annotations: { [TOC_LAYER]: S } }] }),
      'for another image',
    ],
    ['zstd:chunked is no eStargz', 'estargz', chunkedImage('c', [CHUNKED.stargz, CHUNKED.stargz]), 'no layer has'],
    ['some chunked layers are not zstd:chunked', 'zstdchunked', chunkedImage('c', [CHUNKED.stargz, undefined]), 'only 1 of 2'],
    ['plain zstd is not', 'zstdchunked', zstdImage('p'), 'no layer is zstd with'],
    ['some zstd layers are not zstd', 'zstd', zstdImage('p', 1), 'only 1 of 2'],
    ['gzip is not', 'zstd', plain('p'), 'no layer is zstd'],
    ['an image without SOCI index is no SOCI', 'soci', plain('p'), 'no child of its index'],
    ['an ordinary image is no OverlayBD', 'overlaybd', plain('p'), 'no layer has'],
    ['some OverlayBD layers are not', 'overlaybd', overlaybdImage('o', { marked: 1 }), 'only 1 of 2'],
    ['no layers are no OverlayBD', 'overlaybd', image({ name: 'x', layers: [] }), 'no layers'],
  ])('%s', (_, name, body, why) => {
    expect(imageFormat(name).identify({ manifest: factOf(body) })).toEqual({ is: false, detail: expect.stringContaining(why) });
  });

  test('a plain image is of no format', () => {
    expect(formatOf(factOf(plain('p')))).toBeUndefined();
  });

  test('a SOCI index that neither names nor is named by the image is not its own', () => {
    const { index, enabled } = sociIndex('source', { link: false });
    const choice = choiceFor(factOf(index), { platform: 'linux/amd64' });
    const { image: listed, companion } = choice === undefined ? {} : imageFormat('soci').pick(choice);
    if (listed === undefined || companion === undefined) throw new Error('the index has both');
    const found = imageFormat('soci').identify({
      manifest: factOf(enabled),
      listed,
      companion,
    });
    expect(found).toEqual({ is: false, detail: expect.stringContaining('neither') });
  });
});
