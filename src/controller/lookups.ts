import type { ImagePrewarm } from '../api/kinds/index.js';
import { withCredentials } from '../images/credential-chain.js';
import { withDigest } from '../images/reference.js';
import type { ResolvedSource } from '../images/resolve.js';
import { resolveSource } from '../images/resolve.js';
import { findAnswer } from '../rewrite/answer.js';
import type { Policy } from '../rewrite/policy-match.js';
import type { LookupNeed } from './prewarm/record.js';
import type { Lookup } from './prewarm/snapshot.js';
import type { VariantFacts } from './variant-ground.js';
import { VariantGround } from './variant-ground.js';

/** What the images are for. */
export interface LookupUse {
  /** Platforms of the nodes that will be warmed; empty where any will do. */
  platforms: readonly string[];
  /** Why Pods will not be given the recorded images; absent where they will. */
  unpinned?: string | undefined;
}

/** Longest that one image may take to be looked up, ms. */
const TIMEOUT_MS = 30_000;

/**
 * Whoever may create a gang reads in its status what was found. Harbinger's own credential therefore serves only where it may be
 * used for Pods (`credential.forPods`); secrets of the gang are not read.
 */
export const GANG_CREDENTIALS = [undefined] as const;

/** Looks images up for ImagePrewarms and remembers the latest answer for each while the object exists. */
export class Lookups {
  readonly #facts: VariantFacts;
  readonly #known = new Map<string, Map<string, Lookup>>();

  constructor(facts: VariantFacts) {
    this.#facts = facts;
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
    await Promise.all(needs.map(async (need) => known.set(need.source, await this.#one(need, prewarm, use))));
  }

  async #one({ source, fresh }: LookupNeed, prewarm: ImagePrewarm, use: LookupUse): Promise<Lookup> {
    const { registry, clock } = this.#facts;
    const { platforms, unpinned } = use;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const wanted = platforms.length === 0 ? {} : { platforms };
    const port = withCredentials(registry(), GANG_CREDENTIALS);
    const resolution = await resolveSource(source, port, { ...wanted, fresh, signal });
    if (!resolution.ok)
      return { ok: false, reason: resolution.reason, outcome: resolution.outcome, message: resolution.message, at: clock.now() };
    // Pods that nobody rewrites run what their templates say: with a variant warm they would still start cold.
    if (unpinned !== undefined) return this.#plain(resolution);
    return (await this.#variant(resolution, prewarm, { source, signal })) ?? this.#plain(resolution);
  }

  #plain({ reference, digest, sizeBytes }: ResolvedSource): Lookup {
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
    prewarm: ImagePrewarm,
    { source, signal }: { source: string; signal: AbortSignal },
  ): Promise<Lookup | undefined> {
    const ground = new VariantGround(this.#facts, prewarm);
    const policy = ground.policyFor(reference);
    if (policy === undefined || policy.spec.whenPrewarmed !== 'Variant' || policy.spec.mode !== 'Enforce') return undefined;
    const question = { reference, policy: byDigest(policy), landing: ground.landingOf(source), chain: GANG_CREDENTIALS };
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
