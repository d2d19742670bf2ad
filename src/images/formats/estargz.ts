import { isOci } from '../manifest.js';
import type { ImageFormat } from './format.js';
import { TOC_DIGEST, everyLayer, isZstd, pickPlain } from './layers.js';

/** Tag suffix of the image that holds external tables of contents; stargz-snapshotter looks for them there and nowhere else. */
export const TOC_IMAGE_SUFFIX = '-esgztoc';
/** On each layer of that image: the layer that it is about. */
export const TOC_LAYER = 'containerd.io/snapshot/stargz/layer.digest';

/**
 * eStargz, with its table of contents inside the layer or in a second image. Media types are those of ordinary gzip layers, so any node
 * runs it. Nothing marks the manifest or the config, and conversion to Docker media types drops the marks of the layers.
 */
export const estargz: ImageFormat = {
  name: 'estargz',
  records: [],
  structure: { kind: 'contents', always: false },
  traits: { extraLayers: 0 },
  lazy: true,
  pick: pickPlain,
  identify({ manifest }) {
    if (manifest.layers.some((layer) => layer.annotations[TOC_LAYER] !== undefined))
      return { is: false, detail: 'it holds tables of contents for another image, which cannot be run' };
    if (manifest.layers.length > 0 && !isOci(manifest.mediaType))
      return { is: false, detail: 'Docker media types drop the marks of eStargz; convert to OCI media types' };
    return everyLayer(manifest, (layer) => layer.annotations[TOC_DIGEST] !== undefined && !isZstd(layer), {
      all: 'have a table of contents',
      none: `no layer has the annotation ${TOC_DIGEST}`,
      are: 'eStargz',
    });
  },
  docs: {
    title: 'eStargz',
    found: ['tagSuffix', 'repositoryTemplate'],
    shownBy: 'annotation `containerd.io/snapshot/stargz/toc.digest` on **every** layer, OCI media types',
    record: 'none; external TOC: unpacked layers and config equal those of the source',
    portable: 'yes, pulled in full',
  },
};
