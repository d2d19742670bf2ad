import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { tarEnd, tarHeader, tarPadding } from './tar.js';
import type { Blob, Image } from './types.js';

/** Writes an OCI layout archive that `ctr images import` takes; `name` is what the image is called there. */
export async function writeArchive(image: Image, name: string, path: string): Promise<void> {
  await pipeline(Readable.from(archive(image, name)), createWriteStream(path));
}

async function* archive(image: Image, name: string): AsyncGenerator<Buffer> {
  const manifest = {
    mediaType: image.mediaType,
    digest: image.digest,
    size: image.manifest.length,
    annotations: { 'io.containerd.image.name': name },
  };
  yield* member('oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}'));
  yield* member('index.json', Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [manifest] })));
  yield* member(blobName(image.digest), image.manifest);
  for (const blob of [image.config, ...image.layers]) yield* blobMember(blob);
  yield tarEnd;
}

function* member(name: string, data: Buffer): Generator<Buffer> {
  yield tarHeader({ name, type: 'file', content: { size: data.length, chunks: () => [data] } });
  yield data;
  yield tarPadding(data.length);
}

async function* blobMember(blob: Blob): AsyncGenerator<Buffer> {
  yield tarHeader({ name: blobName(blob.digest), type: 'file', content: { size: blob.size, chunks: () => [] } });
  yield* blob.open() as AsyncIterable<Buffer>;
  yield tarPadding(blob.size);
}

function blobName(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`;
}
