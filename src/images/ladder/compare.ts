import { failureOf } from '../failure.js';
import type { ImageFormat } from '../formats/format.js';
import { vendorNote } from '../formats/alibaba.js';
import type { Rung } from './freshness.js';
import { weakest } from './freshness.js';
import { MAX_CHOICES, choicesFor } from './picks.js';
import type { Choice, Place } from './picks.js';
import { ownRecord, prove } from './prove.js';
import type { Claim } from './prove.js';
import { recognise } from './recognise.js';
import type { Part, Seen, Sight } from './recognise.js';
import { otherPlatform } from './other-platform.js';
import { lookupOf } from './question.js';
import type { VariantQuestion } from './question.js';
import { atDigest, tagOf } from '../reference.js';
import type { Reference } from '../reference.js';
import type { ManifestFact, PlatformDescriptor } from '../registry-port.js';
import { ordinaryChildren, platformOf } from '../resolve.js';
import type { SourcePlatform } from '../resolve.js';
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

/** One platform: is there an image for it, is it of the format, is everything that a node may take for it made from the source? */
export async function comparePlatform(comparison: Comparison, of: SourcePlatform, trail: Trail): Promise<Compared> {
  const { variant, listed } = comparison;
  if (variant.kind === 'manifest') {
    const only = { manifest: variant, ...(listed === undefined ? {} : { listed }) };
    return compareImages(comparison, { of, label: of.platform ?? 'its platform', seen: [only] }, trail);
  }
  const label = of.platform ?? 'its platform';
  const choices = await choicesOf(comparison.question, variant, of);
  if (choices.length === 0) return platformMissing(label, trail);
  if (choices.length > MAX_CHOICES)
    return trail.miss(
      'platform-missing',
      'platform',
      `nodes may take images of more than ${MAX_CHOICES} platforms of the variant for ${label}, which are not all compared; convert the platforms of the source only`,
    );
  const proven: Exclude<Compared, Miss>[] = [];
  for (const choice of choices) {
    const compared = await compareChoice(comparison, of, choice, trail);
    if ('outcome' in compared) return compared;
    proven.push(compared);
  }
  return { portable: proven.every(({ portable }) => portable), rung: weakest(proven.map(({ rung }) => rung)) };
}

/** What nodes may take from the variant where they run this image of the source. A source without index has its platform in its config. */
export async function choicesOf(
  question: Pick<VariantQuestion, 'source' | 'port' | 'credential' | 'signal'>,
  variant: ManifestFact,
  of: SourcePlatform,
): Promise<readonly Choice[]> {
  const { source, port } = question;
  const listed: readonly Place[] = source.fact.kind === 'index' ? ordinaryChildren(source.fact) : [of];
  const choices = choicesFor(variant, of, listed);
  const config = source.fact.config?.digest;
  if (of.platform !== undefined || choices.length < 2 || config === undefined) return choices;
  const platform = await platformOf(port, source.reference, config, lookupOf(question));
  return platform === undefined ? choices : choicesFor(variant, { platform }, [{ platform }]);
}

/** Everything below the variant's digest is read by digest. */
async function compareChoice(comparison: Comparison, of: SourcePlatform, choice: Choice, trail: Trail): Promise<Compared> {
  const { question, candidate } = comparison;
  let seen: readonly Seen[];
  try {
    seen = await Promise.all(
      choice.images.map(async (listed) => ({
        listed,
        manifest: await question.port.manifest(atDigest(candidate, listed.digest), lookupOf(question)),
      })),
    );
  } catch (error) {
    const failure = failureOf(error);
    return trail.miss(failure.outcome, 'platform', failure.message);
  }
  return compareImages(comparison, { of, label: choice.place.platform ?? 'its platform', choice, seen }, trail);
}

interface Images extends Sight {
  of: SourcePlatform;
  /** The platform of these images, for people. */
  label: string;
}

