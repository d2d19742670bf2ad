import type { Format } from '../../api/kinds/acceleration-policy.js';
import { choiceFor } from '../ladder/picks.js';
import type { Place } from '../ladder/picks.js';
import type { ManifestFact } from '../registry-port.js';
import { estargz } from './estargz.js';
import type { ImageFormat } from './format.js';
import { nydus } from './nydus.js';
import { overlaybd } from './overlaybd.js';
import { soci } from './soci.js';
import { zstd } from './zstd.js';
import { zstdchunked } from './zstdchunked.js';

/** Every format that a policy may name. Where an image could be two, the one that says more stands first. */
const BY_NAME: Readonly<Record<Format, ImageFormat>> = { nydus, overlaybd, soci, zstdchunked, estargz, zstd };
export const IMAGE_FORMATS: readonly ImageFormat[] = Object.values(BY_NAME);

export function imageFormat(name: Format): ImageFormat {
  return BY_NAME[name];
}

/** The format that an image is of for some platform; undefined for a plain image. `index` is the index it stands in, if any. */
export function formatOf(
  manifest: ManifestFact,
  index?: ManifestFact,
  place: Place = { platform: undefined },
): ImageFormat | undefined {
  // Indexes that hold an accelerated image beside the ordinary one show it in their list; nothing more has to be read.
  const choice = index === undefined ? undefined : choiceFor(index, place);
  return IMAGE_FORMATS.find(
    (format) => (choice !== undefined && format.pick(choice).companion !== undefined) || format.identify({ manifest }).is,
  );
}
