import type { AccelerationPolicySpec, Format, VariantRule } from '../api/kinds/acceleration-policy.js';
import type { LeavingOutcome } from '../api/outcomes.js';
import type { Rung } from './freshness.js';
import { runsOn } from './platform.js';
import type { Credential, RegistryPort } from './registry-port.js';
import type { ResolvedSource, SourcePlatform } from './resolve.js';
import type { Step } from './trail.js';

export interface VariantQuestion {
  source: ResolvedSource;
  /** In order of preference, from the policy. */
  rules: readonly VariantRule[];
  /** Exact when absent. */
  freshness?: AccelerationPolicySpec['freshness'];
  /** Form of `image` in the answer; Digest when absent. */
  output?: AccelerationPolicySpec['output'];
  port: RegistryPort;
  credential?: Credential;
  /** Platforms of the nodes that the Pod can land on; all platforms of the source when absent. */
  platforms?: readonly string[];
  signal?: AbortSignal;
  /** Why nodes may be unable to run a format that plain nodes cannot; absent where nothing is known of nodes, which is a doubt. */
  obstacle?: (format: Format) => string | undefined;
  /** Milliseconds that never jump, for the time of each step; steps have no time when absent. */
  now?: () => number;
}

interface Finding {
  /** One sentence for people. */
  message: string;
  evidence: readonly Step[];
}

/** `image` is what to write into the Pod, `digest` that of the variant's index or manifest, `rung` how it is known to be the same program. */
export type VariantAnswer =
  | (Finding & { outcome: 'accelerated'; image: string; digest: string; format: Format; rung: Rung })
  | (Finding & { outcome: LeavingOutcome; image?: undefined; digest?: undefined; format?: Format; rung?: undefined });

/** The platforms of the source that the Pod can land on; all of the source where nodes are not known. */
export function wantedPlatforms({ source, platforms }: VariantQuestion): readonly SourcePlatform[] {
  return source.platforms.filter(
    ({ platform }) => platform === undefined || platforms === undefined || platforms.some((p) => runsOn(platform, p)),
  );
}

/** What every call to the registry carries. */
export function lookupOf({ credential, signal }: VariantQuestion): { credential?: Credential; signal?: AbortSignal } {
  return { ...(credential === undefined ? {} : { credential }), ...(signal === undefined ? {} : { signal }) };
}
