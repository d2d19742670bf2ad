import { createHash } from 'node:crypto';
import { parseManifest } from '../../../src/images/manifest.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact, RegistryPort } from '../../../src/images/registry-port.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import type { Reference } from '../../../src/images/reference.js';
import { format, parseReference, withDigest } from '../../../src/images/reference.js';

export const digestOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

export const OCI = 'application/vnd.oci.image.manifest.v1+json';
export const OCI_INDEX = 'application/vnd.oci.image.index.v1+json';
export const DOCKER = 'application/vnd.docker.distribution.manifest.v2+json';
export const TOC = 'containerd.io/snapshot/stargz/toc.digest';

export interface ManifestParts {
  name: string;
  mediaType?: string;
  layers?: number;
  /** How many of the layers are marked as eStargz. */
  marked?: number;
  annotations?: Record<string, string>;
  subject?: string;
}

/** A platform manifest that differs by name. */
export function manifestBody({ name, mediaType = OCI, layers = 2, marked = 0, annotations, subject }: ManifestParts): object {
  return {
    schemaVersion: 2,
    mediaType,
    config: { mediaType: 'application/vnd.oci.image.config.v1+json', digest: digestOf(`config ${name}`), size: 100 },
    layers: Array.from({ length: layers }, (_, i) => ({
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest: digestOf(`layer ${i} ${name}`),
      size: 1000,
      ...(i < marked ? { annotations: { [TOC]: digestOf(`toc ${i} ${name}`) } } : {}),
    })),
    ...(annotations === undefined ? {} : { annotations }),
    ...(subject === undefined ? {} : { subject: { mediaType: OCI, digest: subject, size: 10 } }),
  };
}

export function indexBody(
  children: readonly { platform?: string; body: object; extra?: object }[],
  annotations?: Record<string, string>,
): object {
  return {
    schemaVersion: 2,
    mediaType: OCI_INDEX,
    manifests: children.map(({ platform, body, extra }) => {
      const [os, architecture, variant] = platform?.split('/') ?? [];
      return {
        mediaType: OCI,
        digest: digestOf(JSON.stringify(body)),
        size: 500,
        ...(platform === undefined ? {} : { platform: { os, architecture, variant } }),
        ...extra,
      };
    }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}

export const bodyDigest = (body: object): string => digestOf(JSON.stringify(body));

export function factOf(body: object): ManifestFact {
  const parsed = parseManifest(JSON.stringify(body), bodyDigest(body));
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.fact;
}

/** A registry in memory. Bodies are served under their tag and their digest; every question is noted in order. */
export class MemoryRegistry implements RegistryPort {
  readonly asked: string[] = [];
  readonly options: LookupOptions[] = [];
  readonly #bodies = new Map<string, object | Error>();
  readonly #platforms = new Map<string, string>();
  /** Called before each answer, so that a tag can move between two questions. */
  before: (key: string) => void = () => undefined;

  set(image: string, body: object | Error): this {
    const parsed = parseReference(image);
    if (!parsed.ok) throw new Error(parsed.problem);
    this.#bodies.set(format(parsed.reference), body);
    const { registry, repository } = parsed.reference;
    if (!(body instanceof Error)) this.#bodies.set(`${registry}/${repository}@${bodyDigest(body)}`, body);
    return this;
  }

  setConfig(digest: string, platform: string): this {
    this.#platforms.set(digest, platform);
    return this;
  }

  manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    // A digest wins over a tag, as in every registry.
    const key = reference.digest === undefined ? format(reference) : withDigest(reference, reference.digest);
    this.asked.push(key);
    this.options.push(options);
    this.before(key);
    const body = this.#bodies.get(key);
    if (body instanceof Error) return Promise.reject(body);
    if (body === undefined)
      return Promise.reject(
        new RegistryError(`registry ${reference.registry} has no ${key}`, {
          outcome: 'variant-missing',
          host: reference.registry,
          status: 404,
        }),
      );
    return Promise.resolve(factOf(body));
  }

  config(reference: Reference, digest: string): Promise<ImageConfig> {
    this.asked.push(`config ${digest}`);
    const platform = this.#platforms.get(digest);
    if (platform === undefined)
      return Promise.reject(
        new RegistryError('the blob is out of reach', { outcome: 'registry-error', host: reference.registry }),
      );
    return Promise.resolve({ platform, diffIds: [], traits: {} });
  }

  referrers(): Promise<ReferrersFact> {
    return Promise.resolve({ referrers: [], how: 'api', detail: 'none' });
  }
}
