import { Readable } from 'node:stream';
import { sha256 } from './content.js';
import { mediaTypes, type Blob, type Image, type Index, type Layer, type Platform } from './types.js';

export interface ImageOptions {
  layers: readonly Layer[];
  entrypoint?: readonly string[];
  cmd?: readonly string[];
  env?: readonly string[];
  user?: string;
  workingDir?: string;
  /** Default linux/amd64. */
  platform?: Platform;
  /** Manifest annotations. */
  annotations?: Readonly<Record<string, string>>;
  /** Makes the image a referrer of another manifest. */
  subject?: { mediaType: string; digest: string; size: number };
  artifactType?: string;
  /** Default is that of OCI; the Nydus image of a merged index has its own, so that plain containerd passes it by. */
  configMediaType?: string;
}

export function memoryBlob(mediaType: string, data: Buffer): Blob {
  return { mediaType, digest: sha256(data), size: data.length, open: () => Readable.from([data]) };
}

/** Puts layers, config and manifest together. Times are the epoch: equal input gives equal digests. */
export function buildImage(options: ImageOptions): Image {
  const platform = options.platform ?? { os: 'linux', architecture: 'amd64' };
  const { entrypoint, cmd, env, user, workingDir } = options;
  const config = json({
    created: '1970-01-01T00:00:00Z',
    ...platform,
    config: {
      ...(entrypoint && { Entrypoint: entrypoint }),
      ...(cmd && { Cmd: cmd }),
      Env: env ?? ['PATH=/bin:/usr/bin:/sbin:/usr/sbin'],
      ...(user && { User: user }),
      ...(workingDir && { WorkingDir: workingDir }),
    },
    rootfs: { type: 'layers', diff_ids: options.layers.map((layer) => layer.diffId) },
    history: options.layers.map(() => ({ created: '1970-01-01T00:00:00Z', created_by: 'oci-image' })),
  });
  const configBlob = memoryBlob(options.configMediaType ?? mediaTypes.config, config);
  const manifest = json({
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    ...(options.artifactType && { artifactType: options.artifactType }),
    config: descriptor(configBlob),
    layers: options.layers.map(descriptor),
    ...(options.subject && { subject: options.subject }),
    ...(options.annotations && { annotations: options.annotations }),
  });
  return {
    kind: 'manifest',
    digest: sha256(manifest),
    manifest,
    mediaType: mediaTypes.manifest,
    config: configBlob,
    layers: [...options.layers],
    platform,
    sizeBytes: manifest.length + config.length + options.layers.reduce((sum, layer) => sum + layer.size, 0),
  };
}

/** A multi-platform image. */
export function buildIndex(images: readonly Image[], annotations?: Readonly<Record<string, string>>): Index {
  const manifest = json({
    schemaVersion: 2,
    mediaType: mediaTypes.index,
    manifests: images.map((image) => ({
      mediaType: image.mediaType,
      digest: image.digest,
      size: image.manifest.length,
      platform: image.platform,
      ...image.descriptor,
    })),
    ...(annotations && { annotations }),
  });
  return { kind: 'index', digest: sha256(manifest), manifest, mediaType: mediaTypes.index, images: [...images] };
}

function descriptor({ mediaType, digest, size, annotations }: Blob): object {
  return { mediaType, digest, size, ...(annotations && { annotations }) };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
