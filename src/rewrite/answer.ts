import { formatBytes, parseQuantity } from '../api/quantity.js';
import type { AccelerationPolicySpec, Format } from '../api/kinds/acceleration-policy.js';
import { withCredentials } from '../images/credential-chain.js';
import { format } from '../images/reference.js';
import { RegistryError } from '../images/registry-port.js';
import type { RegistryPort } from '../images/registry-port.js';
import { resolveSource } from '../images/resolve.js';
import { findVariant } from '../images/ladder/variant.js';
import type { Step } from '../images/ladder/variant.js';
import { obstacleTo, platformsNeeded, privateObstacleTo } from '../placement/landing.js';
import type { Answer, Question } from './decide.js';

/** An answer with the evidence for it. */
export interface Finding {
  answer: Answer;
  steps: readonly Step[];
  /** Compressed bytes of one platform of the source, where it could be resolved. */
  sizeBytes?: number;
  /** The variant that was found; portable: nodes that do not know the format run it too. */
  variant?: { image: string; format: Format; portable: boolean };
}

/** What an answer depends on beside the question and the registry. */
export interface Lookup {
  /**
   * Why a variant (its digest, or its image where Pods name no digest) must not be used although its registry has it, or undefined.
   * Counts for the Pods of one namespace.
   */
  quarantined?: (variant: string) => string | undefined;
  /** What the source names as the caller knows it; without it a tag is asked for what it names now. */
  sourceDigest?: string;
  signal?: AbortSignal;
  /** Milliseconds that never jump; steps have no time when absent. */
  now?: () => number;
}

/**
 * Finds the answer to a question at registries: resolves the source and climbs the ladder as the policy says. The webhook, `explain`
 * and what is recorded for gangs all answer through here, so that what is explained is what is done.
 */
export async function findAnswer(question: Omit<Question, 'key'>, registry: RegistryPort, lookup: Lookup = {}): Promise<Finding> {
  const { policy, landing } = question;
  const { variants: rules, freshness, output, nodePoolClosed } = policy.spec;
  const { quarantined, sourceDigest: digest, now, signal } = lookup;
  const port = withCredentials(registry, question.chain);
  const reference = digest === undefined ? question.reference : { ...question.reference, digest };
  const needed = platformsNeeded(landing, nodePoolClosed);
  const wanted = {
    ...(needed === undefined ? {} : { platforms: needed }),
    ...(signal === undefined ? {} : { signal }),
  };
  // A source without an image for some of the nodes fails there whatever is written: only what it has is to be covered.
  const source = await resolveSource(format(reference), port, { ...wanted, onePlatform: true });
  if (!source.ok) {
    const { outcome, message, reason } = source;
    // No answer is not the answer "no".
    const verdict = reason === 'RegistryError' ? 'unknown' : 'no';
    return { answer: { outcome, message }, steps: [{ step: 'source', detail: message, verdict }] };
  }
  const excess = sizeProblem(policy.spec, source.sizeBytes);
  if (excess !== undefined) {
    const steps: Step[] = [
      { step: 'source', detail: `${format(reference)} is ${source.digest}`, verdict: 'yes' },
      { step: 'size limit', detail: excess, verdict: 'no' },
    ];
    return { answer: { outcome: 'too-large', sourceDigest: source.digest, message: excess }, steps, sizeBytes: source.sizeBytes };
  }
  const found = await findVariant({
    source,
    rules,
    freshness,
    output,
    port: quarantined === undefined ? port : withoutQuarantined(port, quarantined),
    obstacle: (of) => obstacleTo(of, landing, nodePoolClosed),
    privateObstacle: (of) => privateObstacleTo(of, landing, nodePoolClosed),
    ...wanted,
    ...(now === undefined ? {} : { now }),
  });
  const details = { sourceDigest: source.digest, format: found.format, message: found.message };
  const evidence = { steps: found.evidence, sizeBytes: source.sizeBytes };
  if (found.outcome !== 'accelerated') return { answer: { ...details, outcome: found.outcome }, ...evidence };
  const { outcome, image, format: name, portable } = found;
  return { answer: { ...details, outcome, image }, ...evidence, variant: { image, format: name, portable } };
}

/** An image that a registry has and that is not used all the same; unlike an absent one it says why itself. */
class Quarantined extends RegistryError {
  override get notFound(): boolean {
    return false;
  }
}

/** A variant that nodes just failed to pull is as good as absent: the ladder goes on to the next rule of the policy. */
function withoutQuarantined(port: RegistryPort, quarantined: (variant: string) => string | undefined): RegistryPort {
  return {
    config: (...args) => port.config(...args),
    referrers: (...args) => port.referrers(...args),
    manifest: async (reference, options) => {
      const fact = await port.manifest(reference, options);
      const message = quarantined(fact.digest) ?? quarantined(format(reference));
      if (message === undefined) return fact;
      throw new Quarantined(message, { outcome: 'variant-missing', host: reference.registry });
    },
  };
}

/** Why an image of so many compressed bytes is too large for a policy, or undefined. An image of unknown size is not. */
function sizeProblem({ maxImageSize }: AccelerationPolicySpec, sizeBytes: number | undefined): string | undefined {
  const limit = maxImageSize === undefined ? undefined : parseQuantity(maxImageSize);
  if (limit === undefined || sizeBytes === undefined || sizeBytes <= limit) return undefined;
  return `the source has ${formatBytes(sizeBytes)} compressed, more than maxImageSize ${String(maxImageSize)} of the policy`;
}
