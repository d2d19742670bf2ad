import { failureOf } from './failure.js';
import { vendorNote } from './formats/alibaba.js';
import type { ImageFormat, Picked, VariantImage } from './formats/format.js';
import type { Rung } from './freshness.js';
import { weakest } from './freshness.js';
import { runsOn } from './platform.js';
import { ownRecord, prove } from './prove.js';
import type { Claim } from './prove.js';
import { lookupOf } from './question.js';
import type { VariantQuestion } from './question.js';
import { atDigest, tagOf } from './reference.js';
import type { Reference } from './reference.js';
import type { ManifestFact, PlatformDescriptor } from './registry-port.js';
import { ordinaryChildren, platformOf } from './resolve.js';
import type { SourcePlatform } from './resolve.js';
import type { Miss, Trail } from './trail.js';

/** A variant that was found, to be compared with the source. */
export interface Comparison {
  question: VariantQuestion;
  candidate: Reference;
  variant: ManifestFact;
  format: ImageFormat;
  /** For a child of the source's index: its entry there. */
  listed?: PlatformDescriptor;
}

/** One platform is proven, and how; or why it is not. */
export type Compared = { portable: boolean; rung: Rung } | Miss;

/** One platform: is there an image for it, is it of the format, is it made from the source? */
export async function comparePlatform(comparison: Comparison, of: SourcePlatform, trail: Trail): Promise<Compared> {
  const { variant, format } = comparison;
  const picked: Picked = variant.kind === 'index' ? format.pick(variant, of.platform) : {};
  if (variant.kind === 'index' && picked.image === undefined)
    return trail.miss(
      'platform-missing',
      'platform',
      `the variant has no image for ${of.platform ?? 'its platform'}; convert all platforms of the source`,
    );
  let image: VariantImage;
  try {
    image = await read(comparison, picked);
  } catch (error) {
    const failure = failureOf(error);
    return trail.miss(failure.outcome, 'platform', failure.message);
  }
  const identified = identify(comparison, image, of, trail);
  if ('outcome' in identified) return identified;
  const claim = { ...comparison, of, image: image.manifest, ...(image.listed === undefined ? {} : { listed: image.listed }) };
  if (variant.kind === 'manifest' && (await isForAnotherPlatform(claim)))
    return trail.miss(
      'platform-missing',
      'platform',
      `the variant is one manifest, made for another platform than ${of.platform ?? 'that of the source'}; convert all platforms of the source`,
    );
  const rungs = await proveAll(claim, image, trail);
  return 'outcome' in rungs ? rungs : { portable: identified.portable, rung: weakest(rungs) };
}

function identify(
  { format, candidate }: Comparison,
  image: VariantImage,
  { platform }: SourcePlatform,
  trail: Trail,
): { portable: boolean } | Miss {
  const label = platform ?? 'its platform';
  const identified = format.identify(image);
  if (!identified.is) {
    const note = vendorNote(tagOf(candidate));
    const why = `not ${format.name} for ${label}: ${identified.detail}`;
    return trail.miss('variant-unrecognised', 'format', note === undefined ? why : `${why}; ${note}`);
  }
  trail.note('format', 'yes', `${format.name} for ${label}: ${identified.detail}`);
  if (identified.flag !== undefined) trail.note('index order', 'unknown', identified.flag);
  return { portable: identified.portable };
}

/** Everything below the variant's digest is read by digest. */
async function read({ question, candidate, variant, format, listed }: Comparison, picked: Picked): Promise<VariantImage> {
  const get = async ({ digest }: PlatformDescriptor): Promise<ManifestFact> =>
    question.port.manifest(atDigest(candidate, digest), lookupOf(question));
  const { image, companion } = picked;
  if (image === undefined) return { manifest: variant, ...(listed === undefined ? {} : { listed }) };
  const [manifest, beside] = await Promise.all([
    get(image),
    companion !== undefined && format.runsCompanion ? get(companion) : undefined,
  ]);
  if (companion === undefined) return { manifest, listed: image };
  const first = variant.manifests.indexOf(companion) < variant.manifests.indexOf(image);
  return {
    manifest,
    listed: image,
    companion: { listed: companion, first, ...(beside === undefined ? {} : { manifest: beside }) },
  };
}

/** Proves each image that some node may run: in a merged index that is the ordinary one and the Nydus one. */
async function proveAll(claim: Claim, { companion }: VariantImage, trail: Trail): Promise<readonly Rung[] | Miss> {
  const claims =
    companion?.manifest === undefined ? [claim] : [claim, { ...claim, image: companion.manifest, listed: companion.listed }];
  const rungs: Rung[] = [];
  for (const [i, proof] of (await Promise.all(claims.map(prove))).entries()) {
    const which = claims.length === 1 ? '' : i === 0 ? 'the ordinary image: ' : 'the Nydus image: ';
    if ('outcome' in proof) return trail.miss(proof.outcome, 'freshness', `${which}${proof.message}`);
    if (proof.rung === undefined) {
      const stale = proof.verdict === 'stale';
      const note = stale ? undefined : vendorNote(tagOf(claim.candidate));
      return trail.miss(stale ? 'variant-stale' : 'freshness-unknown', 'freshness', `${which}${note ?? proof.detail}`);
    }
    trail.note('freshness', 'yes', `${which}${proof.verdict} by ${proof.rung}: ${proof.detail}`);
    rungs.push(proof.rung);
  }
  return rungs;
}

/** A variant without index covers one platform only; its record says which, or its config where the record does not. */
async function isForAnotherPlatform(claim: Claim): Promise<boolean> {
  const { question, candidate, variant, of } = claim;
  const all = ordinaryChildren(question.source.fact);
  const recorded = ownRecord(claim)?.digest;
  if (recorded === of.digest || all.length < 2) return false;
  if (recorded !== undefined && all.some((child) => child.digest === recorded)) return true;
  const whole = recorded === question.source.digest;
  if ((recorded !== undefined && !whole) || variant.config === undefined || of.platform === undefined) return false;
  const platform = await platformOf(question.port, candidate, variant.config.digest, lookupOf(question));
  // A record of the whole index says nothing of the platform; without any record the structure will.
  return platform === undefined ? whole : !runsOn(platform, of.platform);
}
