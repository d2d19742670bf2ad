import type { Decision } from '../api/outcomes.js';
import { parseReference } from '../images/reference.js';
import type { Claim } from './claims.js';
import { claimsOf, recordKnows, weigh } from './claims.js';
import { decision, leave } from './decision.js';
import { evaluate } from './evaluate.js';
import type { PodContainer } from './pod-view.js';
import type { GangRecord } from './record.js';
import { findRecorded, findResolved } from './record.js';
import type { Answer, Lookup, Question, Situation, Verdict } from './situation.js';
import type { Skip } from './skip.js';
import { skipContainer, skippedNames, skipOwner } from './skip.js';

export type { Answer, Question, Situation, Verdict } from './situation.js';

/** Most images of a Pod that no record knows and that are looked at: each may be another question to a registry. Real Pods have a few. */
const MAX_IMAGES = 128;

/** The questions whose answers `decide` will look up; without duplicates. */
export function questionsOf(situation: Situation): Question[] {
  const questions = new Map<string, Question>();
  const unanswered: Lookup = (question) => {
    questions.set(question.key, question);
    return undefined;
  };
  judgeAll(situation, unanswered);
  return [...questions.values()];
}

/**
 * Decides about every container of a Pod, and about image volumes that the gang has a record of or that the configuration lets change; of
 * a Pod that is skipped as a whole, only about what an earlier call wrote. Total: a question without an answer is one whose answer did not
 * come within the budget. Order: opt-out, record of the gang, owner, policy.
 */
export function decide(situation: Situation, answers: ReadonlyMap<string, Answer>): Verdict[] {
  return judgeAll(situation, (question) => answers.get(question.key));
}

/** What is the same for all containers of one Pod. */
interface Round {
  situation: Situation;
  lookup: Lookup;
  claims: ReadonlyMap<string, Claim>;
  skipped: ReadonlySet<string>;
  owner: Skip | undefined;
  /** Why no registry is asked, or undefined. */
  crowd: string | undefined;
  /** Containers of which a record says something. */
  known: ReadonlySet<PodContainer>;
}

function judgeAll(situation: Situation, lookup: Lookup): Verdict[] {
  const { pod, namespace, records, rewrite } = situation;
  const claims = claimsOf(pod);
  const isKnown = ({ name, image }: PodContainer): boolean =>
    isRecorded(image, records) || recordKnows(records, claims.get(name)?.source, image);
  const known = new Set(records.length === 0 ? [] : pod.containers.filter(isKnown));
  // Unless the configuration says otherwise, a volume is only kept equal to what was warmed for its gang.
  const judged = pod.containers.filter((c) => c.kind !== 'volume' || rewrite.imageVolumes || known.has(c));
  const crowd = crowdText(judged.filter((c) => !known.has(c)).length);
  const [skipped, owner] = [skippedNames(pod, namespace), skipOwner(pod, rewrite.owners)];
  const round = { situation, lookup, claims, skipped, owner, crowd, known };
  return judged.flatMap((container) => judgeOne(container, round) ?? []);
}

function judgeOne(container: PodContainer, round: Round): Verdict | undefined {
  const { situation, skipped } = round;
  const claim = claimOf(container, round);
  const skip = situation.skip ?? skipContainer(container, skipped);
  const earlier = claim === undefined ? undefined : fromClaim(container, { claim, skip }, round);
  if (earlier !== undefined && earlier.unconfirmed === undefined) return earlier;
  if (situation.skip !== undefined) return earlier;
  if (skip !== undefined)
    return earlier ?? { decision: skipDecision(container.name, container.image, skip), container, already: false };
  // Judged in any case: should the claim be refuted, the answer about the image that stands there is needed at once.
  const decision = judge(container, container.image, round);
  if (earlier !== undefined) return earlier;
  return { decision, container, already: decision.outcome === 'already-accelerated' };
}

/** What a record says of the image that stands there needs no registry, and no other claim can talk it away. */
function claimOf(container: PodContainer, { situation, claims, known }: Round): Claim | undefined {
  const claim = claims.get(container.name);
  return known.has(container) && !recordKnows(situation.records, claim?.source, container.image) ? undefined : claim;
}

function judge(container: PodContainer, source: string, { situation, lookup, owner, crowd, known }: Round): Decision {
  // Not even parsed: of such Pods each container costs.
  if (crowd !== undefined && !known.has(container))
    return leave(container.name, source, { outcome: 'budget-exceeded', message: crowd });
  return evaluate({ container, source, owner }, situation, lookup);
}

interface Earlier {
  claim: Claim;
  skip: Skip | undefined;
}

/**
 * What an earlier call wrote, judged again; undefined where the claim is refuted. A confirmed one gives what its source gets now: the source
 * itself, where the container has been opted out since. One that nobody can confirm changes nothing: image and source are kept, or a slow
 * registry would have the image that we wrote pass for the user's own.
 */
function fromClaim(container: PodContainer, { claim, skip }: Earlier, round: Round): Verdict | undefined {
  const { name, image } = container;
  const { records, policies } = round.situation;
  const tags = policies.some(({ spec }) => spec.output === 'Tag');
  const weight = weigh(claim, { image, now: judge(container, claim.source, round), records, tags });
  if (weight.state === 'refuted') return undefined;
  if (weight.state === 'confirmed') {
    const decision = skip === undefined ? weight.decision : skipDecision(name, claim.source, skip);
    const takenBack = claim.outcome === 'accelerated' && decision.outcome !== 'accelerated';
    return { decision, container, already: decision.image === image, ...(takenBack ? { takenBack } : {}) };
  }
  const { outcome, because, policy } = weight;
  const wish = skip === undefined ? '' : `${skip.message}; `;
  const message = `${wish}claimed by the annotation and not confirmed in this call (${because}): the image is left as it stands`;
  const kept = decision({ container: name, source: claim.source, outcome, image }, { policy, message });
  return { decision: kept, container, already: true, unconfirmed: because };
}

function skipDecision(name: string, image: string, { outcome, message }: Skip): Decision {
  return leave(name, image, { outcome, message });
}

function crowdText(count: number): string | undefined {
  if (count <= MAX_IMAGES) return undefined;
  return `the Pod has ${count} images that no record names; those of Pods with more than ${MAX_IMAGES} are left alone`;
}

function isRecorded(image: string, records: readonly GangRecord[]): boolean {
  const reading = parseReference(image);
  return findResolved(records, image) !== undefined || (reading.ok && findRecorded(records, reading.reference) !== undefined);
}
