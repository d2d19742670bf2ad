import type { Format } from '../api/kinds/acceleration-policy.js';
import type { Decision, Outcome } from '../api/outcomes.js';
import type { CredentialChain } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import type { Landing } from '../placement/landing.js';
import type { PodContainer, PodView } from './pod-view.js';
import type { Policy } from './policy-match.js';
import type { GangRecord } from './record.js';
import type { NamespaceFacts, Skip } from './skip.js';

/** Everything that is known when a Pod arrives, without asking anybody. */
export interface Situation {
  pod: PodView;
  namespace: NamespaceFacts;
  /** Why the whole Pod is left alone; then only what an earlier call wrote is judged, to be taken back. */
  skip?: Skip | undefined;
  /** Records of the gangs that the Pod belongs to; only ImagePrewarms of the Pod's own namespace. */
  records: readonly GangRecord[];
  /** In the order of `inOrder`. */
  policies: readonly Policy[];
  /** Where the Pod can land; undefined where nothing is known of nodes. */
  landing?: Landing | undefined;
  /** Why Pods of the namespace are not given a variant (its image), or undefined; for recorded ones, which nobody looks up. */
  quarantined?: (image: string) => string | undefined;
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
  format?: Format | undefined;
  message?: string | undefined;
}
export type Answer = Found &
  ({ outcome: 'accelerated'; image: string } | { outcome: Exclude<Outcome, 'accelerated' | 'pinned'> });

/** The answer to a question; undefined where none came within the budget. */
export type Lookup = (question: Question) => Answer | undefined;

/** A decision with what the patch needs beside it. */
export interface Verdict {
  decision: Decision;
  /** The container as it stands in this review; its image is not the decision's source where an earlier call wrote it. */
  container: PodContainer;
  /** The image already stood there: an earlier call of this webhook wrote it, and the facts of now confirm it or cannot tell. */
  already: boolean;
  /** Why an earlier decision could be neither confirmed nor refuted; then it is only kept. */
  unconfirmed?: Outcome;
  /** A variant of an earlier call is no longer what the container gets. */
  takenBack?: true;
}
