import type { ImagePrewarm } from '../api/kinds/index.js';
import { withDigest } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { ResolvedSource } from '../images/resolve.js';
import { resolveSource } from '../images/resolve.js';
import { findVariant } from '../images/variant.js';
import type { Clock } from '../observe/clock.js';
import type { RuntimeClassFacts } from '../placement/capability.js';
import { obstacleTo } from '../placement/landing.js';
import type { NodeClasses } from '../placement/node-classes.js';
import { quarantineOf } from '../placement/quarantine.js';
import { sizeProblem, withoutQuarantined } from '../rewrite/answer.js';
import type { Policy } from '../rewrite/policy-match.js';
import { inOrder, pickPolicy } from '../rewrite/policy-match.js';
import type { LookupNeed } from './prewarm/record.js';
import type { Lookup } from './prewarm/snapshot.js';
import { landingOfSource } from './target-landing.js';

export interface LookupsOptions {
  registry: () => RegistryPort;
  policies: () => Policy[];
  namespaceLabels: (namespace: string) => Readonly<Record<string, string>>;
  /** The nodes as they are known now. */
  nodeClasses: () => NodeClasses | undefined;
  runtimeClass: (name: string) => RuntimeClassFacts | undefined;
  clock: Clock;
}

/** What the images are for. */
export interface LookupUse {
  /** Platforms of the nodes that will run them; empty where any will do. */
  platforms: readonly string[];
  /** Why Pods will not be given the recorded images; absent where they will. */
  unpinned?: string | undefined;
}

/** Longest that one image may take to be looked up, ms. */
const TIMEOUT_MS = 30_000;

/** Looks images up for ImagePrewarms and remembers the latest answer for each while the object exists. */
export class Lookups {
  readonly #options: LookupsOptions;
  readonly #known = new Map<string, Map<string, Lookup>>();

  constructor(options: LookupsOptions) {
    this.#options = options;
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
    const { registry, clock } = this.#options;
    const { platforms, unpinned } = use;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const wanted = platforms.length === 0 ? {} : { platforms };
    const resolution = await resolveSource(source, registry(), { ...wanted, fresh, signal });
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
      at: this.#options.clock.now(),
    };
  }

  /**
   * The variant that a policy wants for prewarmed gangs; undefined where none does or none is proven to be the same program and to
   * run wherever a member may land: the source is warmed then.
   */
  async #variant(
    resolved: ResolvedSource,
    prewarm: ImagePrewarm,
    { source, signal }: { source: string; signal: AbortSignal },
  ): Promise<Lookup | undefined> {
    const { policies, namespaceLabels, registry, nodeClasses, runtimeClass, clock } = this.#options;
    const { namespace = '' } = prewarm.metadata;
    const policy = pickPolicy(inOrder(policies()), namespaceLabels(namespace), resolved.reference);
    if (policy === undefined || policy.spec.whenPrewarmed !== 'Variant' || policy.spec.mode !== 'Enforce') return undefined;
    if (sizeProblem(policy.spec, resolved.sizeBytes) !== undefined) return undefined;
    const { variants: rules, freshness, nodePoolClosed } = policy.spec;
    const view = nodeClasses();
    const landing = landingOfSource(prewarm, source, { view, runtimeClass, now: clock.now() });
    const failed = (image: string): string | undefined => quarantineOf(view, { namespace, image, now: clock.now() })?.message;
    const answer = await findVariant({
      source: resolved,
      rules,
      freshness,
      output: 'Digest',
      port: withoutQuarantined(registry(), failed),
      obstacle: (format) => obstacleTo(format, landing, nodePoolClosed),
      ...(landing?.platforms === undefined ? {} : { platforms: landing.platforms }),
      signal,
    });
    if (answer.outcome !== 'accelerated' || answer.image === undefined) return undefined;
    return {
      ok: true,
      digest: resolved.digest,
      resolved: answer.image,
      outcome: 'accelerated',
      sizeBytes: resolved.sizeBytes,
      message: `${answer.format ?? ''} variant by policy ${policy.name}`,
      at: clock.now(),
    };
  }
}
