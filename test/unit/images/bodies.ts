import { OCI, TOC, bodyDigest, digestOf, indexBody } from './support.js';

/** Manifests as real converters write them, made by hand from what their sources say. */

export interface LayerParts {
  mediaType?: string;
  digest?: string;
  annotations?: Record<string, string>;
}

export interface ImageParts {
  name: string;
  layers: readonly LayerParts[];
  config?: string;
  mediaType?: string;
  annotations?: Record<string, string>;
  subject?: string;
  artifactType?: string;
}

const GZIP = 'application/vnd.oci.image.layer.v1.tar+gzip';
export const ZSTD = 'application/vnd.oci.image.layer.v1.tar+zstd';
const NYDUS_BLOB = 'application/vnd.oci.image.layer.nydus.blob.v1';
const SNAPSHOT = 'containerd.io/snapshot';
export const NYDUS_SOURCE = `${SNAPSHOT}/nydus-source-digest`;
export const HARBOR_SOURCE = 'io.goharbor.artifact.v1alpha1.acceleration.source.digest';
export const NYDUS_ARTIFACT = 'application/vnd.nydus.image.manifest.v1+json';
export const SOCI_V1 = 'application/vnd.amazon.soci.index.v1+json';
export const SOCI_V2 = 'application/vnd.amazon.soci.index.v2+json';
export const TOC_LAYER = `${SNAPSHOT}/stargz/layer.digest`;
export const CHUNKED = {
  containers: 'io.github.containers.zstd-chunked.manifest-position',
  stargz: 'io.containers.zstd-chunked.manifest-position',
};
export const TURBO = `${SNAPSHOT}/overlaybd/turbo-oci/target-digest`;
export const FASTOCI = `${SNAPSHOT}/overlaybd/fastoci/target-digest`;

export function image({ name, layers, config, mediaType = OCI, annotations, subject, artifactType }: ImageParts): object {
  return {
    schemaVersion: 2,
    mediaType,
    ...(artifactType === undefined ? {} : { artifactType }),
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: config ?? digestOf(`config ${name}`), size: 100 },
    layers: layers.map((layer, i) => ({
      mediaType: layer.mediaType ?? GZIP,
      digest: layer.digest ?? digestOf(`layer ${i} ${name}`),
      size: 1000,
      ...(layer.annotations === undefined ? {} : { annotations: layer.annotations }),
    })),
    ...(annotations === undefined ? {} : { annotations }),
    ...(subject === undefined ? {} : { subject: { mediaType: OCI, digest: subject, size: 10 } }),
  };
}

export const layerOf = (name: string, i: number): string => digestOf(`layer ${i} ${name}`);
export const plain = (name: string, count = 2): object => image({ name, layers: Array.from({ length: count }, () => ({})) });

const blob = (annotations: Record<string, string> = {}): LayerParts => ({
  mediaType: NYDUS_BLOB,
  annotations: { [`${SNAPSHOT}/nydus-blob`]: 'true', ...annotations },
});
const bootstrap: LayerParts = { annotations: { [`${SNAPSHOT}/nydus-bootstrap`]: 'true' } };

type Rest = Omit<ImageParts, 'name' | 'layers'>;

/** `source` is the digest that acceld writes. */
export const nydusImage = (name: string, source?: string, rest: Rest = {}): object =>
  image({
    name,
    layers: [blob(), blob(), bootstrap],
    ...(source === undefined ? {} : { annotations: { [NYDUS_SOURCE]: source } }),
    ...rest,
  });

/** zran: blobs that read the layers of the source. */
export const zranImage = (name: string, refs: readonly string[], rest: Rest = {}): object =>
  image({ name, layers: [...refs.map((ref) => blob({ [`${SNAPSHOT}/nydus-ref`]: ref })), bootstrap], ...rest });

/** The cache tag of acceld: its layers carry source digests, and nothing can run it. */
export const nydusCache = (name: string, source: string): object =>
  image({
    name,
    layers: [0, 1].map((i) => blob({ [NYDUS_SOURCE]: source, [`${SNAPSHOT}/nydus-target-digest`]: digestOf(`target ${i}`) })),
    annotations: { [NYDUS_SOURCE]: source },
  });

/** The build cache of old nydusify: every second layer is a bootstrap. */
export const nydusifyCache = (name: string): object => image({ name, layers: [bootstrap, blob(), bootstrap] });

/** The ordinary child of a merged index since acceld v0.2.21: an empty layer in front, and a record. */
export const mergedPlain = (name: string, source: string): object =>
  image({
    name: `merged ${name}`,
    layers: [{ annotations: { [`${SNAPSHOT}/nydus-empty-layer`]: 'true' } }, {}, {}],
    annotations: { [NYDUS_SOURCE]: source },
  });

