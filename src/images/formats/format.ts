import type { Format, VariantRule } from '../../api/kinds/acceleration-policy.js';
import type { Choice } from '../ladder/picks.js';
import type { Descriptor, ManifestFact, PlatformDescriptor } from '../registry-port.js';

export type DiscoverForm = keyof VariantRule['discover'];

/** What a variant has for one platform. */
export interface VariantImage {
  /** What plain nodes run, or all that there is. */
  manifest: ManifestFact;
  /** How the variant's index lists it; absent for a variant without index. */
  listed?: PlatformDescriptor;
  /** What stands beside it for the same platform: the Nydus image of a merged index, the SOCI index. */
  companion?: Descriptor;
}

/** Whether a variant is of a format. `detail` says what was seen. */
export type Identification =
  | {
      is: true;
      detail: string;
      /** Runs, without being lazy, on nodes whose snapshotter does not know the format. */
      portable: boolean;
    }
  | { is: false; detail: string };

/** What a format looks at of that which an index has for one platform. */
export interface Picked {
  image?: PlatformDescriptor;
  companion?: Descriptor;
}

/**
 * How a format is compared with its source where no record says what it was made from:
 * - `layers`: the very layers and config of the source, with something beside them,
 * - `listed`: each layer names the layer of the source that it reads,
 * - `contents`: other bytes that unpack to the same layers, if the converter keeps them; `always` if each converter does.
 */
export type Structure =
  | { kind: 'layers' }
  | { kind: 'listed'; of: (manifest: ManifestFact) => readonly string[] | undefined }
  | { kind: 'contents'; always: boolean };

/** What Harbinger has to know of a format; each stands in a file of its own. */
export interface ImageFormat {
  name: Format;
  /** Annotations of the manifest or its descriptor by which converters of the format record the source. */
  records: readonly string[];
  structure?: Structure;
  /** Whether the config of a variant is close enough to that of its source to be compared; `extraLayers` is how many more layers it may have. */
  traits?: { extraLayers: number };
  /** False for plain compressions: an image that has one is not accelerated in the sense that nothing better can be found. */
  lazy: boolean;
  /** What of a choice shows that it is of the format. That every image of the choice is proven does not depend on it. */
  pick(choice: Choice): Picked;
  /** Whether an image of the format reads layers that are not its own, which nodes look for in its repository; absent where none does. */
  borrows?: (manifest: ManifestFact) => boolean;
  /** Positive identification: a tag suffix alone proves nothing. */
  identify(image: VariantImage): Identification;
  /** For docs/formats.md. */
  docs: FormatDocs;
}

/** One row of the table in docs/formats.md. */
export interface FormatDocs {
  title: string;
  /** Ways by which variants of the format are usually found. */
  found: readonly DiscoverForm[];
  shownBy: string;
  record: string;
  portable: string;
}
