import type { Outcome } from '../api/outcomes.js';
import type { FailureReason } from '../api/reasons.js';
import type { Reference } from './reference.js';
import type { Credential, ManifestFact, RegistryPort } from './registry-port.js';

/** The image that a source has for one platform. */
export interface SourcePlatform {
  /** `os/architecture[/variant]`; undefined where the image does not say. */
  platform: string | undefined;
  digest: string;
  /** Read for the platforms that were asked for (the first one when none was). */
  manifest?: ManifestFact;
}

/** A source image, resolved once: whatever its tag does later, all that follows speaks of `digest`. */
export interface ResolvedSource {
  ok: true;
  reference: Reference;
  /** Digest of the index or manifest that the reference named. */
  digest: string;
  /** Compressed bytes of the largest of the platforms asked for. */
  sizeBytes: number;
  /** The platforms asked for that the image has; all that it has when none was asked for. */
  platforms: readonly SourcePlatform[];
  fact: ManifestFact;
}

export interface FailedResolution {
  ok: false;
  outcome: Outcome;
  reason: FailureReason;
  message: string;
  /** How long the registry asked to be left alone, milliseconds. */
  retryAfterMs?: number;
}

export type Resolution = ResolvedSource | FailedResolution;

export interface ResolveOptions {
  credential?: Credential;
  /** Platforms of the nodes the image has to run on (`linux/amd64`); every one must be there. */
  platforms?: readonly string[];
  signal?: AbortSignal;
  /** Asks the registry even if the tag was resolved a moment ago. */
  fresh?: boolean;
}

/** Resolves an image as a Pod names it. Total: failures of registries and bad names come back as a FailedResolution. */
export function resolveSource(_image: string, _port: RegistryPort, _options: ResolveOptions = {}): Promise<Resolution> {
  return Promise.reject(new Error('not yet'));
}
