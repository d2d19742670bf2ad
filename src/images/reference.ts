import { clip } from '../api/conditions.js';

/**
 * Image references: the grammar of github.com/distribution/reference with the defaults that Kubernetes runtimes apply.
 * Written here because the npm parsers misread `name@sha256:..`, hosts with ports or IPv6 hosts.
 */

/** One image, normalised: host always there, Docker Hub's `library/` filled in, `latest` where neither tag nor digest was written. */
export interface Reference {
  registry: string;
  repository: string;
  /** Informational when `digest` is there too: the digest wins, as in containerd. */
  tag?: string;
  digest?: string;
}

export type ParsedReference = { ok: true; reference: Reference } | { ok: false; problem: string };

const DEFAULT_REGISTRY = 'docker.io';
/** Longest repository name (host and path), from the distribution grammar. */
const MAX_NAME = 255;
const MAX_TAG = 128;

const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const HOST_LABEL = '(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])';
const HOST = new RegExp(`^(?:${HOST_LABEL}(?:\\.${HOST_LABEL})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;
const DIGEST = /^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$/;
/** Docker's identifiers of local images; as a repository name it would be ambiguous, so the grammar refuses it. */
const IMAGE_ID = /^[a-f0-9]{64}$/;
/** Digests that can be verified; the hex length is part of the algorithm. */
const HEX_LENGTH: Readonly<Record<string, number>> = { sha256: 64, sha384: 96, sha512: 128 };

/**
 * Parses an image as it stands in a Pod. Total: any text gives a reference or one sentence that says what is wrong with it.
 */
export function parseReference(text: string): ParsedReference {
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  const { name, tag } = splitTag(at < 0 ? text : text.slice(0, at));
  const { registry, repository } = splitHost(name);
  const wrong =
    problemOfText(text) ??
    (digest === undefined ? undefined : problemOfDigest(digest)) ??
    problemOfTag(tag) ??
    problemOfName(registry, repository);
  if (wrong !== undefined) return { ok: false, problem: wrong };
  const kept = tag ?? (digest === undefined ? 'latest' : undefined);
  return {
    ok: true,
    reference: {
      registry,
      repository,
      ...(kept === undefined ? {} : { tag: kept }),
      ...(digest === undefined ? {} : { digest }),
    },
  };
}

/** The full form: `registry/repository[:tag][@digest]`. Parsing it gives the same reference again. */
export function format(reference: Reference): string {
  const { registry, repository, tag, digest } = reference;
  return `${registry}/${repository}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}

/** `registry/repository@digest`: the only form that both pins the bytes and lets the scheduler see where the image is (ImageLocality). */
export function withDigest(reference: Reference, digest: string): string {
  return `${reference.registry}/${reference.repository}@${digest}`;
}

/** The same repository under another tag; undefined if that would not be a tag (too long, bad characters): no candidate, not an error. */
export function withTag(reference: Reference, tag: string): Reference | undefined {
  return isTag(tag) ? { registry: reference.registry, repository: reference.repository, tag } : undefined;
}

/** The reference of one manifest of the same repository. */
export function atDigest(reference: Reference, digest: string): Reference {
  return { registry: reference.registry, repository: reference.repository, digest };
}

/** The tag as written or defaulted; undefined for references by digest alone, for which no tag may be guessed. */
export function tagOf(reference: Reference): string | undefined {
  return reference.tag;
}

/** Whether a text is a digest in the form that registries use, of an algorithm that can be verified. */
export function isDigest(text: string): boolean {
  return problemOfDigest(text) === undefined;
}

function isTag(text: string): boolean {
  return text.length <= MAX_TAG && TAG.test(text);
}

function problemOfTag(tag: string | undefined): string | undefined {
  if (tag === undefined || isTag(tag)) return undefined;
  return tag.length > MAX_TAG
    ? `the tag has ${tag.length} characters, the limit is ${MAX_TAG}`
    : `"${clip(tag, 60)}" is not a tag`;
}

function problemOfText(text: string): string | undefined {
  if (text === '') return 'the image is empty';
  if (IMAGE_ID.test(text)) return '64 hexadecimal digits are an image ID, not an image name; write repository@sha256:<digits>';
  return undefined;
}

/** A colon starts a tag only behind the last slash: before it, it starts a port. */
function splitTag(text: string): { name: string; tag?: string } {
  const colon = text.indexOf(':', text.lastIndexOf('/') + 1);
  return colon < 0 ? { name: text } : { name: text.slice(0, colon), tag: text.slice(colon + 1) };
}

/** The first component is a host if it has a dot, a colon or an upper-case letter, or is `localhost`; else the image is on Docker Hub. */
function splitHost(name: string): { registry: string; repository: string } {
  const slash = name.indexOf('/');
  const first = slash < 0 ? '' : name.slice(0, slash);
  const isHost = slash >= 0 && (/[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase());
  let registry = isHost ? first : DEFAULT_REGISTRY;
  let repository = isHost ? name.slice(slash + 1) : name;
  if (registry === 'index.docker.io') registry = DEFAULT_REGISTRY;
  if (registry === DEFAULT_REGISTRY && !repository.includes('/')) repository = `library/${repository}`;
  return { registry, repository };
}

function problemOfName(registry: string, repository: string): string | undefined {
  if (!HOST.test(registry)) return `"${clip(registry, 60)}" is not a registry host`;
  const bad = repository.split('/').find((component) => !COMPONENT.test(component));
  if (bad !== undefined) {
    const hint = bad !== bad.toLowerCase() && COMPONENT.test(bad.toLowerCase()) ? ': repository names are lower case' : '';
    return `"${clip(bad, 60)}" is not a part of a repository name${hint}`;
  }
  const length = registry.length + 1 + repository.length;
  return length > MAX_NAME ? `the name has ${length} characters, the limit is ${MAX_NAME}` : undefined;
}

function problemOfDigest(digest: string): string | undefined {
  if (!DIGEST.test(digest)) return `"${clip(digest, 60)}" is not a digest`;
  const algorithm = digest.slice(0, digest.indexOf(':'));
  const hex = digest.slice(algorithm.length + 1);
  const length = HEX_LENGTH[algorithm];
  if (length === undefined) return `digest algorithm "${clip(algorithm, 60)}" is not known`;
  return hex.length === length && hex === hex.toLowerCase()
    ? undefined
    : `a ${algorithm} digest has ${length} lower-case hexadecimal digits`;
}
