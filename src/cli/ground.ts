import type { Json } from '../api/json.js';
import type { HarbingerConfig } from '../config/schema.js';
import type { CredentialChain } from '../images/credential-chain.js';
import type { Reference } from '../images/reference.js';
import type { Landing } from '../placement/landing.js';
import type { Policy } from '../rewrite/policy-match.js';
import type { GangRecord } from '../rewrite/record.js';
import type { NamespaceFacts } from '../rewrite/skip.js';
import type { GangName } from './pods-of.js';

/** A Pod to be judged, as it reaches the webhook. */
export interface PodQuestion {
  /** Namespace that it would be created in. */
  namespace: string;
  pod: Json;
  gang?: GangName | undefined;
  /** `Kind.group` that the owner of the Pod was made up of, where it is not known to be one. */
  assumedOwner?: string | undefined;
}

/** Credentials that images of a Pod are looked up with, and what kept some of them from being used. */
export interface PodCredentials {
  chainFor: (reference: Reference) => CredentialChain;
  problem?: string | undefined;
}

/**
 * Everything that decisions go by beside registries: from a cluster, or from flags and files. What could not be read is assumed,
 * and `notes` says both.
 */
export interface Ground {
  config: HarbingerConfig;
  /** Namespace that Harbinger is installed in. */
  installedIn: string;
  /** In the order of `inOrder`. */
  policies: readonly Policy[];
  /** One sentence about everything that was not read. */
  notes: Notes;
  namespace(name: string): Promise<NamespaceFacts>;
  /** The Pod with what admission of the API server adds to it before webhooks are called. */
  admitted(question: PodQuestion): Promise<Json>;
  records(question: PodQuestion): Promise<readonly GangRecord[]>;
  landing(pod: Json): Landing | undefined;
  credentials(question: PodQuestion): Promise<PodCredentials>;
  /** Why a digest must not be given to Pods of a namespace, or undefined. */
  quarantined(namespace: string, digest: string): string | undefined;
}

/** Things that could not be read, each told once. */
export class Notes {
  readonly #texts = new Set<string>();

  /** Sorted: things are read side by side, and the same question must get the same answer. */
  get all(): readonly string[] {
    return [...this.#texts].sort();
  }

  add(text: string): void {
    this.#texts.add(text);
  }

  /** `assumes` completes "what follows assumes ...". */
  notRead(what: string, cause: string, assumes: string): void {
    this.add(`not read: ${what} (${cause}); what follows assumes ${assumes}`);
  }
}
