import type { Format } from '../../api/kinds/acceleration-policy.js';
import type { ManifestFact } from '../registry-port.js';

/** Whether one platform manifest is an image of a format. */
export type Identification = { is: true; detail: string } | { is: false; detail: string };

/** What Harbinger has to know of a format; each stands in a file of its own. */
export interface ImageFormat {
  name: Format;
  /** Runs, without being lazy, on nodes whose snapshotter does not know the format. */
  portable: boolean;
  /** Positive identification from the manifest: a tag suffix alone proves nothing. `detail` says what was seen. */
  identify(manifest: ManifestFact): Identification;
}
