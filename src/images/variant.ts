import type { AccelerationPolicySpec, Format, VariantRule } from '../api/kinds/acceleration-policy.js';
import type { LeavingOutcome } from '../api/outcomes.js';
import { failureOf } from './failure.js';
import type { ImageFormat } from './formats/format.js';
import { formatOf, imageFormat } from './formats/index.js';
import { judgeFreshness, short, sourceRecord } from './freshness.js';
import { runsOn } from './platform.js';
import { atDigest, format, tagOf, withDigest, withTag } from './reference.js';
import type { Reference } from './reference.js';
import type { Credential, ManifestFact, RegistryPort } from './registry-port.js';
import { ordinaryChildren, platformOf } from './resolve.js';
import type { ResolvedSource, SourcePlatform } from './resolve.js';

/** One thing that was looked at on the way to a decision; `explain` prints them in order. */
export interface Step {
  /** Short name of the question, e.g. `source`, `candidate`, `format`, `freshness`. */
  step: string;
  /** The variant that the step is about; absent where it is about the source. */
  candidate?: string;
  detail: string;
  verdict: 'yes' | 'no' | 'unknown' | 'skip';
  /** Milliseconds that the step took, where time was measured. */
  ms?: number;
}

export interface VariantQuestion {
  source: ResolvedSource;
  /** In order of preference, from the policy. */
  rules: readonly VariantRule[];
  freshness?: AccelerationPolicySpec['freshness'];
  /** Form of `image` in the answer; Digest when absent. */
  output?: AccelerationPolicySpec['output'];
  port: RegistryPort;
  credential?: Credential;
  /** Platforms of the nodes that the Pod can land on; all platforms of the source when absent. */
  platforms?: readonly string[];
  signal?: AbortSignal;
  /** Why nodes may be unable to run a format that plain nodes cannot; absent where nothing is known of nodes, which is a doubt. */
  obstacle?: (format: Format) => string | undefined;
  /** Milliseconds that never jump, for the time of each step; steps have no time when absent. */
  now?: () => number;
}

interface Finding {
  /** One sentence for people. */
  message: string;
  evidence: readonly Step[];
}

/** `image` is what to write into the Pod, `digest` that of the variant's index or manifest. */
export type VariantAnswer =
  | (Finding & { outcome: 'accelerated'; image: string; digest: string; format: Format })
  | (Finding & { outcome: LeavingOutcome; image?: undefined; digest?: undefined; format?: Format });

type Miss = Exclude<VariantAnswer, { outcome: 'accelerated' }>;

/** Which miss is told when several rules missed: what could not be answered first, then the nearest miss. */
const NEAREST: readonly LeavingOutcome[] = [
  'auth-denied',
  'circuit-open',
  'budget-exceeded',
  'registry-error',
  'variant-stale',
  'freshness-unknown',
  'variant-unrecognised',
  'platform-missing',
  'variant-missing',
  'no-candidate',
];

/**
 * The ladder: finds the variant that is known to be the same program as `source`. Total: failures of registries are outcomes.
 * Every comparison is with the digests in `source`, and every manifest below a tag is read by digest, so a tag that moves
 * meanwhile cannot mix two images.
 */
export async function findVariant(question: VariantQuestion): Promise<VariantAnswer> {
  const { source, rules } = question;
  const name = format(source.reference);
  const evidence: Step[] = [
    { step: 'source', detail: `${name} is ${short(source.digest)} (${describePlatforms(source.platforms)})`, verdict: 'yes' },
  ];
  const own = source.platforms.flatMap(({ manifest }) => (manifest === undefined ? [] : [formatOf(manifest)]))[0];
  if (own !== undefined) {
    evidence.push({ step: 'source format', detail: `the source is ${own.name} itself`, verdict: 'yes' });
    return { outcome: 'already-accelerated', message: `${name} is ${own.name} already`, format: own.name, evidence };
  }
  let nearest: Miss | undefined;
  for (const rule of rules) {
    const answer = await tryRule(question, rule);
    evidence.push(...answer.evidence);
    if (answer.outcome === 'accelerated') return { ...answer, evidence };
    if (nearest === undefined || NEAREST.indexOf(answer.outcome) < NEAREST.indexOf(nearest.outcome)) nearest = answer;
  }
  return { ...(nearest ?? { outcome: 'no-candidate', message: 'the policy lists no variants' }), evidence };
}

