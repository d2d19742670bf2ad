import { createHash } from 'node:crypto';
import { ANNOTATION } from '../../src/api/names.js';
import { MEDIA_TYPE } from '../../src/images/manifest.js';
import type { Generated } from './yaml.js';

/**
 * examples/registry/: answers in the shape in which a registry gives them, for images of the size that people train with. Sizes are
 * typical, digests of blobs are made from names, digests of manifests are the true ones of the bytes in the file.
 */

const HOST = 'registry.example.com';
const GB = 1_000_000_000;
const MB = 1_000_000;
const LAYERS = [29 * MB, 0.9 * GB, 6.4 * GB, 3.1 * GB, 410 * MB, 12 * MB];
const TOC = 'containerd.io/snapshot/stargz/toc.digest';
const UNCOMPRESSED = 'io.containers.estargz.uncompressed-size';

interface Answer {
  reference: string;
  status?: number;
  body?: unknown;
}

const digestOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

interface Parts {
  name: string;
  layers: number[];
  estargz?: boolean;
  source?: string;
}

/** The config of an image: a variant that unpacks to other layers, as eStargz does, has one of its own. */
const configText = (name: string): string =>
  JSON.stringify({
    created: '2026-10-02T09:12:44Z',
    os: 'linux',
    architecture: 'amd64',
    config: { Entrypoint: ['python3'], WorkingDir: '/work' },
    rootfs: { type: 'layers', diff_ids: LAYERS.map((_, i) => digestOf(`unpacked ${i} ${name}`)) },
  });

const config = (name: string) => {
  const text = configText(name);
  return { mediaType: 'application/vnd.oci.image.config.v1+json', digest: digestOf(text), size: text.length };
};

/** A platform manifest; layers of a variant carry what converters write. */
function manifest({ name, layers, estargz = false, source }: Parts) {
  return {
    schemaVersion: 2,
    mediaType: MEDIA_TYPE.ociManifest,
    config: config(name),
    layers: layers.map((size, i) => ({
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest: digestOf(`layer ${i} ${name}`),
      size,
      ...(estargz ? { annotations: { [TOC]: digestOf(`toc ${i} ${name}`), [UNCOMPRESSED]: String(size * 2) } } : {}),
    })),
    ...(source === undefined ? {} : { annotations: { [ANNOTATION.sourceDigest]: source } }),
  };
}

const SNAPSHOT = 'containerd.io/snapshot';

/** As nydusify and acceld write it: a blob for each layer, and the bootstrap, which tells files from blobs. */
function nydusManifest(name: string, source: string) {
  const blobs = LAYERS.map((size, i) => ({
    mediaType: 'application/vnd.oci.image.layer.nydus.blob.v1',
    digest: digestOf(`blob ${i} ${name}`),
    size,
    annotations: { [`${SNAPSHOT}/nydus-blob`]: 'true' },
  }));
  const bootstrap = {
    mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
    digest: digestOf(`bootstrap ${name}`),
    size: 61 * MB,
    annotations: { [`${SNAPSHOT}/nydus-bootstrap`]: 'true', [`${SNAPSHOT}/nydus-fs-version`]: '6' },
  };
  return {
    schemaVersion: 2,
    mediaType: MEDIA_TYPE.ociManifest,
    config: config(`nydus ${name}`),
    layers: [...blobs, bootstrap],
    annotations: { [`${SNAPSHOT}/nydus-source-digest`]: source },
  };
}

/** As skopeo and podman write it: layers compressed anew, and the very config of the source, which lists what layers unpack to. */
function chunkedManifest(name: string) {
  const layers = LAYERS.map((size, i) => ({
    mediaType: 'application/vnd.oci.image.layer.v1.tar+zstd',
    digest: digestOf(`chunked ${i} ${name}`),
    size: Math.round(size * 0.9),
    annotations: {
      'io.github.containers.zstd-chunked.manifest-checksum': digestOf(`toc ${i} ${name}`),
      'io.github.containers.zstd-chunked.manifest-position': `${Math.round(size * 0.89)}:91822:412300:1`,
    },
  }));
  return { schemaVersion: 2, mediaType: MEDIA_TYPE.ociManifest, config: config(name), layers };
}

