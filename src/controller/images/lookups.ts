import type { ImagePrewarm } from '../../api/kinds/index.js';
import { withCredentials } from '../../images/credential-chain.js';
import type { CredentialChain } from '../../images/credential-chain.js';
import type { Reference } from '../../images/reference.js';
import { parseReference, withDigest } from '../../images/reference.js';
import type { FailedResolution, Resolution, ResolvedSource } from '../../images/resolve.js';
import { resolveSource } from '../../images/resolve.js';
import { findAnswer } from '../../rewrite/answer.js';
import type { Policy } from '../../rewrite/policy-match.js';
import type { GangCredentialsPort } from '../gangs/credentials.js';
import { OWN_CREDENTIAL } from '../gangs/credentials.js';
import type { LookupNeed } from '../prewarm/record.js';
import { keepOnly, sourcesOf } from '../prewarm/sources.js';
import type { FoundImage, Lookup } from '../prewarm/snapshot.js';
import type { VariantFacts } from './variant-ground.js';
import { VariantGround } from './variant-ground.js';

/** What the images are for. */
export interface LookupUse {
  /** Platforms of the nodes that will be warmed; empty where any will do. */
  platforms: readonly string[];
  /** Why Pods will not be given the recorded images; absent where they will. */
  unpinned?: string | undefined;
}

interface Question {
  source: string;
  prewarm: ImagePrewarm;
  use: LookupUse;
  signal: AbortSignal;
  chain: CredentialChain;
  fresh: boolean;
}

/** Longest that one image may take to be looked up, ms. */
const TIMEOUT_MS = 30_000;

/** Looks images up for ImagePrewarms and remembers the latest answer for each while the object exists. */
export class Lookups {
  readonly #facts: VariantFacts;
  readonly #credentials: GangCredentialsPort;
  readonly #known = new Map<string, Map<string, Lookup>>();

  constructor(facts: VariantFacts, credentials: GangCredentialsPort) {
    this.#facts = facts;
    this.#credentials = credentials;
  }

  of(key: string): ReadonlyMap<string, Lookup> {
    return this.#known.get(key) ?? new Map<string, Lookup>();
  }

  forget(key: string): void {
    this.#known.delete(key);
  }

