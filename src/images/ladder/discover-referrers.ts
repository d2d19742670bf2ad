import type { Format, VariantRule } from '../../api/kinds/acceleration-policy.js';
import { NYDUS_ARTIFACT, OVERLAYBD_ARTIFACTS, SOCI_V1 } from '../artifact-types.js';
import type { Candidate, Discovery } from './discover.js';
import { failureOf } from '../failure.js';
import { isImageType } from '../formats/marks.js';
import { lookupOf, wantedPlatforms } from './question.js';
import type { VariantQuestion } from './question.js';
import { atDigest } from '../reference.js';
import type { Descriptor, ReferrersFact } from '../registry-port.js';

/** Artifact types by which formats mark their images. Nydus with a subject has none of its own, so plain images are candidates too. */
const OF_FORMAT: Readonly<Partial<Record<Format, readonly string[]>>> = {
  nydus: [NYDUS_ARTIFACT],
  overlaybd: OVERLAYBD_ARTIFACTS,
};

/**
 * Images that refer to the source. The index is asked about first, as its referrers cover all platforms; a referrer of one platform's
 * manifest is of use only where no other platform is wanted. Total.
 */
export async function discoverReferrers(question: VariantQuestion, { format }: VariantRule, max: number): Promise<Discovery> {
  const { source, port } = question;
  const wanted = wantedPlatforms(question);
  const digests = new Set([source.digest, ...(wanted.length === 1 ? wanted.map(({ digest }) => digest) : [])]);
  let facts: ReferrersFact[];
  try {
    facts = await Promise.all([...digests].map((digest) => port.referrers(source.reference, digest, lookupOf(question))));
  } catch (error) {
    const { outcome, message } = failureOf(error);
    return { outcome, step: 'referrers', detail: message };
  }
  const found = facts.flatMap(({ referrers }) => referrers);
  if (format === 'soci') return firstGeneration(found);
  const images = found.filter((referrer) => mayBe(referrer, format));
  if (images.length === 0) return nothing(facts, found.length, format);
  const marked = (referrer: Descriptor): number => ((OF_FORMAT[format] ?? []).includes(referrer.artifactType ?? '') ? 0 : 1);
  const ordered = images.toSorted((a, b) => marked(a) - marked(b)).slice(0, max);
  return { candidates: ordered.map(({ digest }): Candidate => ({ reference: atDigest(source.reference, digest) })) };
}

/** Signatures, attestations and software lists refer to images too, and can be many: they are not read. */
function mayBe({ artifactType }: Descriptor, format: Format): boolean {
  return isImageType(artifactType) || (OF_FORMAT[format] ?? []).includes(artifactType ?? '');
}

/** A SOCI index of the first generation leaves the image as it is: there is nothing to write, and the node decides. */
function firstGeneration(found: readonly Descriptor[]): Discovery {
  const detail = found.some(({ artifactType }) => artifactType === SOCI_V1)
    ? 'a SOCI index of the first generation (v1) refers to the image, so there is nothing to write; nodes use it by themselves, but only where v1 is switched on, which it is not by default'
    : 'no SOCI index of the first generation refers to the image, and one of the second (v2) is found by its tag';
  return { outcome: 'no-candidate', step: 'referrers', detail };
}

function nothing(facts: readonly ReferrersFact[], count: number, format: Format): Discovery {
  const unable = facts.every(({ how }) => how === 'unsupported');
  const detail = unable
    ? `the registry cannot tell what refers to the image: ${facts[0]?.detail ?? ''}`
    : `none of the ${count} referrers of the image can be ${format}`;
  return { outcome: unable ? 'no-candidate' : 'variant-missing', step: 'referrers', detail };
}
