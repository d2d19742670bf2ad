import type { VariantRule } from '../../api/kinds/acceleration-policy.js';
import { examine } from './candidate.js';
import { discover } from './discover.js';
import type { ImageFormat } from '../formats/format.js';
import { formatOf, imageFormat } from '../formats/index.js';
import { short } from './freshness.js';
import type { VariantAnswer, VariantQuestion } from './question.js';
import { format } from '../reference.js';
import type { SourcePlatform } from '../resolve.js';
import { Trail, nearer } from './trail.js';
import type { Miss, Step } from './trail.js';

export type { VariantAnswer, VariantQuestion } from './question.js';
export type { Step } from './trail.js';

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
  const own = formatOfSource(question);
  if (own !== undefined) evidence.push({ step: 'source format', detail: `the source is ${own.name} itself`, verdict: 'yes' });
  if (own?.lazy === true)
    return { outcome: 'already-accelerated', message: `${name} is ${own.name} already`, format: own.name, evidence };
  let nearest: Miss | undefined;
  for (const rule of rules) {
    const answer = await tryRule(question, rule, own);
    evidence.push(...answer.evidence);
    if (answer.outcome === 'accelerated') return { ...answer, evidence };
    nearest = nearer(nearest, answer);
  }
  return { ...(nearest ?? { outcome: 'no-candidate', message: 'the policy lists no variants' }), evidence };
}

/** Climbs for one rule. What was found stays in the evidence, also where a later rung fails: people repair the last one. */
async function tryRule(question: VariantQuestion, rule: VariantRule, own: ImageFormat | undefined): Promise<VariantAnswer> {
  const trail = new Trail(undefined, question.now);
  if (own?.name === rule.format) {
    const miss = trail.miss('already-accelerated', 'candidate', `${format(question.source.reference)} is ${own.name} already`);
    return { ...miss, format: own.name };
  }
  const found = await discover(question, rule);
  if (found.candidates === undefined) return trail.miss(found.outcome, found.step, found.detail);
  let nearest: Miss | undefined;
  const evidence: Step[] = [];
  for (const candidate of found.candidates) {
    const answer = await examine(question, imageFormat(rule.format), candidate);
    evidence.push(...answer.evidence);
    if (answer.outcome === 'accelerated') return { ...answer, evidence };
    nearest = nearer(nearest, answer);
  }
  return { ...(nearest ?? trail.miss('no-candidate', 'candidate', 'there is no candidate')), evidence };
}

/** The format that the source has already on a platform that was looked at. */
function formatOfSource({ source }: VariantQuestion): ImageFormat | undefined {
  const index = source.fact.kind === 'index' ? source.fact : undefined;
  const formats = source.platforms.map((place) =>
    place.manifest === undefined ? undefined : formatOf(place.manifest, index, place),
  );
  return formats.find((found) => found !== undefined);
}

function describePlatforms(platforms: readonly SourcePlatform[]): string {
  return platforms.map(({ platform, digest }) => `${platform ?? 'platform not stated'} ${short(digest)}`).join(', ');
}