  /** Looks up what is needed, all at once; failures are answers too. */
  async look(key: string, prewarm: ImagePrewarm, needs: readonly LookupNeed[], use: LookupUse): Promise<void> {
    const known = this.#known.get(key) ?? new Map<string, Lookup>();
    this.#known.set(key, known);
    // A spec may be edited for ever.
    keepOnly(known, sourcesOf(prewarm));
    await Promise.all(
      needs.map(async (need) => known.set(need.source, await this.#one(need, { prewarm, use, before: known.get(need.source) }))),
    );
  }

  /**
   * Whoever may create a gang reads in its status what was found. Harbinger's own credential therefore serves only where it may be
   * used for Pods (`credential.forPods`), and what the gang's own secrets read stays with the gang.
   */
  async #one(
    { source, fresh }: LookupNeed,
    { prewarm, use, before }: { prewarm: ImagePrewarm; use: LookupUse; before: Lookup | undefined },
  ): Promise<Lookup> {
    const question: Question = { source, prewarm, use, signal: AbortSignal.timeout(TIMEOUT_MS), chain: OWN_CREDENTIAL, fresh };
    // A denial is remembered for a minute: services count them, and each gang would add its own.
    const own = await this.#resolve({ ...question, fresh: fresh && !wasDenied(before) });
    if (own.ok) return this.#found(own, question);
    const parsed = parseReference(source);
    if (own.outcome !== 'auth-denied' || !parsed.ok) return this.#failed(own);
    // Another secret is another question, so only an answer that was given needs to be asked for anew.
    return this.#asTheGang(parsed.reference, own, { ...question, fresh: fresh && before?.ok === true });
  }

  /** Harbinger's own credential was denied: what does the gang have? */
  async #asTheGang(reference: Reference, denied: FailedResolution, question: Question): Promise<Lookup> {
    const theirs = await this.#credentials.of(question.prewarm, question.source, reference);
    const asked = { ...question, chain: theirs.chain };
    const found = theirs.chain.length === 0 ? undefined : await this.#resolve(asked);
    if (found?.ok === true) return { ...(await this.#found(found, asked)), pulledWith: 'Workload' };
    const last = found ?? denied;
    if (last.outcome !== 'auth-denied') return this.#failed(last);
    theirs.doubt();
    const denial = { ...last, message: [last.message, theirs.problem].filter(Boolean).join('; ') };
    return this.#unread(reference, denial) ?? this.#failed(denial, NAME_A_DIGEST);
  }

  #resolve({ source, use: { platforms }, signal, chain, fresh }: Question): Promise<Resolution> {
    const wanted = platforms.length === 0 ? {} : { platforms };
    return resolveSource(source, withCredentials(this.#facts.registry(), chain), { ...wanted, fresh, signal });
  }

  async #found(resolution: ResolvedSource, question: Question): Promise<FoundImage> {
    // Pods that nobody rewrites run what their templates say: with a variant warm they would still start cold.
    if (question.use.unpinned !== undefined) return this.#plain(resolution);
    return (await this.#variant(resolution, question)) ?? this.#plain(resolution);
  }

  #failed({ reason, outcome, message }: FailedResolution, way = ''): Lookup {
    return { ok: false, reason, outcome, message: `${message}${way}`, at: this.#facts.clock.now() };
  }

  /**
   * Nodes may have credentials that the controller has not. An image that is named by its digest needs no look to be pinned; what
   * nodes answer is the proof then. A tag could name other bytes on each node.
   */
  #unread(reference: Reference, { message }: FailedResolution): FoundImage | undefined {
    const { digest } = reference;
    if (digest === undefined || !this.#credentials.mayPullUnread(reference)) return undefined;
    return {
      ok: true,
      digest,
      resolved: withDigest(reference, digest),
      outcome: 'pinned',
      message: `size and variants unknown, nodes pull it with their own credentials: ${message}`,
      at: this.#facts.clock.now(),
    };
  }

  #plain({ reference, digest, sizeBytes }: ResolvedSource): FoundImage {
    return {
      ok: true,
      digest,
      resolved: withDigest(reference, digest),
      outcome: 'pinned',
      sizeBytes,
      at: this.#facts.clock.now(),
    };
  }

  /**
   * The variant that a policy wants for prewarmed gangs; undefined where none does or none is proven to be the same program and to
   * run wherever a member may land, which is more than the nodes that are warmed: the source is warmed then.
   */
  async #variant(
    { reference, digest, sizeBytes }: ResolvedSource,
    { source, prewarm, signal, chain }: Question,
  ): Promise<FoundImage | undefined> {
    const ground = new VariantGround(this.#facts, prewarm);
    const policy = ground.policyFor(reference);
    if (policy === undefined || policy.spec.whenPrewarmed !== 'Variant' || policy.spec.mode !== 'Enforce') return undefined;
    const question = { reference, policy: byDigest(policy), landing: ground.landingOf(source), chain };
    const { variant } = await findAnswer(question, this.#facts.registry(), {
      quarantined: (image) => ground.quarantined(image),
      sourceDigest: digest,
      signal,
    });
    if (variant === undefined) return undefined;
    const { image, format, portable } = variant;
    return {
      ok: true,
      digest,
      resolved: image,
      outcome: 'accelerated',
      format,
      portable,
      sizeBytes,
      message: `${format} variant by policy ${policy.name}`,
      at: this.#facts.clock.now(),
    };
  }
}

/** A record names bytes whatever form the policy wants in Pods: members and retries have to be the same. */
function byDigest(policy: Policy): Policy {
  return { ...policy, spec: { ...policy.spec, output: 'Digest' } };
}

/** Whether Harbinger's own credential was denied the last time. */
function wasDenied(before: Lookup | undefined): boolean {
  if (before === undefined) return false;
  return before.ok ? before.pulledWith === 'Workload' || before.sizeBytes === undefined : before.outcome === 'auth-denied';
}

const NAME_A_DIGEST =
  '; if nodes can pull it, name the image by digest (repository@sha256:...): it is warmed without being looked up then, while a tag cannot be pinned';
