import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Decision, Outcome } from '../api/outcomes.js';
import { fingerprint } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import { format, parseReference } from '../images/reference.js';
import type { Landing } from '../placement/landing.js';
import { decision, leave } from './decision.js';
import type { PodContainer } from './pod-view.js';
import type { Policy } from './policy-match.js';
import { pickPolicy } from './policy-match.js';
import { findRecorded, findResolved } from './record.js';
import { PORTABLE_ONLY, decideRecorded } from './recorded.js';
import type { Answer, Lookup, Question, Situation } from './situation.js';
import type { Skip } from './skip.js';

export interface Subject {
  container: PodContainer;
  source: string;
  owner: Skip | undefined;
}

/** What can be said of an image before any registry is asked: all, or what to ask. */
type Prepared = { decision: Decision } | { question: Question; asked: Asked };

/** Of each situation: it is gone through once for the questions and once more with the answers. */
const prepared = new WeakMap<Situation, Map<string, Prepared>>();

/**
 * Decides as if the user had written `source`; the caller checks a claimed source against the image that really stands there.
 * Order: record of the gang, owner, policy.
 */
export function evaluate(subject: Subject, situation: Situation, lookup: Lookup): Decision {
  const known = prepared.get(situation) ?? new Map<string, Prepared>();
  prepared.set(situation, known);
  const key = `${subject.container.pointer} ${subject.source}`;
  const found = known.get(key) ?? prepare(subject, situation);
  known.set(key, found);
  return 'decision' in found ? found.decision : conclude(found.asked, lookup(found.question), situation.credentialProblem);
}

function prepare({ container, source, owner }: Subject, situation: Situation): Prepared {
  const { records, policies, namespace } = situation;
  const { name, kind } = container;
  const reading = parseReference(source);
  if (!reading.ok) return { decision: leave(name, source, { outcome: 'unparsable', message: reading.problem }) };
  const { reference } = reading;
  const own = findResolved(records, source);
  if (own !== undefined) {
    const { prewarm, image } = own;
    return { decision: leave(name, source, { outcome: 'already-accelerated', sourceDigest: image.sourceDigest, prewarm }) };
  }
  const hit = findRecorded(records, reference);
  if (hit !== undefined) return { decision: decideRecorded({ container, source, reference }, hit, situation) };
  // Nobody asked for what kubectl debug adds, so nobody compares it.
  if (owner !== undefined && kind !== 'ephemeral') return { decision: leave(name, source, owner) };
  const policy = pickPolicy(policies, namespace.labels, reference);
  if (policy === undefined) return { decision: leave(name, source, { outcome: 'no-policy' }) };
  const question = questionAbout(reference, policy, kind === 'container' ? situation : portableOnly(situation));
  return { question, asked: { container: name, source, policy } };
}

function questionAbout(reference: Reference, policy: Policy, { landing, chainFor }: Situation): Question {
  const chain = chainFor(reference);
  const key = `${policy.name}/${policy.generation} ${format(reference)} ${landing?.key ?? ''} ${chain.map(fingerprint).join(',')}`;
  return { key, reference, policy, landing, chain };
}

const NOWHERE: Partial<Record<Format, string>> = Object.fromEntries(FORMATS.map((f) => [f, PORTABLE_ONLY] as const));

/** The situation of images that kubelets and snapshotters handle in their own ways, so that capable nodes prove nothing. */
function portableOnly(situation: Situation): Situation {
  const landing: Landing = situation.landing ?? { platforms: undefined, now: {}, later: {}, key: '' };
  return { ...situation, landing: { ...landing, now: NOWHERE, later: {}, key: `${landing.key} portable` } };
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
  const { outcome, sourceDigest, format: variant } = answer;
  const why = DENIED.has(outcome) ? [answer.message, problem].filter((m) => m !== undefined).join('; ') : answer.message;
  const known = { policy: policy.name, sourceDigest, format: variant, message: why };
  if (answer.outcome !== 'accelerated') return leave(container, source, { outcome: answer.outcome, ...known });
  if (answer.image === source) return leave(container, source, { outcome: 'already-accelerated', ...known });
  if (policy.spec.mode === 'Audit') {
    const message = `policy ${policy.name} is in mode Audit; otherwise the image would be ${answer.image}`;
    return leave(container, source, { ...known, outcome: 'skipped-audit', message });
  }
  return decision({ container, source, outcome: 'accelerated', image: answer.image }, known);
}
