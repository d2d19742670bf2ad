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

export interface Image {
  /** Digest of the manifest. */
  digest: string;
  manifest: Buffer;
  mediaType: string;
  config: Blob;
  layers: Layer[];
  platform: Platform;
  /** Bytes that a node without any of its blobs fetches: manifest, config and layers. */
  sizeBytes: number;
}

export interface Platform {
  os: string;
  architecture: string;
}