/** The images that nodes may take for one platform: is it the format, are all of them made from the source? */
async function compareImages(comparison: Comparison, { of, label, ...sight }: Images, trail: Trail): Promise<Compared> {
  const { format, candidate, variant } = comparison;
  const recognised = recognise(format, sight);
  if (!recognised.is && recognised.absent === true) return platformMissing(label, trail);
  if (!recognised.is) {
    const note = vendorNote(tagOf(candidate));
    const why = `not ${format.name} for ${label}: ${recognised.detail}`;
    return trail.miss('variant-unrecognised', 'format', note === undefined ? why : `${why}; ${note}`);
  }
  const { parts, portable, detail, flag } = recognised;
  trail.note('format', 'yes', `${format.name} for ${label}: ${detail}`);
  if (flag !== undefined) trail.note('index order', 'unknown', flag);
  const borrowed = borrowedElsewhere(comparison, parts);
  if (borrowed !== undefined) return trail.miss('variant-unrecognised', 'layers', borrowed);
  const claims = parts.map((part) => ({ ...claimOf(comparison, part, of), name: parts.length === 1 ? '' : `${part.name}: ` }));
  const [only] = claims;
  if (variant.kind === 'manifest' && only !== undefined && (await isForAnotherPlatform(only)))
    return trail.miss(
      'platform-missing',
      'platform',
      `the variant is one manifest, made for another platform than ${of.platform ?? 'that of the source'}; convert all platforms of the source`,
    );
  const rungs = await proveAll(claims, trail);
  return 'outcome' in rungs ? rungs : { portable, rung: weakest(rungs) };
}

function platformMissing(label: string, trail: Trail): Miss {
  const detail = `the variant has no image for ${label}; convert all platforms of the source`;
  return trail.miss('platform-missing', 'platform', detail);
}

function claimOf({ question, candidate, variant }: Comparison, { manifest, listed, format }: Part, of: SourcePlatform): Claim {
  return { question, candidate, variant, format, of, image: manifest, ...(listed === undefined ? {} : { listed }) };
}

/** Such images work where they are pulled, but not where they are run: layers that they only refer to are not copied with them. */
function borrowedElsewhere({ question, candidate }: Comparison, parts: readonly Part[]): string | undefined {
  const [from, own] = [question.source.reference.repository, candidate.repository];
  if (from === own || !parts.some(({ format, manifest }) => format.borrows?.(manifest) === true)) return undefined;
  return `it reads layers of the source, and nodes ask for them in its own repository ${own}, not in ${from}; convert it into the repository of the source (tagSuffix), or to a form that holds all of its data`;
}

/** Proves each image that some node may run. */
async function proveAll(claims: readonly (Claim & { name: string })[], trail: Trail): Promise<readonly Rung[] | Miss> {
  const proofs = await Promise.all(claims.map(async (claim) => ({ claim, proof: await prove(claim) })));
  const rungs: Rung[] = [];
  for (const { claim, proof } of proofs) {
    const { name } = claim;
    if ('outcome' in proof) return trail.miss(proof.outcome, 'freshness', `${name}${proof.message}`);
    if (proof.rung === undefined) {
      const stale = proof.verdict === 'stale';
      const note = stale ? undefined : vendorNote(tagOf(claim.candidate));
      return trail.miss(stale ? 'variant-stale' : 'freshness-unknown', 'freshness', `${name}${note ?? proof.detail}`);
    }
    trail.note('freshness', 'yes', `${name}${proof.verdict} by ${proof.rung}: ${proof.detail}`);
    rungs.push(proof.rung);
  }
  return rungs;
}

/** A variant without index covers one platform only; its record says which, or its config where the record does not. */
async function isForAnotherPlatform(claim: Claim): Promise<boolean> {
  const { question, candidate, variant, of } = claim;
  const all = ordinaryChildren(question.source.fact);
  const recorded = ownRecord(claim)?.digest;
  if (recorded === of.digest || claim.image.digest === of.digest) return false;
  if (all.length < 2) return isForeign(claim);
  if (recorded !== undefined && all.some((child) => child.digest === recorded)) return true;
  const whole = recorded === question.source.digest;
  if ((recorded !== undefined && !whole) || variant.config === undefined || of.platform === undefined) return false;
  const platform = await platformOf(question.port, candidate, variant.config.digest, lookupOf(question));
  // A record of the whole index says nothing of the platform; without any record the structure will.
  return platform === undefined ? whole : platform !== of.platform;
}

/** A source with one image only: a record of it names no platform, and programs for two of them can have equal traits. */
async function isForeign({ question, candidate, image, of }: Claim): Promise<boolean> {
  const { source, port: registry } = question;
  try {
    return (await otherPlatform({ registry, lookup: lookupOf(question), of, source: source.reference, image, candidate }))
      .certain;
  } catch {
    // The manifest of the source is out of reach: whatever proves the variant has to read it as well, and tells why.
    return false;
  }
}
