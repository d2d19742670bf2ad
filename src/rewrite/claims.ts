import { records, string } from '../api/json.js';
import { ANNOTATION } from '../api/names.js';
import type { Decision, Outcome } from '../api/outcomes.js';
import { parseReference } from '../images/reference.js';
import type { PodView } from './pod-view.js';
import { findRecorded } from './record.js';
import type { GangRecord } from './record.js';

/** What an incoming decisions annotation says of the image of one container. */
export interface Claim {
  source: string;
  /** Undefined where it is no outcome that changes an image: then no call of this webhook wrote it. */
  outcome: Extract<Outcome, 'accelerated' | 'pinned'> | undefined;
}

/**
 * The claims of an incoming decisions annotation, by container name, where the claimed output is the image that stands there. The
 * annotation is user input (a Pod made again from `kubectl get -o yaml`, a restored backup, a forgery): each claim is only a question to
 * ask, never an answer.
 */
export function claimsOf(pod: PodView): ReadonlyMap<string, Claim> {
  const claims = new Map<string, Claim>();
  const annotation = pod.annotations[ANNOTATION.decisions];
  if (annotation === undefined) return claims;
  // Of two containers with one name the API server refuses the Pod; until then neither can claim anything.
  const images = new Map<string, string | undefined>();
  for (const { name, image } of pod.containers) images.set(name, images.has(name) ? undefined : image);
  for (const entry of records(parseJson(annotation))) {
    const [container, source, image] = [string(entry['container']), string(entry['source']), string(entry['image'])];
    if (container === undefined || source === undefined) continue;
    const outcome = CLAIMABLE.find((o) => o === entry['outcome']);
    if (source !== image && images.get(container) === image) claims.set(container, { source, outcome });
  }
  return claims;
}

const CLAIMABLE = ['accelerated', 'pinned'] as const;

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What the facts of now make of a claim: what its source gets now, or that nothing came which could confirm or refute it. */
export type Weight =
  | { state: 'confirmed'; decision: Decision }
  | { state: 'open'; outcome: 'accelerated' | 'pinned'; because: Outcome; policy: string | undefined }
  | { state: 'refuted' };

/** These say that a registry could not be asked, not what it has. */
const UNANSWERED: ReadonlySet<Outcome> = new Set<Outcome>(['budget-exceeded', 'registry-error', 'auth-denied', 'circuit-open']);

interface Standing {
  /** The image that stands in the container. */
  image: string;
  /** The decision about the claimed source, as if the user had written it. */
  now: Decision;
  records: readonly GangRecord[];
  /** Whether a policy has tags written; otherwise what we write names a digest. */
  tags: boolean;
}

export function weigh({ source, outcome }: Claim, { image, now, records: known, tags }: Standing): Weight {
  if (now.image === image || recordKnows(known, source, image)) return { state: 'confirmed', decision: now };
  if (outcome === undefined || !UNANSWERED.has(now.outcome) || !mayBeOurs(source, image, tags)) return { state: 'refuted' };
  return { state: 'open', outcome, because: now.outcome, policy: now.policy };
}

/** Whether an earlier call can have written such an image for the source: a variant stands in the registry of its source. */
function mayBeOurs(source: string, image: string, tags: boolean): boolean {
  const [from, to] = [parseReference(source), parseReference(image)];
  return from.ok && to.ok && from.reference.registry === to.reference.registry && (tags || to.reference.digest !== undefined);
}

/** Whether the record of the gang has given this image for the source, be it by the nodes of another moment. */
export function recordKnows(known: readonly GangRecord[], source: string | undefined, image: string): boolean {
  const reading = source === undefined ? undefined : parseReference(source);
  const hit = reading?.ok === true ? findRecorded(known, reading.reference)?.image : undefined;
  return hit !== undefined && (hit.resolved === image || hit.plain === image);
}
