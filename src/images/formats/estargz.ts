import { isOci } from '../manifest.js';
import type { ImageFormat } from './format.js';

/** The only mark of eStargz: digest of the table of contents, on every layer. Nothing marks the manifest or the config. */
const TOC_DIGEST = 'containerd.io/snapshot/stargz/toc.digest';
/** zstd:chunked layers carry the same annotation; the media type tells them apart. */
const ZSTD_SUFFIX = '+zstd';

/**
 * eStargz with its table of contents inside the layer. Media types are those of ordinary gzip layers, so any node runs it.
 * One unmarked layer makes a node pull that layer in full, and conversion to Docker media types drops the marks.
 */
export const estargz: ImageFormat = {
  name: 'estargz',
  portable: true,
  identify(manifest) {
    const { layers, mediaType } = manifest;
    const marked = layers.filter(
      (layer) => layer.annotations[TOC_DIGEST] !== undefined && !layer.mediaType.endsWith(ZSTD_SUFFIX),
    ).length;
    if (layers.length === 0) return { is: false, detail: 'the manifest has no layers' };
    if (!isOci(mediaType))
      return { is: false, detail: 'Docker media types drop the marks of eStargz; convert to OCI media types' };
    if (marked === 0) return { is: false, detail: `no layer has the annotation ${TOC_DIGEST}` };
    if (marked < layers.length)
      return {
        is: false,
        detail: `only ${marked} of ${layers.length} layers are eStargz, the others would be pulled in full; convert the whole image`,
      };
    return { is: true, detail: `all ${layers.length} layers have a table of contents` };
  },
};
