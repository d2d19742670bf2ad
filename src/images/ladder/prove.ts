import { ANNOTATION } from '../../api/names.js';
import { failureOf } from '../failure.js';
import type { Failure } from '../failure.js';
import type { ImageFormat } from '../formats/format.js';
import { RECORD_ARTIFACT_TYPE, judgeRecord, sourceRecord } from './freshness.js';
import type { Proof, SourceRecord } from './freshness.js';
import { lookupOf } from './question.js';
import type { VariantQuestion } from './question.js';
import { atDigest } from '../reference.js';
import type { Reference } from '../reference.js';
import type { Descriptor, ManifestFact, PlatformDescriptor } from '../registry-port.js';
import { ordinaryChildren } from '../resolve.js';
import type { SourcePlatform } from '../resolve.js';
import { compareStructure, compareTraits, noRecord } from './structure.js';
import type { Pair } from './structure.js';

/** One image of a variant and what it has to be made from. */
export interface Claim {
  question: VariantQuestion;
  format: ImageFormat;
  /** Names the repository of the variant. */
  candidate: Reference;
  /** The image, how the index lists it, and the index (or the image again where there is none). */
  image: ManifestFact;
  listed?: PlatformDescriptor;
  variant: ManifestFact;
  /** The platform of the source that it stands for. */
  of: SourcePlatform;
}

/** Most record artifacts that are read for one manifest. */
const MAX_RECORDS = 4;

/** The record that the variant itself carries. */
export function ownRecord({ image, listed, variant, format }: Claim): SourceRecord | undefined {
  return sourceRecord([image, listed, variant], format.records);
}

/**
 * Climbs the rungs until one says yes or no. A registry that fails on the way is told only if nothing else decides: an unreadable config
 * is no reason to distrust a record.
 */
export async function prove(claim: Claim): Promise<Proof | Failure> {
  const { question, of } = claim;
  const record = ownRecord(claim);
  if (record !== undefined) return judgeRecord(record, acceptedDigests(claim));
  if (claim.image.digest === of.digest)
    return { verdict: 'exact', rung: 'structure', detail: 'it is the very manifest of the source' };
  const pair = lazyPair(claim);
  const rungs: (() => Promise<Proof | undefined>)[] = [
    async () => compareStructure(claim.format, await pair()),
    () => recordArtifact(claim),
    ...(question.freshness === 'Probable' ? [async () => compareTraits(claim.format, await pair())] : []),
  ];
  return firstDecided(rungs);
}

async function firstDecided(rungs: readonly (() => Promise<Proof | undefined>)[]): Promise<Proof | Failure> {
  let failure: Failure | undefined;
  let undecided = noRecord('');
  for (const rung of rungs) {
    try {
      const proof = await rung();
      if (proof !== undefined && proof.verdict !== 'unknown') return proof;
      undecided = proof ?? undecided;
    } catch (error) {
      failure ??= failureOf(error);
    }
  }
  return failure?.notFound === true ? noRecord(`, and ${failure.message}`) : (failure ?? undecided);
}

/** The digests of the source that a record may name. */
function acceptedDigests({ question, of }: Claim): readonly string[] {
  return of.digest === question.source.digest ? [of.digest] : [of.digest, question.source.digest];
}

/** The manifests to compare; that of the source was read already for the platforms that matter, except where nodes are not known. */
function lazyPair({ question, candidate, image, of }: Claim): () => Promise<Pair> {
  const { source, port } = question;
  const lookup = lookupOf(question);
  return async () => {
    const manifest = of.manifest ?? (await port.manifest(atDigest(source.reference, of.digest), lookup));
    const read = async (from: Reference, { config }: ManifestFact) => port.config(from, config?.digest ?? '', lookup);
    return {
      source: manifest,
      variant: image,
      configs: async () => Promise.all([read(source.reference, manifest), read(candidate, image)]),
    };
  };
}

/**
 * A record that `harbinger record` pushed beside the variant, for converters that leave none. It has to refer to this very image or its
 * index, so that a record cannot outlive the image that it is about.
 */
async function recordArtifact(claim: Claim): Promise<Proof | undefined> {
  const { question, candidate, image, variant } = claim;
  const accepted = acceptedDigests(claim);
  // The record of a whole index does not say which of its platforms a variant without index is made for.
  const vague = variant.kind === 'manifest' && ordinaryChildren(question.source.fact).length > 1;
  let stale: Proof | undefined;
  for (const digest of new Set([image.digest, variant.digest])) {
    const { referrers } = await question.port.referrers(candidate, digest, lookupOf(question));
    for (const { digest: artifact } of recordsFirst(referrers, accepted)) {
      const source = await readRecord(claim, artifact, digest);
      if (source === undefined) continue;
      if (vague && source === question.source.digest) continue;
      const proof = judgeRecord({ digest: source, where: 'the record written by harbinger record' }, accepted, 'record-artifact');
      if (proof.verdict === 'exact') return proof;
      stale ??= proof;
    }
  }
  return stale;
}

/** Lists repeat the annotations of what they list: records that claim the source come first, so that others cannot crowd them out. */
function recordsFirst(referrers: readonly Descriptor[], accepted: readonly string[]): readonly Descriptor[] {
  const records = referrers.filter(({ artifactType }) => artifactType === RECORD_ARTIFACT_TYPE);
  const claims = ({ annotations }: Descriptor): boolean => accepted.includes(annotations[ANNOTATION.sourceDigest] ?? '');
  return [...records.filter(claims), ...records.filter((r) => !claims(r))].slice(0, MAX_RECORDS);
}

/** The source that a record of `about` names; undefined for one that was withdrawn: lists under a fallback tag go on to name it. */
async function readRecord({ question, candidate }: Claim, artifact: string, about: string): Promise<string | undefined> {
  try {
    const { annotations, subject } = await question.port.manifest(atDigest(candidate, artifact), lookupOf(question));
    return subject?.digest === about ? annotations[ANNOTATION.sourceDigest] : undefined;
  } catch (error) {
    if (failureOf(error).notFound) return undefined;
    throw error;
  }
}
