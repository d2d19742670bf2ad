import type { Readable } from 'node:stream';

/** A blob as a registry keeps it. `open` gives its bytes anew each time. */
export interface Blob {
  mediaType: string;
  digest: string;
  size: number;
  annotations?: Record<string, string>;
  open(): Readable;
}

export interface Layer extends Blob {
  /** Digest of the uncompressed tar. */
  diffId: string;
}

export interface Platform {
  os: string;
  architecture: string;
}

export interface Image {
  kind: 'manifest';
  /** Digest of the manifest. */
  digest: string;
  manifest: Buffer;
  mediaType: string;
  config: Blob;
  layers: Layer[];
  platform: Platform;
  /** Bytes that a node without any of its blobs fetches: manifest, config and layers. */
  sizeBytes: number;
  /** More fields of its descriptor in an index, such as artifactType and annotations. */
  descriptor?: Readonly<Record<string, unknown>>;
}

/** Several images under one digest, one a platform. */
export interface Index {
  kind: 'index';
  digest: string;
  manifest: Buffer;
  mediaType: string;
  images: Image[];
}

export const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  index: 'application/vnd.oci.image.index.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
  zstdLayer: 'application/vnd.oci.image.layer.v1.tar+zstd',
} as const;

/** Says of which manifest an accelerated image is the conversion; Harbinger trusts a variant only by this record. */
export const SOURCE_DIGEST = 'harbinger.dev/source-digest';