export const estargzImage = (name: string, marked = 2, rest: Rest & { count?: number } = {}): object =>
  image({
    name,
    layers: Array.from({ length: rest.count ?? 2 }, (_, i) =>
      i < marked ? { annotations: { [TOC]: digestOf(`toc ${i} ${name}`) } } : {},
    ),
    ...rest,
  });

export const zstdImage = (name: string, marked = 2, rest: Rest = {}): object =>
  image({ name, layers: [0, 1].map((i) => (i < marked ? { mediaType: ZSTD } : {})), ...rest });

export const chunkedImage = (name: string, keys: readonly (string | undefined)[], rest: Rest = {}): object =>
  image({
    name,
    layers: keys.map((key) => ({ mediaType: ZSTD, ...(key === undefined ? {} : { annotations: { [key]: '1:2:3:1' } }) })),
    ...rest,
  });

export const overlaybdImage = (name: string, rest: Rest & { marked?: number; count?: number } = {}): object =>
  image({
    name,
    layers: Array.from({ length: rest.count ?? 2 }, (_, i) =>
      i < (rest.marked ?? 9)
        ? { annotations: { [`${SNAPSHOT}/overlaybd/blob-digest`]: layerOf(name, i), [`${SNAPSHOT}/overlaybd/version`]: '0.1.0' } }
        : {},
    ),
    ...rest,
  });

export const turboImage = (
  name: string,
  targets: readonly string[],
  rest: Rest & { key?: string; base?: boolean } = {},
): object =>
  image({
    name,
    layers: [
      ...(rest.base === true ? [{ annotations: { [`${SNAPSHOT}/overlaybd/blob-digest`]: digestOf('base') } }] : []),
      ...targets.map((target) => ({ annotations: { [rest.key ?? TURBO]: target } })),
    ],
    ...rest,
  });

export interface Child {
  platform?: string;
  body: object;
  extra?: object;
}

/** A merged index as acceld pushes it: the ordinary child first. `mark` is how the Nydus child is marked. */
export function mergedIndex(
  children: readonly { platform: string; plain: object; nydus?: object }[],
  mark: 'artifactType' | 'os.features',
  nydusFirst = false,
): object {
  const entries = children.flatMap(({ platform, plain: ordinary, nydus }) => {
    const pair: Child[] = [{ platform, body: ordinary }, ...(nydus === undefined ? [] : [marked(platform, nydus, mark)])];
    return nydusFirst ? pair.toReversed() : pair;
  });
  return indexBody(entries);
}

function marked(platform: string, body: object, mark: 'artifactType' | 'os.features'): Child {
  const [os, architecture] = platform.split('/');
  return mark === 'artifactType'
    ? { platform, body, extra: { artifactType: NYDUS_ARTIFACT } }
    : { platform, body, extra: { platform: { os, architecture, 'os.features': ['nydus.remoteimage.v1'] } } };
}

/** What `soci convert` makes of an image with the layers of `source`. */
export function sociIndex(
  source: string,
  { platform = 'linux/amd64', config, link = true }: { platform?: string; config?: string; link?: boolean } = {},
): { index: object; enabled: object; zone: object } {
  const zone = image({ name: `soci of ${source}`, layers: [{ mediaType: 'application/octet-stream' }], artifactType: SOCI_V2 });
  const enabled = image({
    name: source,
    layers: [{}, {}],
    ...(config === undefined ? {} : { config }),
    ...(link ? { annotations: { 'com.amazon.soci.index-digest': bodyDigest(zone) } } : {}),
  });
  const annotations = link ? { 'com.amazon.soci.image-manifest-digest': bodyDigest(enabled) } : undefined;
  const index = indexBody([
    { platform, body: enabled },
    { platform, body: zone, extra: { artifactType: SOCI_V2, ...(annotations === undefined ? {} : { annotations }) } },
  ]);
  return { index, enabled, zone };
}

/** An image config; equal `build`s are equal programs. */
export function configBody(build: string, more: Record<string, unknown> = {}, config: Record<string, unknown> = {}): object {
  return {
    os: 'linux',
    architecture: 'amd64',
    created: '2026-05-01T10:00:00Z',
    config: { Env: ['PATH=/bin', `BUILD=${build}`], Cmd: ['run'], Labels: { b: '2', a: '1' }, ...config },
    rootfs: { type: 'layers', diff_ids: [digestOf(`diff 0 ${build}`), digestOf(`diff 1 ${build}`)] },
    history: [{ created_by: 'COPY a' }, { created_by: 'COPY b' }],
    ...more,
  };
}

/** The artifact that `harbinger record` pushes. */
export function recordArtifact(variant: object, source: string, subject = bodyDigest(variant)): object {
  return image({
    name: `record of ${subject} ${source}`,
    layers: [{ mediaType: 'application/vnd.oci.empty.v1+json' }],
    artifactType: 'application/vnd.harbinger.source.v1+json',
    annotations: { 'harbinger.dev/source-digest': source },
    subject,
  });
}
