import type { Descriptor, ManifestFact } from '../registry-port.js';
import type { Choice } from '../ladder/picks.js';
import type { Identification, Picked } from './format.js';

/** Digest of the table of contents of a layer: eStargz, and zstd:chunked as stargz-snapshotter writes it. */
export const TOC_DIGEST = 'containerd.io/snapshot/stargz/toc.digest';

export function isZstd(layer: Descriptor): boolean {
  return layer.mediaType.endsWith('+zstd');
}

/** For formats that are ordinary images: what plain nodes run is what is looked at. */
export function pickPlain({ plain: image }: Choice): Picked {
  return image === undefined ? {} : { image };
}

/** Formats that mark each layer: one layer without the mark would be pulled in full, so a part is not enough. */
export function everyLayer(
  { layers }: ManifestFact,
  marked: (layer: Descriptor) => boolean,
  words: { all: string; none: string; are: string },
): Identification {
  const count = layers.filter(marked).length;
  if (layers.length === 0) return { is: false, detail: 'the manifest has no layers' };
  if (count === 0) return { is: false, detail: words.none };
  if (count < layers.length) {
    const detail = `only ${count} of ${layers.length} layers are ${words.are}, the others would be pulled in full; convert the whole image`;
    return { is: false, detail };
  }
  return { is: true, detail: `all ${layers.length} layers ${words.all}`, portable: true };
}
