import { ANNOTATION } from '../api/names.js';
import type { ManifestFact } from './registry-port.js';

/** What a variant says it was made from. */
export interface SourceRecord {
  digest: string;
  /** Where it stands, for people. */
  where: string;
}

export interface Freshness {
  verdict: 'exact' | 'stale' | 'unknown';
  detail: string;
}

/** Source records in the order in which they are believed: our own annotation, then the OCI subject. */
export function sourceRecord(manifest: Pick<ManifestFact, 'annotations' | 'subject'>): SourceRecord | undefined {
  const annotated = manifest.annotations[ANNOTATION.sourceDigest];
  if (annotated !== undefined) return { digest: annotated, where: `annotation ${ANNOTATION.sourceDigest}` };
  return manifest.subject === undefined ? undefined : { digest: manifest.subject.digest, where: 'the OCI subject' };
}

/**
 * Whether a variant is the same program as its source, for one platform: its record must equal the digest of the source's manifest
 * for that platform, or of the source's index. Digests of two indexes are never compared: indexes are pushed again for reasons
 * that do not matter, such as attestations.
 */
export function judgeFreshness(record: SourceRecord | undefined, accepted: readonly string[]): Freshness {
  if (record === undefined) {
    return {
      verdict: 'unknown',
      detail: `the variant does not record its source; push it with the annotation ${ANNOTATION.sourceDigest}`,
    };
  }
  if (accepted.includes(record.digest))
    return { verdict: 'exact', detail: `${record.where} is ${short(record.digest)}, the source` };
  return {
    verdict: 'stale',
    detail: `${record.where} is ${short(record.digest)}, the source is ${accepted.map(short).join(' or ')}; convert the image again`,
  };
}

/** Enough of a digest for people to tell two apart. */
export function short(digest: string): string {
  const colon = digest.indexOf(':');
  return colon < 0 ? digest.slice(0, 19) : digest.slice(0, colon + 13);
}
