import { ANNOTATION } from '../../api/names.js';
import type { ManifestFact } from '../registry-port.js';

/**
 * How it is known that a variant is the same program as its source, strongest first: the variant's own record of its source; its layers or
 * contents; a record that Harbinger's command line wrote beside it; traits of its config, which only make it probable.
 */
export const RUNGS = ['record', 'structure', 'record-artifact', 'traits'] as const;
export type Rung = (typeof RUNGS)[number];

/** What a variant says it was made from. */
export interface SourceRecord {
  digest: string;
  /** Where it stands, for people. */
  where: string;
}

/** What one rung says. `unknown` lets the next one be asked, `stale` does not. */
export type Proof =
  | { verdict: 'exact' | 'probable'; rung: Rung; detail: string }
  | { verdict: 'stale' | 'unknown'; rung?: undefined; detail: string };

/** Artifact type of the record that `harbinger record SOURCE VARIANT` pushes as a referrer of the variant. */
export const RECORD_ARTIFACT_TYPE = 'application/vnd.harbinger.source.v1+json';
/** acceld v0.1.0 to v0.2.4 wrote this for all its formats; nothing writes it today. */
const LEGACY_HARBOR = 'io.goharbor.artifact.v1alpha1.acceleration.source.digest';

/** What may carry a record, the nearest to the image first: its manifest, its entry in the index, the index. */
type Carrier = Partial<Pick<ManifestFact, 'annotations' | 'subject'>> | undefined;

/**
 * The record of the source, by the first carrier that has one. Records are believed in this order: our own annotation, those of the
 * format's converters, then the OCI subject. A child of an index that has none is covered by that of the index, as converters of whole
 * indexes write one only.
 */
export function sourceRecord(carriers: readonly Carrier[], keys: readonly string[] = []): SourceRecord | undefined {
  for (const carrier of carriers) {
    for (const key of [ANNOTATION.sourceDigest, ...keys, LEGACY_HARBOR]) {
      const digest = carrier?.annotations?.[key];
      if (digest !== undefined) return { digest, where: `annotation ${key}` };
    }
    if (carrier?.subject !== undefined) return { digest: carrier.subject.digest, where: 'the OCI subject' };
  }
  return undefined;
}

/**
 * Whether a record is that of the source, for one platform: it must equal the digest of the source's manifest for that platform, or of the
 * source's index. Digests of two indexes are never compared: indexes are pushed again for reasons that do not matter, such as attestations.
 */
export function judgeRecord(record: SourceRecord, accepted: readonly string[], rung: Rung = 'record'): Proof {
  if (accepted.includes(record.digest))
    return { verdict: 'exact', rung, detail: `${record.where} is ${short(record.digest)}, the source` };
  return {
    verdict: 'stale',
    detail: `${record.where} is ${short(record.digest)}, the source is ${accepted.map(short).join(' or ')}; convert the image again`,
  };
}

/** The weakest of some rungs: a variant is as sure as its least sure platform. */
export function weakest(rungs: readonly Rung[]): Rung {
  return RUNGS[Math.max(0, ...rungs.map((rung) => RUNGS.indexOf(rung)))] ?? 'record';
}

/** Enough of a digest for people to tell two apart. Records are written by others: what is no digest is cut and cleaned. */
export function short(digest: string): string {
  const colon = digest.indexOf(':');
  return digest.slice(0, colon < 0 || colon > 10 ? 19 : colon + 13).replace(/[^\x21-\x7e]/g, '?');
}
