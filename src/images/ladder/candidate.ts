import type { AccelerationPolicySpec } from '../../api/kinds/acceleration-policy.js';
import { comparePlatform } from './compare.js';
import type { Comparison } from './compare.js';
import type { Candidate } from './discover.js';
import { failureOf } from '../failure.js';
import { TOC_IMAGE_SUFFIX } from '../formats/estargz.js';
import type { ImageFormat } from '../formats/format.js';
import type { Rung } from './freshness.js';
import { short, weakest } from './freshness.js';
import { lookupOf, wantedPlatforms } from './question.js';
import type { VariantAnswer, VariantQuestion } from './question.js';
import { atDigest, format as text, tagOf, withDigest } from '../reference.js';
import type { Reference } from '../reference.js';
import type { ManifestFact } from '../registry-port.js';
import { MAX_PLATFORMS } from '../resolve.js';
import { Trail } from './trail.js';
import type { Miss } from './trail.js';

/** Looks at one candidate: is it there, is it the format on every platform, is it the source, can the nodes run it? Total. */
export async function examine(
  question: VariantQuestion,
  format: ImageFormat,
  { reference, listed }: Candidate,
): Promise<VariantAnswer> {
  const trail = new Trail(text(reference), question.now);
  const variant = await find(question, reference, trail);
  if ('outcome' in variant) return variant;
  const comparison: Comparison = { question, candidate: reference, variant, format, ...(listed === undefined ? {} : { listed }) };
  const proven = await compareAll(comparison, trail);
  if ('outcome' in proven) return proven;
  const unable = proven.portable ? undefined : obstacleOf(question, format);
  if (unable !== undefined) return trail.miss('node-incapable', 'nodes', unable);
  if (!proven.portable) trail.note('nodes', 'yes', `every node that the Pod can land on runs ${format.name}`);
  const hidden = proven.portable ? undefined : await unreadable(question, format, atDigest(reference, variant.digest), trail);
  if (hidden !== undefined) return hidden;
  const gone = reference.digest === undefined ? await missingByDigest(question, reference, variant, trail) : undefined;
  if (gone !== undefined) return gone;
  const image = outputForm(reference, variant.digest, question.output ?? 'Digest');
  noteExternalTables(comparison, proven.rung, image, trail);
  trail.note('output', 'yes', image);
  return {
    outcome: 'accelerated',
    message: `${format.name} variant made from ${short(question.source.digest)} (${WORDS[proven.rung]})`,
    image,
    digest: variant.digest,
    format: format.name,
    rung: proven.rung,
    portable: proven.portable,
    evidence: trail.steps,
  };
}

/** How it is known, for the message. */
const WORDS: Readonly<Record<Rung, string>> = {
  record: 'exact, by its own record',
  structure: 'exact, by what it is made of',
  'record-artifact': 'exact, by a record beside it',
  traits: 'probable, by its config',
};

async function find(question: VariantQuestion, reference: Reference, trail: Trail): Promise<ManifestFact | Miss> {
  try {
    const variant = await question.port.manifest(reference, lookupOf(question));
    trail.note('candidate', 'yes', `found, ${short(variant.digest)}, ${variant.kind}`);
    return variant;
  } catch (error) {
    const failure = failureOf(error);
    const absent = 'the registry has no such image; convert the source or correct the rule of the policy';
    return trail.miss(failure.outcome, 'candidate', failure.notFound ? absent : failure.message);
  }
}