/** What one rule came to; `steps` are the evidence of that rule alone. */
class Trail {
  readonly steps: Step[] = [];
  readonly candidate: string | undefined;

  constructor(candidate?: string) {
    this.candidate = candidate;
  }

  note(step: string, verdict: Step['verdict'], detail: string): void {
    this.steps.push({ step, ...(this.candidate === undefined ? {} : { candidate: this.candidate }), detail, verdict });
  }

  /** Ends the rule. The message names the candidate, as it stands alone in logs and annotations. */
  miss(outcome: LeavingOutcome, step: string, detail: string): Miss {
    const unanswered = NEAREST.indexOf(outcome) < NEAREST.indexOf('variant-stale') || outcome === 'freshness-unknown';
    this.note(step, outcome === 'no-candidate' ? 'skip' : unanswered ? 'unknown' : 'no', detail);
    return { outcome, message: this.candidate === undefined ? detail : `${this.candidate}: ${detail}`, evidence: this.steps };
  }
}

/** Climbs for one rule. What was found stays in the evidence, also where a later rung fails: people repair the last one. */
async function tryRule(question: VariantQuestion, rule: VariantRule): Promise<VariantAnswer> {
  const { source, port } = question;
  const candidate = candidateOf(source.reference, rule);
  if (typeof candidate === 'string') return new Trail().miss('no-candidate', 'candidate', candidate);
  const trail = new Trail(format(candidate));
  const imageFmt = imageFormat(rule.format);
  if (imageFmt === undefined)
    return trail.miss('no-candidate', 'format', `format ${rule.format} is not recognised by this version of Harbinger`);
  let variant: ManifestFact;
  try {
    variant = await port.manifest(candidate, lookupOf(question));
  } catch (error) {
    const failure = failureOf(error);
    return trail.miss(
      failure.outcome,
      'candidate',
      failure.notFound ? 'the registry has no such image; convert the source or correct tagSuffix' : failure.message,
    );
  }
  trail.note('candidate', 'yes', `found, ${short(variant.digest)}, ${variant.kind}`);
  const miss = await compare({ question, trail, candidate, variant, format: imageFmt });
  if (miss !== undefined) return miss;
  const image = outputForm(candidate, variant.digest, question.output ?? 'Digest');
  trail.note('output', 'yes', image);
  return {
    outcome: 'accelerated',
    message: `${rule.format} variant made from ${short(source.digest)}`,
    image,
    digest: variant.digest,
    format: rule.format,
    evidence: trail.steps,
  };
}

/** The variant's reference, or why the rule names none. */
function candidateOf(source: Reference, rule: VariantRule): Reference | string {
  const { tagSuffix } = rule.discover;
  if (tagSuffix === undefined)
    return `discovery by ${Object.keys(rule.discover).join(', ')} is not known to this version of Harbinger`;
  const tag = tagOf(source);
  if (tag === undefined) return `the image is named by digest, so there is no tag to put ${tagSuffix} behind`;
  return withTag(source, `${tag}${tagSuffix}`) ?? `${tag}${tagSuffix} is longer than a tag may be`;
}

interface Comparison {
  question: VariantQuestion;
  trail: Trail;
  candidate: Reference;
  variant: ManifestFact;
  format: ImageFormat;
}

/** Compares each platform; undefined if all of them are proven. */
async function compare(comparison: Comparison): Promise<Miss | undefined> {
  const { question, trail } = comparison;
  const wanted = question.platforms;
  const platforms = question.source.platforms.filter(
    ({ platform }) => platform === undefined || wanted === undefined || wanted.some((p) => runsOn(platform, p)),
  );
  if (platforms.length === 0)
    return trail.miss('platform-missing', 'platform', `the source has no image for ${wanted?.join(', ') ?? 'any platform'}`);
  for (const platform of platforms) {
    const miss = await comparePlatform(comparison, platform);
    if (miss !== undefined) return miss;
  }
  return undefined;
}

