import { runsOn } from './platform.js';
import type { ManifestFact, PlatformDescriptor } from './registry-port.js';

/** What registries and tools put as artifact type on ordinary images: the media type of their config. */
const IMAGE_TYPES: ReadonlySet<string> = new Set([
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
]);

/** Whether an artifact type says no more than that something is an image. */
export function isImageType(artifactType: string | undefined): boolean {
  return artifactType === undefined || IMAGE_TYPES.has(artifactType);
}

/** The children that an ordinary runtime picks from: not those that need a feature or are another kind of artifact. */
export function plainChildren(fact: ManifestFact): readonly PlatformDescriptor[] {
  return fact.manifests.filter((child) => isImageType(child.artifactType) && child.osFeatures.length === 0);
}

/** The first child for a platform, as runtimes choose; the first of all where the platform is not known. */
export function childFor(children: readonly PlatformDescriptor[], platform: string | undefined): PlatformDescriptor | undefined {
  return children.find((child) => platform === undefined || runsOn(child.platform, platform));
}