/** Platforms are compared at once, as each costs several calls; their evidence stays in order. */
async function compareAll(comparison: Comparison, trail: Trail): Promise<{ portable: boolean; rung: Rung } | Miss> {
  const { question } = comparison;
  const platforms = wantedPlatforms(question);
  if (platforms.length > MAX_PLATFORMS)
    return trail.miss(
      'platform-missing',
      'platform',
      `the source has ${platforms.length} platforms, more than ${MAX_PLATFORMS} are not compared`,
    );
  if (platforms.length === 0)
    return trail.miss(
      'platform-missing',
      'platform',
      `the source has no image for ${question.platforms?.join(', ') ?? 'any platform'}`,
    );
  const branches = platforms.map(() => trail.branch());
  const compared = await Promise.all(
    platforms.map(async (platform, i) => comparePlatform(comparison, platform, branches[i] ?? trail.branch())),
  );
  const proven: { portable: boolean; rung: Rung }[] = [];
  for (const [i, result] of compared.entries()) {
    const branch = branches[i];
    if (branch !== undefined) trail.join(branch);
    if ('outcome' in result) return { ...result, evidence: trail.steps };
    proven.push(result);
  }
  return { portable: proven.every(({ portable }) => portable), rung: weakest(proven.map(({ rung }) => rung)) };
}

/** Where nothing is known of nodes, one of them may be unable. */
function obstacleOf({ obstacle }: VariantQuestion, { name }: ImageFormat): string | undefined {
  if (obstacle === undefined)
    return `only nodes that know ${name} can run it, and the nodes that the Pod can land on are not known`;
  return obstacle(name);
}

/**
 * Nodes pull a format that plain nodes cannot run through its snapshotter, which reads layers while the container runs: the pull secrets of
 * a Pod do not reach it everywhere (cases part 5, rule 9). What anybody may read needs none.
 */
async function unreadable(
  { port, privateObstacle, signal }: VariantQuestion,
  { name }: ImageFormat,
  variant: Reference,
  trail: Trail,
): Promise<Miss | undefined> {
  const doubt = `it is not known whether the snapshotters of the nodes can read private images of ${name}`;
  const why = privateObstacle === undefined ? doubt : privateObstacle(name);
  if (why === undefined) return undefined;
  try {
    await port.manifest(variant, { anonymous: true, ...(signal === undefined ? {} : { signal }) });
    trail.note('readable', 'yes', 'anybody may read the variant');
    return undefined;
  } catch (error) {
    const failure = failureOf(error);
    // Registries say "absent" of what they do not show to everyone.
    const denied = failure.outcome === 'auth-denied' || failure.notFound;
    return denied
      ? trail.miss('node-incapable', 'readable', `the variant is private: ${why}`)
      : trail.miss(failure.outcome, 'readable', failure.message);
  }
}

/** Registries with a stale index answer for a tag what they do not have any more; kubelets would ask for the digest without end. */
async function missingByDigest(
  question: VariantQuestion,
  reference: Reference,
  { digest }: ManifestFact,
  trail: Trail,
): Promise<Miss | undefined> {
  try {
    await question.port.manifest(atDigest(reference, digest), lookupOf(question));
    return undefined;
  } catch (error) {
    const failure = failureOf(error);
    const detail = `the registry answers for the tag, but has nothing under its digest ${short(digest)}; push the variant again`;
    return trail.miss(failure.outcome, 'digest', failure.notFound ? detail : failure.message);
  }
}

/** Only a digest pins what was proven; the other forms are a choice of the policy, and possible only where the variant has a tag. */
function outputForm(candidate: Reference, digest: string, output: AccelerationPolicySpec['output']): string {
  if (tagOf(candidate) === undefined || output === 'Digest') return withDigest(candidate, digest);
  return output === 'Tag' ? text(candidate) : text({ ...candidate, digest });
}

/**
 * Only tables of contents in a second image leave the unpacked layers as they are. stargz-snapshotter makes the name of that image out of the
 * name in the Pod, which it cannot do with a digest in it (externaltoc/converter.go, getTOCReference): then the image runs, but is not lazy.
 */
function noteExternalTables({ format, question }: Comparison, rung: Rung, image: string, trail: Trail): void {
  if (format.name !== 'estargz' || rung !== 'structure' || !image.includes('@')) return;
  const output = question.output ?? 'Digest';
  const detail = `its tables of contents are in a second image (tag and ${TOC_IMAGE_SUFFIX}), which nodes find only by tag: with output ${output} they pull the image in full; set output: Tag`;
  trail.note('external tables', 'unknown', detail);
}
