import { createHash } from 'node:crypto';
import { parseConfig, parseManifest } from '../../../src/images/manifest.js';
import type {
  Descriptor,
  ImageConfig,
  LookupOptions,
  ManifestFact,
  ReferrersFact,
  RegistryPort,
} from '../../../src/images/registry-port.js';
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
  readonly #configs = new Map<string, ImageConfig | Error>();
  readonly #referrers = new Map<string, object[]>();
  /** What the registry says instead of a list of referrers. */
  referrersAnswer: Partial<ReferrersFact> | Error | undefined;
  /** Called before each answer, so that a tag can move between two questions. */
  before: (key: string) => void = () => undefined;

  set(image: string, body: object | Error): this {
    const { registry, repository, ...reference } = referenceOf(image);
    this.#bodies.set(format({ registry, repository, ...reference }), body);
    if (body instanceof Error) return this;
    this.#bodies.set(`${registry}/${repository}@${bodyDigest(body)}`, body);
    const subject = (body as { subject?: { digest: string } }).subject?.digest;
    if (subject !== undefined) this.#referrers.set(subject, [...(this.#referrers.get(subject) ?? []), body]);
    return this;
  }

  /** Bodies that are found by digest alone, as children of an index and referrers are. */
  add(repository: string, ...bodies: readonly object[]): this {
    for (const body of bodies) this.set(`${repository}@${bodyDigest(body)}`, body);
    return this;
  }

  /** A digest that the registry has lost, though a tag may still lead to it. */
  lose(repository: string, body: object): this {
    this.#bodies.delete(`${repository}@${bodyDigest(body)}`);
    return this;
  }

  setConfig(digest: string, config: string | object | Error): this {
    if (config instanceof Error) this.#configs.set(digest, config);
    else {
      const [os, architecture] = typeof config === 'string' ? config.split('/') : [];
      const parsed = parseConfig(JSON.stringify(typeof config === 'string' ? { os, architecture } : config));
      if (!parsed.ok) throw new Error(parsed.problem);
      this.#configs.set(digest, parsed.config);
    }
    return this;
  }

  manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    // A digest wins over a tag, as in every registry.
    const key = reference.digest === undefined ? format(reference) : withDigest(reference, reference.digest);
    this.#note(key, options);
    const body = this.#bodies.get(key);
    if (body instanceof Error) return Promise.reject(body);
    if (body === undefined) return Promise.reject(absent(reference.registry, key));
    return Promise.resolve(factOf(body));
  }

  config(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ImageConfig> {
    this.#note(`config ${digest}`, options);
    const config = this.#configs.get(digest);
    if (config instanceof Error) return Promise.reject(config);
    return config === undefined ? Promise.reject(absent(reference.registry, `the blob ${digest}`)) : Promise.resolve(config);
  }

  referrers(reference: Reference, digest: string, options: LookupOptions = {}): Promise<ReferrersFact> {
    this.#note(`referrers ${withDigest(reference, digest)}`, options);
    if (this.referrersAnswer instanceof Error) return Promise.reject(this.referrersAnswer);
    const referrers = (this.#referrers.get(digest) ?? []).map(descriptorOf);
    return Promise.resolve({ referrers, how: 'api', detail: 'the referrers API', ...this.referrersAnswer });
  }

  #note(key: string, options: LookupOptions): void {
    this.asked.push(key);
    this.options.push(options);
    this.before(key);
  }
}

/** As the distribution specification lists a referrer: the artifact type falls back to the media type of the config. */
function descriptorOf(body: object): Descriptor {
  const fact = factOf(body);
  const artifactType = fact.artifactType ?? fact.config?.mediaType;
  const { mediaType, annotations } = fact;
  return {
    digest: bodyDigest(body),
    mediaType,
    size: JSON.stringify(body).length,
    annotations,
    ...(artifactType === undefined ? {} : { artifactType }),
  };
}

function referenceOf(image: string): Reference {
  const parsed = parseReference(image);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.reference;
}

function absent(host: string, what: string): RegistryError {
  return new RegistryError(`registry ${host} has no ${what}`, { outcome: 'variant-missing', host, status: 404 });
}
