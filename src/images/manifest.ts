import { clip } from '../api/conditions.js';
import { list, parseObject, record, string, stringMap } from '../api/json.js';
import type { Json } from '../api/json.js';
import type { Descriptor, ManifestFact, PlatformDescriptor } from './registry-port.js';
import { SOCI_V2 } from './artifact-types.js';
import { isDigest } from './reference.js';
import { isPlatformWord, platformText } from './platform.js';

export { parseConfig } from './image-config.js';
export type { ParsedConfig } from './image-config.js';

/** Manifests and indexes, OCI 1.1 and Docker schema 2, read without trusting any field. */

export const MEDIA_TYPE = {
  ociIndex: 'application/vnd.oci.image.index.v1+json',
  ociManifest: 'application/vnd.oci.image.manifest.v1+json',
  dockerList: 'application/vnd.docker.distribution.manifest.list.v2+json',
  dockerManifest: 'application/vnd.docker.distribution.manifest.v2+json',
} as const;

/** Sent with every request: a registry that lacks one of them converts the answer, and then the digest is another one. */
export const ACCEPT = Object.values(MEDIA_TYPE).join(', ');

const INDEX_TYPES: ReadonlySet<string> = new Set([MEDIA_TYPE.ociIndex, MEDIA_TYPE.dockerList]);
const MANIFEST_TYPES: ReadonlySet<string> = new Set([MEDIA_TYPE.ociManifest, MEDIA_TYPE.dockerManifest]);
/** BuildKit hangs its attestations into the index under this platform. */
const ATTESTATION_PLATFORM = 'unknown/unknown';
/** Characters of a version of Windows that count. */
const MAX_VERSION = 64;

export type ParsedManifest = { ok: true; fact: ManifestFact } | { ok: false; problem: string };

/** Whether the manifest is of the OCI kind, which keeps layer annotations; Docker's kind drops them. */
export function isOci(mediaType: string): boolean {
  return mediaType === MEDIA_TYPE.ociIndex || mediaType === MEDIA_TYPE.ociManifest;
}

export function isIndexType(mediaType: string): boolean {
  return INDEX_TYPES.has(mediaType);
}

/** Reads a manifest or index. `contentType` is used only if the text does not say what it is. Total. */
export function parseManifest(text: string, digest: string, contentType = ''): ParsedManifest {
  const body = parseObject(text);
  if (body === undefined) return { ok: false, problem: notJson(text, contentType) };
  if (body['schemaVersion'] === 1)
    return { ok: false, problem: 'it is a schema 1 manifest, which current container runtimes refuse; push the image again' };
  const [children, layers] = [list(body['manifests']), list(body['layers'])];
  // One text that is both could be read as an index by us and as a manifest by a node.
  if (children !== undefined && layers !== undefined)
    return { ok: false, problem: 'it claims to be an index and a manifest at once' };
  const mediaType = mediaTypeOf(body, contentType, children !== undefined);
  const bytes = Buffer.byteLength(text);
  const common = { digest, mediaType, bytes, annotations: stringMap(body['annotations']), ...optional(body) };
  if (children !== undefined && INDEX_TYPES.has(mediaType)) {
    const unplaced = children.flatMap(unplacedChild);
    const fact = { ...common, kind: 'index', manifests: children.flatMap(platformChild), layers: [], sizeBytes: 0 } as const;
    return { ok: true, fact: unplaced.length === 0 ? fact : { ...fact, unplaced } };
  }
  if (layers !== undefined && MANIFEST_TYPES.has(mediaType)) return imageManifest(common, body['config'], layers);
  return { ok: false, problem: `it is neither an image nor an index of images (media type ${clip(mediaType, 80) || 'absent'})` };
}

