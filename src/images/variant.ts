import type { AccelerationPolicySpec, Format, VariantRule } from '../api/kinds/acceleration-policy.js';
import type { Outcome } from '../api/outcomes.js';
import type { Credential, RegistryPort } from './registry-port.js';
import type { ResolvedSource } from './resolve.js';

/** One thing that was looked at on the way to a decision; `explain` prints them in order. */
export interface Step {
  /** Short name of the question, e.g. `source`, `candidate`, `format`, `freshness`. */
  step: string;
  /** The variant that the step is about; absent where it is about the source. */
  candidate?: string;
  detail: string;
  verdict: 'yes' | 'no' | 'unknown' | 'skip';
}

export interface VariantQuestion {
  source: ResolvedSource;
  /** In order of preference, from the policy. */
  rules: readonly VariantRule[];
  freshness?: AccelerationPolicySpec['freshness'];
  /** Form of `image` in the answer; Digest when absent. */
  output?: AccelerationPolicySpec['output'];
  port: RegistryPort;
  credential?: Credential;
  /** Platforms of the nodes that the Pod can land on; all platforms of the source when absent. */
  platforms?: readonly string[];
  signal?: AbortSignal;
}

export interface VariantAnswer {
  outcome: Outcome;
  /** One sentence for people. */
  message: string;
  /** What to write into the Pod; there only when `outcome` is `accelerated`. */
  image?: string;
  /** Digest of the variant's index or manifest. */
  digest?: string;
  format?: Format;
  evidence: readonly Step[];
}

/** The ladder: finds the variant that is known to be the same program as `source`. Total: failures of registries are outcomes. */
export function findVariant(_question: VariantQuestion): Promise<VariantAnswer> {
  return Promise.reject(new Error('not yet'));
}
