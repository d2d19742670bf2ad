import type { AccelerationPolicySpec, Format, VariantRule } from '../../api/kinds/acceleration-policy.js';
import type { LeavingOutcome } from '../../api/outcomes.js';
import type { Rung } from './freshness.js';
import { runsOn } from '../platform.js';
import type { Credential, RegistryPort } from '../registry-port.js';
import type { ResolvedSource, SourcePlatform } from '../resolve.js';
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
  /**
   * Why nodes may be unable to pull a private image of a format that plain nodes cannot run: there the snapshotter pulls, with credentials
   * of its own. Absent where nothing is known of nodes, which is a doubt.
   */
  privateObstacle?: (format: Format) => string | undefined;
  /** Milliseconds that never jump, for the time of each step; steps have no time when absent. */
  now?: () => number;
}

interface Finding {
  /** One sentence for people. */
  message: string;
  evidence: readonly Step[];
}

/** A variant that may be used. */
interface Accelerated extends Finding {
  outcome: 'accelerated';
  /** What to write into the Pod. */
  image: string;
  /** Of the variant's index or manifest. */
  digest: string;
  format: Format;
  /** How it is known to be the same program. */
  rung: Rung;
  /** Nodes that do not know the format run it all the same; else it may only be given to Pods that land on nodes which do. */
  portable: boolean;
}

interface Left extends Finding {
  outcome: LeavingOutcome;
  image?: undefined;
  digest?: undefined;
  format?: Format;
  rung?: undefined;
  portable?: undefined;
}

export type VariantAnswer = Accelerated | Left;

/** The platforms of the source that the Pod can land on; all of the source where nodes are not known. */
export function wantedPlatforms({ source, platforms }: VariantQuestion): readonly SourcePlatform[] {
  return source.platforms.filter(
    ({ platform }) => platform === undefined || platforms === undefined || platforms.some((p) => runsOn(platform, p)),
  );
}

/** What every call to the registry carries. */
export function lookupOf({ credential, signal }: Pick<VariantQuestion, 'credential' | 'signal'>): {
  credential?: Credential;
  signal?: AbortSignal;
} {
  return { ...(credential === undefined ? {} : { credential }), ...(signal === undefined ? {} : { signal }) };
}
