import {
  buildImage,
  buildIndex,
  memoryBlob,
  sha256,
  type Image,
  type Index,
  type Layer,
} from '../../../tools/oci-image/index.js';

const SOCI_INDEX = 'application/vnd.amazon.soci.index.v2+json';
const OVERLAYBD = 'containerd.io/snapshot/overlaybd';

/**
 * An index as `soci convert` documents it: the image with one annotation more, and beside it the SOCI index that the annotation names. The
 * tables that it lists hold nothing, as no node here reads them.
 */
export function sociV2Shape(source: Image): Index {
  const soci = sociIndex(source);
  const image = annotated(source, { 'com.amazon.soci.index-digest': soci.digest });
  return buildIndex([
    image,
    { ...soci, descriptor: { artifactType: SOCI_INDEX, annotations: { 'com.amazon.soci.image-manifest-digest': image.digest } } },
  ]);
}

/** A table of contents for each layer of the image, in an artifact manifest. */
function sociIndex(source: Image): Image {
  const tables = source.layers.map((layer): Layer => {
    const blob = memoryBlob('application/octet-stream', Buffer.from(`table of ${layer.digest}`));
    const annotations = {
      'com.amazon.soci.image-layer-digest': layer.digest,
      'com.amazon.soci.image-layer-mediaType': layer.mediaType,
    };
    return { ...blob, diffId: blob.digest, annotations };
  });
  return rewritten(source, {
    artifactType: SOCI_INDEX,
    config: memoryBlob('application/vnd.oci.empty.v1+json', Buffer.from('{}')),
    layers: tables,
  });
}

/** The image with more annotations on its manifest; config and layers stay what they are. */
function annotated(source: Image, annotations: Record<string, string>): Image {
  return rewritten(source, { config: source.config, layers: source.layers, annotations });
}

function rewritten(
  source: Image,
  { config, layers, ...more }: Pick<Image, 'config' | 'layers'> & { artifactType?: string; annotations?: object },
): Image {
  const descriptor = ({ mediaType, digest, size, annotations }: Layer | Image['config']): object => ({
    mediaType,
    digest,
    size,
    ...(annotations && { annotations }),
  });
  const fields = { schemaVersion: 2, mediaType: source.mediaType, config: descriptor(config), layers: layers.map(descriptor) };
  const manifest = Buffer.from(JSON.stringify({ ...fields, ...more }));
  return { ...source, manifest, digest: sha256(manifest), config, layers };
}

/** An image as the OverlayBD converter documents it with --referrer: every layer annotated. Nothing mounts it here. */
export function overlaybdShape(source: Image, cmd: readonly string[]): Image {
  const layers = source.layers.map((layer): Layer => ({
    ...layer,
    annotations: {
      [`${OVERLAYBD}/blob-digest`]: layer.digest,
      [`${OVERLAYBD}/blob-size`]: String(layer.size),
      [`${OVERLAYBD}/version`]: '0.1.0',
    },
  }));
  return buildImage({
    layers,
    cmd,
    platform: source.platform,
    artifactType: 'application/vnd.containerd.overlaybd.native.v1+json',
    subject: { mediaType: source.mediaType, digest: source.digest, size: source.manifest.length },
  });
}
