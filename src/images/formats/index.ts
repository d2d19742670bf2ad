import type { Format } from '../../api/kinds/acceleration-policy.js';
import type { ManifestFact } from '../registry-port.js';
import { estargz } from './estargz.js';
import type { ImageFormat } from './format.js';

/** The formats that can be told apart. A format that a policy may name but that is not here is never written into a Pod. */
export const IMAGE_FORMATS: readonly ImageFormat[] = [estargz];

export function imageFormat(name: Format): ImageFormat | undefined {
  return IMAGE_FORMATS.find((format) => format.name === name);
}

/** The format that a platform manifest has already; undefined for a plain image. */
export function formatOf(manifest: ManifestFact): ImageFormat | undefined {
  return IMAGE_FORMATS.find((format) => format.identify(manifest).is);
}
