import { clip } from '../api/conditions.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Decision, Outcome } from '../api/outcomes.js';
import type { CredentialChain } from '../images/credential-chain.js';
import { fingerprint } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import { format, parseReference } from '../images/reference.js';
import type { Landing } from '../placement/landing.js';
import type { PodContainer, PodView } from './pod-view.js';
import { claimedSources } from './pod-view.js';
import type { Policy } from './policy-match.js';
import { pickPolicy } from './policy-match.js';
import type { GangRecord, RecordHit } from './record.js';
import { findRecorded, findResolved } from './record.js';
import type { NamespaceFacts, Skip } from './skip.js';
import { skipContainer, skippedNames, skipOwner } from './skip.js';

/** Most images of a Pod that is looked at: each may be another question to a registry. Real Pods have a few. */
const MAX_IMAGES = 128;
/** Longest message of one decision; all decisions of a Pod share one annotation. */
const MAX_MESSAGE = 256;

/** Everything that is known when a Pod arrives, without asking anybody. */
export interface Situation {
  pod: PodView;
  namespace: NamespaceFacts;
  /** Records of the gangs that the Pod belongs to; only ImagePrewarms of the Pod's own namespace. */
  records: readonly GangRecord[];
  /** In the order of `inOrder`. */
  policies: readonly Policy[];
  /** Where the Pod can land; undefined where nothing is known of nodes. */
  landing?: Landing | undefined;
  /** Credentials that an image of the Pod is looked up with. */
  chainFor: (reference: Reference) => CredentialChain;
  rewrite: RewriteRules;
  /** Pull secrets of the Pod that could not be used, as a sentence; told where a registry denied the look-up. */
  credentialProblem?: string | undefined;
}

/** What the configuration lets the webhook change. */
export interface RewriteRules {
  /** Controllers whose Pods may be changed: `Kind.group`, `Kind` for the core group, or `*` for all. */
  owners: readonly string[];
  /** Image volumes get variants too. */
  imageVolumes: boolean;
}

/** One thing to find out at a registry. Equal keys have equal answers, whichever Pod asks. */
export interface Question {
  key: string;
  reference: Reference;
  policy: Policy;
  landing?: Landing | undefined;
  chain: CredentialChain;
}

interface Found {
  sourceDigest?: string | undefined;
  format?: string | undefined;
  message?: string | undefined;
}
export type Answer = Found &
  ({ outcome: 'accelerated'; image: string } | { outcome: Exclude<Outcome, 'accelerated' | 'pinned'> });

/** A decision with what the patch needs beside it. */
export interface Verdict {
  decision: Decision;
  /** The container as it stands in this review; its image is not the decision's source where an earlier call wrote it. */
  container: PodContainer;
  /** The image already stood there: an earlier call of this webhook wrote it, and the facts of now confirm it. */
  already: boolean;
}

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
 * Decides about every container of a Pod that is not skipped as a whole, and about image volumes that the gang has a record of or
 * that the configuration lets change. Total: a question without an answer is one whose answer did not come within the budget.
 * Order: opt-out, record of the gang, owner, policy.
 */
export function decide(situation: Situation, answers: ReadonlyMap<string, Answer>): Verdict[] {
  return judgeAll(situation, (question) => answers.get(question.key));
}

type Lookup = (question: Question) => Answer | undefined;

function judgeAll(situation: Situation, lookup: Lookup): Verdict[] {
  const { pod, namespace } = situation;
  const claims = claimedSources(pod);
  // Unless the configuration says otherwise, a volume is only kept equal to what was warmed for its gang.
  const judged = pod.containers.filter(
    (c) => c.kind !== 'volume' || situation.rewrite.imageVolumes || isRecorded(c.image, situation.records),
  );
  if (judged.length > MAX_IMAGES)
    return judged.map((container) => ({ decision: crowded(container, judged), container, already: false }));
  const owner = skipOwner(pod, situation.rewrite.owners);
  const skipped = skippedNames(pod, namespace);
  return judged.map((container) => {
    const judge = (source: string): Decision => evaluate({ container, source, owner }, situation, lookup);
    const skip = skipContainer(container, skipped);
    if (skip !== undefined) return { decision: leave(container.name, container.image, skip), container, already: false };
    const claim = claims.get(container.name);
    const confirmed = claim === undefined ? undefined : judge(claim);
    if (confirmed?.image === container.image) return { decision: confirmed, container, already: true };
    const decision = judge(container.image);
    return { decision, container, already: decision.outcome === 'already-accelerated' };
  });
}

function crowded({ name, image }: PodContainer, all: readonly PodContainer[]): Decision {
  return leave(name, image, {
    outcome: 'budget-exceeded',
    message: `the Pod has ${all.length} images; those of Pods with more than ${MAX_IMAGES} are left alone`,
  });
}

