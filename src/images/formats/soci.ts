import { SOCI_V2 } from '../artifact-types.js';
import type { Descriptor } from '../registry-port.js';
import type { ImageFormat } from './format.js';

/** On the image: digest of its SOCI index. */
const INDEX_DIGEST = 'com.amazon.soci.index-digest';
/** On the SOCI index, where the OCI index lists it: digest of the image. */
const IMAGE_DIGEST = 'com.amazon.soci.image-manifest-digest';

/**
 * SOCI of the second generation: `soci convert` writes an index that holds the image, with nothing but an annotation added, and a SOCI index
 * for it. Layers and config stay those of the source. The first generation refers to the image and leaves it as it is: nothing to write.
 */
export const soci: ImageFormat = {
  name: 'soci',
  records: [],
  structure: { kind: 'layers' },
  lazy: true,
  pick({ plain: image, marked, unplaced }) {
    if (image === undefined) return {};
    const companion = marked.soci ?? unplaced.find((child) => child.annotations[IMAGE_DIGEST] === image.digest);
    return companion === undefined ? { image } : { image, companion };
  },
  identify({ manifest, listed, companion }) {
    const named = manifest.annotations[INDEX_DIGEST] ?? listed?.annotations[INDEX_DIGEST];
    if (companion === undefined) {
      // Deployed by the digest of the image alone; the snapshotter follows the annotation.
      if (listed === undefined && named !== undefined) return { is: true, detail: 'it names its SOCI index', portable: true };
      return { is: false, detail: `no child of its index has the artifact type ${SOCI_V2}` };
    }
    const broken = brokenLink(manifest.digest, named, companion);
    if (broken !== undefined) return { is: false, detail: broken };
    return { is: true, detail: 'a SOCI index (v2) stands beside the image', portable: true };
  },
  docs: {
    title: 'SOCI v2',
    found: ['tagSuffix', 'repositoryTemplate'],
    shownBy:
      'a sibling of the same platform (or of none) with artifact type `application/vnd.amazon.soci.index.v2+json`, linked by `com.amazon.soci.*` annotations',
    record: 'none; config and layer digests equal those of the source',
    portable: 'yes, pulled in full',
  },
};

function brokenLink(image: string, named: string | undefined, sociIndex: Descriptor): string | undefined {
  const back = sociIndex.annotations[IMAGE_DIGEST];
  if (named === undefined && back === undefined) return 'neither the image nor the SOCI index names the other';
  if (back !== undefined && back !== image) return 'the SOCI index is for another image';
  if (named !== undefined && named !== sociIndex.digest) return 'the image names another SOCI index than the one beside it';
  return undefined;
}
