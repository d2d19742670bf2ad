import type { Outcome } from '../api/outcomes.js';
import type { Reference } from '../images/reference.js';
import { format, parseReference } from '../images/reference.js';

/** What one gang was promised to run: the projection of an ImagePrewarm that the webhook keeps. */
export interface GangRecord {
  /** namespace/name of the ImagePrewarm. */
  prewarm: string;
  /** By normalised source, so that `nginx` and `docker.io/library/nginx:latest` are one image. */
  images: ReadonlyMap<string, RecordedImage>;
}

export interface RecordedImage {
  /** repository@digest that every member of the gang runs. */
  resolved: string;
  outcome: Extract<Outcome, 'pinned' | 'accelerated'>;
  /** Digest of the source manifest or index. */
  sourceDigest: string | undefined;
}

interface RawImage {
  source?: unknown;
  resolved?: unknown;
  digest?: unknown;
  outcome?: unknown;
}

/**
 * Reads `status.targets` of an ImagePrewarm. Images that are not resolved yet are left out, and so is anything that does not name
 * a digest: the record exists to make members uniform, which a tag cannot.
 */
export function readRecord(prewarm: string, targets: readonly { images?: readonly RawImage[] }[] | undefined): GangRecord {
  const images = new Map<string, RecordedImage>();
  for (const { source, resolved, digest, outcome } of (targets ?? []).flatMap((t) => t.images ?? [])) {
    if (typeof source !== 'string' || typeof resolved !== 'string') continue;
    const key = normalise(source);
    const to = parseReference(resolved);
    if (key === undefined || !to.ok || to.reference.digest === undefined) continue;
    images.set(key, {
      resolved,
      outcome: outcome === 'accelerated' ? 'accelerated' : 'pinned',
      sourceDigest: typeof digest === 'string' ? digest : undefined,
    });
  }
  return { prewarm, images };
}

function normalise(text: string): string | undefined {
  const reading = parseReference(text);
  return reading.ok ? format(reading.reference) : undefined;
}

export interface RecordHit {
  prewarm: string;
  image: RecordedImage;
}

/** What the records say about an image as a user wrote it. */
export function findRecorded(records: readonly GangRecord[], reference: Reference): RecordHit | undefined {
  const key = format(reference);
  for (const { prewarm, images } of records) {
    const hit = images.get(key);
    if (hit !== undefined) return { prewarm, image: hit };
  }
  return undefined;
}

/** The record that gives exactly this image, whatever its source was. */
export function findResolved(records: readonly GangRecord[], image: string): RecordHit | undefined {
  for (const { prewarm, images } of records) {
    for (const recorded of images.values()) if (recorded.resolved === image) return { prewarm, image: recorded };
  }
  return undefined;
}