function isRecorded(image: string, records: readonly GangRecord[]): boolean {
  const reading = parseReference(image);
  return findResolved(records, image) !== undefined || (reading.ok && findRecorded(records, reading.reference) !== undefined);
}

interface Subject {
  container: PodContainer;
  source: string;
  owner: Skip | undefined;
}

/** Decides as if the user had written `source`; the caller checks a claimed source against the image that really stands there. */
function evaluate({ container: { name, kind }, source, owner }: Subject, situation: Situation, lookup: Lookup): Decision {
  const { records, policies, namespace } = situation;
  const reading = parseReference(source);
  if (!reading.ok) return leave(name, source, { outcome: 'unparsable', message: reading.problem });
  const { reference } = reading;
  const own = findResolved(records, source);
  if (own !== undefined) return leave(name, source, { outcome: 'already-accelerated', ...recordDetails(own) });
  const hit = findRecorded(records, reference);
  if (hit !== undefined)
    return decision({ container: name, source, outcome: hit.image.outcome, image: hit.image.resolved }, recordDetails(hit));
  // Nobody asked for what kubectl debug adds, so nobody compares it.
  if (owner !== undefined && kind !== 'ephemeral') return leave(name, source, owner);
  const policy = pickPolicy(policies, namespace.labels, reference);
  if (policy === undefined) return leave(name, source, { outcome: 'no-policy' });
  const question = questionAbout(reference, policy, kind === 'container' ? situation : portableOnly(situation));
  return conclude({ container: name, source, policy }, lookup(question), situation.credentialProblem);
}

function questionAbout(reference: Reference, policy: Policy, { landing, chainFor }: Situation): Question {
  const chain = chainFor(reference);
  const key = `${policy.name}/${policy.generation} ${format(reference)} ${landing?.key ?? ''} ${chain.map(fingerprint).join(',')}`;
  return { key, reference, policy, landing, chain };
}

const PORTABLE_ONLY: Landing['now'] = Object.fromEntries(
  FORMATS.map(
    (f) => [f, 'image volumes and ephemeral containers get portable formats only, whatever the nodes can run'] as const,
  ),
);

/** The situation of images that kubelets and snapshotters handle in their own ways, so that capable nodes prove nothing. */
function portableOnly(situation: Situation): Situation {
  const { platforms, key = '' } = situation.landing ?? {};
  return { ...situation, landing: { platforms, now: PORTABLE_ONLY, later: {}, key: `${key} portable` } };
}

/** Outcomes that a better credential might change: registries hide what they deny as absent. */
const DENIED: ReadonlySet<Outcome> = new Set<Outcome>(['auth-denied', 'variant-missing', 'registry-error']);

interface Asked {
  container: string;
  source: string;
  policy: Policy;
}

function conclude({ container, source, policy }: Asked, answer: Answer | undefined, problem: string | undefined): Decision {
  if (answer === undefined) {
    const message = 'the registry did not answer within the budget of an admission; the next Pod will find the answer cached';
    return leave(container, source, { outcome: 'budget-exceeded', policy: policy.name, message });
  }
  const { outcome, sourceDigest, format } = answer;
  const why = DENIED.has(outcome) ? [answer.message, problem].filter((m) => m !== undefined).join('; ') : answer.message;
  const known = { policy: policy.name, ...defined({ sourceDigest, format, message: why }) };
  if (answer.outcome !== 'accelerated') return leave(container, source, { outcome: answer.outcome, ...known });
  if (answer.image === source) return leave(container, source, { outcome: 'already-accelerated', ...known });
  if (policy.spec.mode === 'Audit') {
    const message = `policy ${policy.name} is in mode Audit; otherwise the image would be ${answer.image}`;
    return leave(container, source, { ...known, outcome: 'skipped-audit', message });
  }
  return decision({ container, source, outcome: 'accelerated', image: answer.image }, known);
}

type Details = Partial<Omit<Decision, 'container' | 'source' | 'outcome' | 'image'>>;

function leave(container: string, source: string, { outcome, ...details }: Details & { outcome: Outcome }): Decision {
  return decision({ container, source, outcome, image: source }, details);
}

function decision(core: Pick<Decision, 'container' | 'source' | 'outcome' | 'image'>, details: Details): Decision {
  const message = details.message === undefined ? {} : { message: clip(details.message, MAX_MESSAGE) };
  return { ...core, ...details, ...message };
}

function recordDetails({ prewarm, image }: RecordHit): Details {
  return { ...defined({ sourceDigest: image.sourceDigest }), prewarm };
}

/** Drops absent fields: they are no JSON. */
function defined(found: Found): Details {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
