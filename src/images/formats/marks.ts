import { NYDUS_ARTIFACT, NYDUS_FEATURE, OVERLAYBD_ARTIFACTS, SOCI_V2 } from '../artifact-types.js';
import { isIndexType } from '../manifest.js';
import type { PlatformDescriptor } from '../registry-port.js';

/** What registries and tools put as artifact type on ordinary images: the media type of their config. */
const IMAGE_TYPES: ReadonlySet<string> = new Set([
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
]);

/** Marked children that a runtime can run. */
export type RunnableMark = 'nydus' | 'overlaybd';
/** What an index says of a child that is no ordinary image; `other` is anything that nothing here knows how to run. */
export type Mark = RunnableMark | 'soci' | 'other';

/** Whether an artifact type says no more than that something is an image. */
export function isImageType(artifactType: string | undefined): boolean {
  return artifactType === undefined || IMAGE_TYPES.has(artifactType);
}

/** How an index marks a child; undefined for an ordinary image. */
export function markOf({ artifactType = '', osFeatures, mediaType }: PlatformDescriptor): Mark | undefined {
  // Whatever else it claims: an index inside an index leads to images that were never looked at.
  if (isIndexType(mediaType)) return 'other';
  if (artifactType === NYDUS_ARTIFACT || osFeatures.includes(NYDUS_FEATURE)) return 'nydus';
  if (OVERLAYBD_ARTIFACTS.includes(artifactType)) return 'overlaybd';
  if (artifactType === SOCI_V2) return 'soci';
  return osFeatures.length === 0 && isImageType(artifactType === '' ? undefined : artifactType) ? undefined : 'other';
}

export function isRunnable(mark: Mark | undefined): mark is RunnableMark | undefined {
  return mark !== 'soci' && mark !== 'other';
}