/** One bad layer spoils the manifest: sizes and formats are judged over all of them. */
function imageManifest(
  common: Omit<ManifestFact, 'kind' | 'manifests' | 'layers' | 'sizeBytes'>,
  config: unknown,
  layers: readonly unknown[],
): ParsedManifest {
  const parsed = layers.map(descriptor);
  const bad = parsed.indexOf(undefined);
  if (bad >= 0) return { ok: false, problem: `layer ${bad} has no valid digest and size` };
  const kept = parsed.filter((layer) => layer !== undefined);
  const configDescriptor = descriptor(config);
  if (configDescriptor === undefined) return { ok: false, problem: 'its config has no valid digest and size' };
  const sizeBytes = kept.reduce((sum, layer) => sum + layer.size, configDescriptor.size);
  return { ok: true, fact: { ...common, kind: 'manifest', manifests: [], layers: kept, config: configDescriptor, sizeBytes } };
}

function optional(body: Json): { subject?: { digest: string }; artifactType?: string } {
  const subject = string(record(body['subject'])?.['digest']);
  const artifactType = string(body['artifactType']);
  return {
    ...(subject !== undefined && isDigest(subject) ? { subject: { digest: subject } } : {}),
    ...(artifactType === undefined ? {} : { artifactType }),
  };
}

/** Some registries send a generic Content-Type, some bodies (OCI 1.0) have no mediaType: then the shape decides. */
function mediaTypeOf(body: Json, contentType: string, isIndex: boolean): string {
  const own = string(body['mediaType']);
  if (own !== undefined) return own;
  const sent = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  if (INDEX_TYPES.has(sent) || MANIFEST_TYPES.has(sent)) return sent;
  return isIndex ? MEDIA_TYPE.ociIndex : MEDIA_TYPE.ociManifest;
}

/** Platforms are optional, and tools may leave them out for what nobody runs. */
function unplacedChild(entry: unknown): Descriptor[] {
  const base = descriptor(entry);
  return base?.artifactType === SOCI_V2 && record(record(entry)?.['platform']) === undefined ? [base] : [];
}

/**
 * Children without platform, attestations and broken entries are no images to run: they are left out, not reported. Indexes inside the
 * index stay, as a runtime that meets one first goes into it.
 */
function platformChild(entry: unknown): PlatformDescriptor[] {
  const base = descriptor(entry);
  const platform = record(record(entry)?.['platform']);
  const [os, architecture, cpu] = ['os', 'architecture', 'variant'].map((key) => string(platform?.[key]));
  if (base === undefined || os === undefined || architecture === undefined) return [];
  if (![os, architecture, cpu ?? 'v1'].every(isPlatformWord)) return [];
  if (`${os}/${architecture}` === ATTESTATION_PLATFORM) return [];
  const osFeatures = (list(platform?.['os.features']) ?? []).filter((feature) => typeof feature === 'string');
  return [{ ...base, platform: platformText(os, architecture, cpu), osFeatures, ...versionOf(os, platform) }];
}

function versionOf(os: string, platform: Json | undefined): { osVersion?: string } {
  const version = os.toLowerCase() === 'windows' ? string(platform?.['os.version']) : undefined;
  return version === undefined ? {} : { osVersion: version.slice(0, MAX_VERSION) };
}

/** Digest, type and size of a manifest or blob as another one names it; undefined if one of them is unusable. */
export function descriptor(entry: unknown): Descriptor | undefined {
  const value = record(entry);
  const digest = string(value?.['digest']);
  const size = value?.['size'];
  if (value === undefined || digest === undefined || !isDigest(digest)) return undefined;
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) return undefined;
  const artifactType = string(value['artifactType']);
  return {
    digest,
    mediaType: string(value['mediaType']) ?? '',
    size,
    annotations: stringMap(value['annotations']),
    ...(artifactType === undefined ? {} : { artifactType }),
  };
}

function notJson(text: string, contentType: string): string {
  const looksLikeHtml = /^\s*<(!doctype|html)/i.test(text) || contentType.startsWith('text/html');
  return looksLikeHtml ? 'it is a web page, as proxies and login pages send' : 'it is not a JSON object';
}
