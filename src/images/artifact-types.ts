/** Artifact types and features by which indexes and referrers mark what is no ordinary image. */

/** Both marks of the Nydus child of a merged index: of acceld since v0.2.19, and of older ones, which one registry refuses. */
export const NYDUS_ARTIFACT = 'application/vnd.nydus.image.manifest.v1+json';
export const NYDUS_FEATURE = 'nydus.remoteimage.v1';
/** Set on manifests and indexes by `convertor --referrer`. */
export const OVERLAYBD_ARTIFACTS = [
  'application/vnd.containerd.overlaybd.native.v1+json',
  'application/vnd.containerd.overlaybd.turbo.v1+json',
];
export const SOCI_V1 = 'application/vnd.amazon.soci.index.v1+json';
export const SOCI_V2 = 'application/vnd.amazon.soci.index.v2+json';
