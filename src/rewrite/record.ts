import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Outcome } from '../api/outcomes.js';
import type { Reference } from '../images/reference.js';
import { format as write, parseReference, withDigest } from '../images/reference.js';

/** What one gang was promised to run: the projection of an ImagePrewarm that the webhook keeps. */
export interface GangRecord {
  /** namespace/name of the ImagePrewarm. */
  prewarm: string;
  /** By normalised source, so that `nginx` and `docker.io/library/nginx:latest` are one image. */
  images: ReadonlyMap<string, RecordedImage>;
  /** The same by what is given: a Pod may have any number of images, and each is looked for. */
  byResolved: ReadonlyMap<string, RecordedImage>;
}

export interface RecordedImage {
  /** repository@digest that members of the gang run. */
  resolved: string;
  outcome: Extract<Outcome, 'pinned' | 'accelerated'>;
  /** Digest of the source manifest or index. */
  sourceDigest: string | undefined;
  /** repository@digest of the source: the same program for nodes that cannot run `resolved`; undefined without its digest. */
  plain: string | undefined;
  format: Format | undefined;
  /** Whether any node runs it; of a variant this counts only where it is recorded. */
  portable: boolean;
}

interface RawImage {
  source?: unknown;
  resolved?: unknown;
  digest?: unknown;
  outcome?: unknown;
  format?: unknown;
  portable?: unknown;
}

/**
 * Reads `status.targets` of an ImagePrewarm. Images that are not resolved yet are left out, and so is anything that does not name
 * a digest: the record exists to make members uniform, which a tag cannot.
 */
export function readRecord(prewarm: string, targets: readonly { images?: readonly RawImage[] }[] | undefined): GangRecord {
  const images = new Map<string, RecordedImage>();
  const byResolved = new Map<string, RecordedImage>();
  for (const raw of (targets ?? []).flatMap((t) => t.images ?? [])) {
    const { source, resolved } = raw;
    if (typeof source !== 'string' || typeof resolved !== 'string') continue;
    const [from, to] = [parseReference(source), parseReference(resolved)];
    if (!from.ok || !to.ok || to.reference.digest === undefined) continue;
    const image = readImage(raw, from.reference, resolved);
    images.set(write(from.reference), image);
    if (!byResolved.has(resolved)) byResolved.set(resolved, image);
  }
  return { prewarm, images, byResolved };
}

function readImage({ digest, outcome, format, portable }: RawImage, source: Reference, resolved: string): RecordedImage {
  const plain = typeof digest === 'string' ? withDigest(source, digest) : undefined;
  const accelerated = outcome === 'accelerated';
  return {
    resolved,
    outcome: accelerated ? 'accelerated' : 'pinned',
    sourceDigest: typeof digest === 'string' ? digest : undefined,
    // A digest that is none would give an image that no kubelet accepts.
    plain: plain !== undefined && parseReference(plain).ok ? plain : undefined,
    format: FORMATS.find((f) => f === format),
    portable: !accelerated || portable === true,
  };
}

export interface RecordHit {
  prewarm: string;
  image: RecordedImage;
}

/** What the records say about an image as a user wrote it. */
export function findRecorded(records: readonly GangRecord[], reference: Reference): RecordHit | undefined {
  const key = write(reference);
  for (const { prewarm, images } of records) {
    const hit = images.get(key);
    if (hit !== undefined) return { prewarm, image: hit };
  }
  return undefined;
}

/** The record that gives exactly this image, whatever its source was. */
export function findResolved(records: readonly GangRecord[], image: string): RecordHit | undefined {
  for (const { prewarm, byResolved } of records) {
    const hit = byResolved.get(image);
    if (hit !== undefined) return { prewarm, image: hit };
  }
  return undefined;
}
