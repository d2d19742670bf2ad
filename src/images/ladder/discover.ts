import type { VariantRule } from '../../api/kinds/acceleration-policy.js';
import type { LeavingOutcome } from '../../api/outcomes.js';
import { discoverReferrers } from './discover-referrers.js';
import { isRunnable, markOf } from '../formats/marks.js';
import { samePlace } from './picks.js';
import { wantedPlatforms } from './question.js';
import type { VariantQuestion } from './question.js';
import { atDigest, tagOf, withTag } from '../reference.js';
import type { Reference } from '../reference.js';
import type { PlatformDescriptor } from '../registry-port.js';
import { expandTemplate } from './template.js';

/** Where a variant may be. */
export interface Candidate {
  reference: Reference;
  /** How the index of the source lists it, for a child of that index. */
  listed?: PlatformDescriptor;
}

/** What a rule leads to. Candidates are looked at in order, and the first that is proven wins. */
export type Discovery =
  { candidates: readonly Candidate[] } | { candidates?: undefined; outcome: LeavingOutcome; step: string; detail: string };

/** Most candidates of one rule that are read: who can push referrers decides how many there are. */
export const MAX_CANDIDATES = 8;

/** Finds where the variants that a rule speaks of may be. Total. */
export async function discover(question: VariantQuestion, rule: VariantRule): Promise<Discovery> {
  const { tagSuffix, repositoryTemplate, index, referrers } = rule.discover;
  if (tagSuffix !== undefined) return byTag(question.source.reference, tagSuffix);
  if (repositoryTemplate !== undefined) return one(expandTemplate(question.source.reference, repositoryTemplate));
  if (index === true) return byIndex(question, rule);
  if (referrers === true) return discoverReferrers(question, rule, MAX_CANDIDATES);
  return none('the rule names no way of discovery');
}

function byTag(source: Reference, suffix: string): Discovery {
  const tag = tagOf(source);
  if (tag === undefined) return none(`the image is named by digest, so there is no tag to put ${suffix} behind`);
  return one(withTag(source, `${tag}${suffix}`) ?? `${tag}${suffix} is longer than a tag may be`);
}

/** Children of the same index for the platform that are not the source: podman, buildah and skopeo add zstd images this way. */
function byIndex(question: VariantQuestion, { format }: VariantRule): Discovery {
  const { source } = question;
  if (source.fact.kind !== 'index') return none('the image has no index in which a variant could stand');
  // What such an index holds is run by the nodes themselves; the child alone would not run on plain nodes.
  if (format === 'nydus' || format === 'soci') return none(`no ${format} image stands in the index of the source`);
  const [only, ...more] = wantedPlatforms(question);
  if (only === undefined || more.length > 0)
    return none('a child of the index serves one platform, and the Pod can land on nodes of several');
  const children = source.fact.manifests.filter(
    (child) =>
      child.digest !== only.digest &&
      (only.platform === undefined || samePlace(child, only)) &&
      isRunnable(markOf(child)) &&
      markOf(child) !== 'nydus',
  );
  if (children.length === 0) return missing(`its index has no second image for ${only.platform ?? 'the platform'}`);
  const candidates = children
    .slice(0, MAX_CANDIDATES)
    .map((child) => ({ reference: atDigest(source.reference, child.digest), listed: child }));
  return { candidates };
}

function one(candidate: Reference | string): Discovery {
  return typeof candidate === 'string' ? none(candidate) : { candidates: [{ reference: candidate }] };
}

function none(detail: string): Discovery {
  return { outcome: 'no-candidate', step: 'candidate', detail };
}

function missing(detail: string): Discovery {
  return { outcome: 'variant-missing', step: 'candidate', detail };
}