/** An index as BuildKit pushes it: one child a platform, and the attestation of each. */
function index(children: { platform: string; body: unknown }[]) {
  const entries = children.map(({ platform, body }) => {
    const [os, architecture] = platform.split('/');
    const text = JSON.stringify(body);
    return { mediaType: MEDIA_TYPE.ociManifest, digest: digestOf(text), size: text.length, platform: { os, architecture } };
  });
  const attestations = entries.map(({ digest }) => ({
    mediaType: MEDIA_TYPE.ociManifest,
    digest: digestOf(`attestation ${digest}`),
    size: 838,
    annotations: { 'vnd.docker.reference.digest': digest, 'vnd.docker.reference.type': 'attestation-manifest' },
    platform: { os: 'unknown', architecture: 'unknown' },
  }));
  return { schemaVersion: 2, mediaType: MEDIA_TYPE.ociIndex, manifests: [...entries, ...attestations] };
}

/** A tag and what its digests lead to. */
function recorded(image: string, children: { platform: string; body: unknown }[]): Answer[] {
  const repository = `${HOST}/${image.slice(0, image.indexOf(':'))}`;
  const below = children.map(({ body }) => ({ reference: `${repository}@${digestOf(JSON.stringify(body))}`, body }));
  return [{ reference: `${HOST}/${image}`, body: index(children) }, ...below];
}

function pair(repository: string, tag: string, record: (source: string) => string | undefined): Answer[] {
  const name = `${repository}:${tag}`;
  const source = manifest({ name, layers: LAYERS });
  const kept = record(digestOf(JSON.stringify(source)));
  const variant = manifest({
    name: `${name}-esgz`,
    layers: LAYERS,
    estargz: true,
    ...(kept === undefined ? {} : { source: kept }),
  });
  return [
    ...recorded(name, [{ platform: 'linux/amd64', body: source }]),
    ...recorded(`${name}-esgz`, [{ platform: 'linux/amd64', body: variant }]),
    ...[name, `${name}-esgz`].map((image) => configAnswer(repository, image)),
  ];
}

function configAnswer(repository: string, name: string): Answer {
  return { reference: `${HOST}/${repository}@${config(name).digest}`, body: JSON.parse(configText(name)) };
}

/** A source and its variant behind another tag. */
function variantPair(image: string, suffix: string, make: (source: string) => unknown): Answer[] {
  const source = manifest({ name: image, layers: LAYERS });
  const variant = make(digestOf(JSON.stringify(source)));
  return [
    ...recorded(image, [{ platform: 'linux/amd64', body: source }]),
    ...recorded(`${image}${suffix}`, [{ platform: 'linux/amd64', body: variant }]),
  ];
}

export function exampleFiles(): Generated[] {
  const files: Record<string, Answer[]> = {
    'train-2.3': pair('ml/train', '2.3', (source) => source),
    'train-2.4': pair('ml/train', '2.4', () => digestOf('the build before the last one')),
    'eval-1.8': pair('ml/eval', '1.8', () => undefined),
    'notebook-5': [
      ...recorded('ml/notebook:5', [
        { platform: 'linux/amd64', body: manifest({ name: 'ml/notebook:5', layers: LAYERS.slice(0, 2) }) },
      ]),
      { reference: `${HOST}/ml/notebook:5-esgz`, status: 404 },
    ],
    'llm-3': variantPair('serve/llm:3', '-nydus', (source) => nydusManifest('serve/llm:3', source)),
    'embed-7': variantPair('serve/embed:7', '-zstd', () => chunkedManifest('serve/embed:7')),
    'secret-1': [{ reference: `${HOST}/ml/secret:1`, status: 401 }],
  };
  return Object.entries(files).map(([name, answers]) => ({
    path: `examples/registry/${name}.json`,
    text: `${JSON.stringify({ answers }, undefined, 1)}\n`,
  }));
}
