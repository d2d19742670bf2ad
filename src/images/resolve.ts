import type { LeavingOutcome } from '../api/outcomes.js';
import type { FailureReason } from '../api/reasons.js';
import { failureOf } from './failure.js';
import { markOf } from './formats/marks.js';
import { onePerPlace, plainChildren } from './ladder/picks.js';
import { runsOn } from './platform.js';
import { atDigest, format, parseReference } from './reference.js';
import type { Reference } from './reference.js';
import type { Credential, ManifestFact, PlatformDescriptor, RegistryPort } from './registry-port.js';

/** Real images have up to twenty platforms; an index with more is there to make us ask for them all. */
export const MAX_PLATFORMS = 40;

/** The image that a source has for one platform. */
export interface SourcePlatform {
  /** `os/architecture[/variant]`; undefined where the image does not say. */
  platform: string | undefined;
  /** Of Windows, whose nodes run only images of their own version. */
  osVersion?: string;
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
  outcome: LeavingOutcome;
  reason: FailureReason;
  message: string;
  /** How long the registry asked to be left alone, milliseconds. */
  retryAfterMs?: number;
}

export type Resolution = ResolvedSource | FailedResolution;

export interface ResolveOptions {
  credential?: Credential;
  /** Platforms of the nodes the image has to run on (`linux/amd64`); every one must be there unless `onePlatform`. */
  platforms?: readonly string[];
  /** One of the platforms is enough: nodes of the others cannot run the image anyway. */
  onePlatform?: true;
  signal?: AbortSignal;
  /** Asks the registry even if the tag was resolved a moment ago. */
  fresh?: boolean;
}

/** Resolves an image as a Pod names it. Total: failures of registries and bad names come back as a FailedResolution. */
export async function resolveSource(image: string, port: RegistryPort, options: ResolveOptions = {}): Promise<Resolution> {
  const parsed = parseReference(image);
  if (!parsed.ok)
    return { ok: false, outcome: 'unparsable', reason: 'Unparsable', message: `the image cannot be parsed: ${parsed.problem}` };
  const { reference } = parsed;
  const { fresh, ...lookup } = callOptions(options);
  try {
    const fact = await port.manifest(reference, { ...lookup, ...(fresh === undefined ? {} : { fresh }) });
    const question = { reference, fact, port, lookup, wanted: options.platforms, one: options.onePlatform === true };
    return fact.kind === 'index' ? await resolveIndex(question) : await resolveManifest(question);
  } catch (error) {
    return failed(error);
  }
}

interface Question {
  reference: Reference;
  fact: ManifestFact;
  port: RegistryPort;
  lookup: Omit<ResolveOptions, 'platforms' | 'onePlatform' | 'fresh'>;
  wanted: readonly string[] | undefined;
  one: boolean;
}

/** The platforms that keep an image from being used, out of those that it lacks. */
function lacking({ wanted = [], one }: Question, has: (platform: string) => boolean): readonly string[] {
  const missing = wanted.filter((platform) => !has(platform));
  return one && missing.length < wanted.length ? [] : missing;
}

/** Children are read by digest: an index whose tag moves meanwhile still leads to its own images. */
async function resolveIndex(question: Question): Promise<Resolution> {
  const { reference, fact, port, lookup, wanted } = question;
  const children = ordinaryChildren(fact);
  const missing = lacking(question, (platform) => children.some((child) => runsOn(child.platform, platform)));
  if (missing.length > 0 || children.length === 0)
    return platformMissing(
      reference,
      missing,
      children.map((child) => child.platform),
    );
  // Nodes do not tell their CPU variant or their version of Windows, so each image that one of them may choose counts.
  const chosen = onePerPlace(children).filter((child) => wanted === undefined || wanted.some((p) => runsOn(child.platform, p)));
  // An index says nothing about the size of its images; without a wanted platform the first one stands for all.
  const read = chosen.slice(0, wanted === undefined ? 1 : MAX_PLATFORMS);
  const manifests = await Promise.all(read.map((child) => port.manifest(atDigest(reference, child.digest), lookup)));
  const platforms = chosen.map((child, i) => ({
    platform: child.platform,
    ...(child.osVersion === undefined ? {} : { osVersion: child.osVersion }),
    digest: child.digest,
    ...(manifests[i] === undefined ? {} : { manifest: manifests[i] }),
  }));
  return { ok: true, reference, digest: fact.digest, sizeBytes: Math.max(...manifests.map((m) => m.sizeBytes)), platforms, fact };
}

/** A manifest without index has its platform in the config blob. It is asked for only where platforms matter. */
async function resolveManifest(question: Question): Promise<Resolution> {
  const { reference, fact, port, lookup, wanted } = question;
  const platform =
    wanted === undefined || fact.config === undefined ? undefined : await platformOf(port, reference, fact.config.digest, lookup);
  const missing = platform === undefined ? [] : lacking(question, (p) => runsOn(platform, p));
  if (platform !== undefined && missing.length > 0) return platformMissing(reference, missing, [platform]);
  return {
    ok: true,
    reference,
    digest: fact.digest,
    sizeBytes: fact.sizeBytes,
    platforms: [{ platform, digest: fact.digest, manifest: fact }],
    fact,
  };
}

/** Blobs are often served by another host that may be out of reach: then the platform is unknown, which is no reason to fail. */
export async function platformOf(
  port: RegistryPort,
  reference: Reference,
  config: string,
  lookup: Question['lookup'],
): Promise<string | undefined> {
  try {
    return (await port.config(reference, config, lookup)).platform;
  } catch {
    return undefined;
  }
}

/**
 * The children that the nodes of a source pick from. An index of nothing but Nydus images is one that its user runs on Nydus nodes, so
 * they are its images then.
 */
export function ordinaryChildren(fact: ManifestFact): readonly PlatformDescriptor[] {
  const plain = plainChildren(fact);
  return plain.length > 0 ? plain : fact.manifests.filter((child) => markOf(child) === 'nydus');
}

function callOptions({ credential, signal, fresh }: ResolveOptions): Pick<ResolveOptions, 'credential' | 'signal' | 'fresh'> {
  return {
    ...(credential === undefined ? {} : { credential }),
    ...(signal === undefined ? {} : { signal }),
    ...(fresh === undefined ? {} : { fresh }),
  };
}

function platformMissing(reference: Reference, missing: readonly string[], present: readonly string[]): FailedResolution {
  const has = present.length === 0 ? 'no image for any platform' : present.join(', ');
  const lacks = missing.length === 0 ? '' : ` but not for ${missing.join(', ')}`;
  return {
    ok: false,
    outcome: 'platform-missing',
    reason: 'PlatformMissing',
    message: `${format(reference)} has ${present.length === 0 ? '' : 'images for '}${has}${lacks}; build the image for the platforms of the nodes`,
  };
}

/** A source that is absent is not a missing variant: the Pod itself will fail, and only the registry can say why. */
function failed(error: unknown): FailedResolution {
  const { outcome, reason, message, retryAfterMs } = failureOf(error);
  return {
    ok: false,
    outcome: outcome === 'variant-missing' ? 'registry-error' : outcome,
    reason,
    message,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}