/** One platform: is there an image for it, is it of the format, is it made from the source? */
async function comparePlatform(comparison: Comparison, of: SourcePlatform): Promise<Miss | undefined> {
  const { question, trail, candidate, variant } = comparison;
  const label = of.platform ?? 'its platform';
  const child =
    variant.kind === 'manifest'
      ? variant
      : ordinaryChildren(variant).find((c) => of.platform === undefined || runsOn(c.platform, of.platform));
  if (child === undefined)
    return trail.miss(
      'platform-missing',
      'platform',
      `the variant has no image for ${label}; convert all platforms of the source`,
    );
  let manifest = variant;
  try {
    if (variant.kind === 'index') manifest = await question.port.manifest(atDigest(candidate, child.digest), lookupOf(question));
  } catch (error) {
    const failure = failureOf(error);
    return trail.miss(failure.outcome, 'platform', failure.message);
  }
  const { is, detail } = comparison.format.identify(manifest);
  if (!is) return trail.miss('variant-unrecognised', 'format', `not ${comparison.format.name} for ${label}: ${detail}`);
  trail.note('format', 'yes', `${comparison.format.name} for ${label}: ${detail}`);
  return provenFresh(comparison, of, manifest);
}

/**
 * The last rung. A child of an index that has no record of its own is covered by that of the index, as converters of whole
 * indexes write one record only.
 */
async function provenFresh(comparison: Comparison, of: SourcePlatform, manifest: ManifestFact): Promise<Miss | undefined> {
  const { question, trail, variant } = comparison;
  const { source } = question;
  const record = sourceRecord(manifest) ?? sourceRecord(variant);
  if (manifest === variant && record !== undefined && (await isForAnotherPlatform(comparison, of, record.digest))) {
    return trail.miss(
      'platform-missing',
      'platform',
      `the variant is one manifest, made for another platform than ${of.platform ?? 'that of the source'}; convert all platforms of the source`,
    );
  }
  const { verdict, detail } = judgeFreshness(record, of.digest === source.digest ? [of.digest] : [of.digest, source.digest]);
  if (verdict === 'stale') return trail.miss('variant-stale', 'freshness', detail);
  if (verdict === 'unknown') return trail.miss('freshness-unknown', 'freshness', detail);
  trail.note(
    'freshness',
    'yes',
    `${detail}${question.freshness === 'Probable' ? ' (judged as Exact: no weaker proof is known to this version)' : ''}`,
  );
  return undefined;
}

/** A variant without index covers one platform only; its record says which, or its config where the record names the whole index. */
async function isForAnotherPlatform(
  { question, candidate, variant }: Comparison,
  of: SourcePlatform,
  recorded: string,
): Promise<boolean> {
  const all = ordinaryChildren(question.source.fact);
  if (recorded === of.digest || all.length < 2) return false;
  if (all.some((child) => child.digest === recorded)) return true;
  if (recorded !== question.source.digest || variant.config === undefined || of.platform === undefined) return false;
  const platform = await platformOf(question.port, candidate, variant.config.digest, lookupOf(question));
  return platform === undefined || !runsOn(platform, of.platform);
}

/** Only a digest pins what was proven; the other forms are a choice of the policy. */
function outputForm(candidate: Reference, digest: string, output: AccelerationPolicySpec['output']): string {
  if (output === 'Tag') return format(candidate);
  return output === 'TagAndDigest' ? format({ ...candidate, digest }) : withDigest(candidate, digest);
}

function lookupOf({ credential, signal }: VariantQuestion): { credential?: Credential; signal?: AbortSignal } {
  return { ...(credential === undefined ? {} : { credential }), ...(signal === undefined ? {} : { signal }) };
}

function describePlatforms(platforms: readonly SourcePlatform[]): string {
  return platforms.map(({ platform, digest }) => `${platform ?? 'platform not stated'} ${short(digest)}`).join(', ');
}
