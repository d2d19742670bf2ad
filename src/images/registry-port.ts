import type { Outcome } from '../api/outcomes.js';
import type { Reference } from './reference.js';

/** User name and password for one registry, as kubelets send them. Never logged. */
export interface Credential {
  username: string;
  password: string;
  /** Refresh token for the registry's token service, as `docker login` keeps it for some clouds; used instead of the password. */
  identityToken?: string;
}

export interface Descriptor {
  digest: string;
  mediaType: string;
  /** Bytes of the blob or manifest itself. */
  size: number;
  annotations: Readonly<Record<string, string>>;
  artifactType?: string;
}

/** A child of an index that is made for one platform: `os/architecture[/variant]`, e.g. `linux/arm64/v8`. */
export interface PlatformDescriptor extends Descriptor {
  platform: string;
  /** Features that a runtime needs; a child with any is not what an ordinary node picks. */
  osFeatures: readonly string[];
  /** Version of Windows; absent for other systems, whose runtimes do not look at it. */
  osVersion?: string;
}

/** What Harbinger knows of one manifest or index. */
export interface ManifestFact {
  /** Digest of the exact bytes that the registry sent. */
  digest: string;
  mediaType: string;
  kind: 'index' | 'manifest';
  /** Children of an index that have a platform, in its order; attestations are left out. */
  manifests: readonly PlatformDescriptor[];
  /** SOCI indexes that an index lists without platform. */
  unplaced?: readonly Descriptor[];
  /** Empty for an index. */
  layers: readonly Descriptor[];
  config?: Descriptor;
  annotations: Readonly<Record<string, string>>;
  subject?: { digest: string };
  artifactType?: string;
  /** Compressed bytes of config and layers; 0 for an index. */
  sizeBytes: number;
  /** Bytes of the manifest or index itself, as a descriptor of it says; absent where it was not read from them. */
  bytes?: number;
}

/** What a program is made of beside its files. Each is kept as a hash: they are only ever compared. */
export type Trait =
  'created' | 'history' | 'environment' | 'command' | 'entrypoint' | 'labels' | 'user' | 'workingDir' | 'volumes' | 'stopSignal';

/** The part of an image config that decisions need. */
export interface ImageConfig {
  /** `os/architecture[/variant]`. */
  platform: string;
  /** Digests of the unpacked layers, in order; empty where the config has none. */
  diffIds: readonly string[];
  /** Hash of each trait that the config has. */
  traits: Readonly<Partial<Record<Trait, string>>>;
}

/** What refers to a manifest (OCI `subject`), as far as its registry can tell. */
export interface ReferrersFact {
  /** By digest, without duplicates; `artifactType` is filled in from the config media type where the registry does so. */
  referrers: readonly Descriptor[];
  /** `unsupported`: the registry has no referrers API and no fallback tag for the digest; that is not the same as none. */
  how: 'api' | 'fallback-tag' | 'unsupported';
  /** One sentence for people. */
  detail: string;
}

export interface LookupOptions {
  /** The Pod's own credential; Harbinger's own one for that registry when absent, where it may be used. */
  credential?: Credential;
  /**
   * The question is asked for a Pod: Harbinger's own credential then serves only if `credential.forPods` of its registry allows it,
   * or a tenant would learn digests and variants of images that only Harbinger may read.
   */
  forPod?: boolean;
  /** The question is asked without any credential: can anybody read this? `credential` and `forPod` count for nothing then. */
  anonymous?: true;
  /** Ends the caller's waiting. */
  signal?: AbortSignal;
  /** Asks the registry even if the answer is remembered: for a moving tag just before a gang is let go. */
  fresh?: boolean;
}

/** Registries as decisions see them. Every failure is a RegistryError. */
export interface RegistryPort {
  /** Reads the manifest or index that a reference names; its digest is verified against the bytes. */
  manifest(reference: Reference, options?: LookupOptions): Promise<ManifestFact>;
  /** Reads the config blob `digest` of an image in the repository of `reference`. */
  config(reference: Reference, digest: string, options?: LookupOptions): Promise<ImageConfig>;
  /**
   * Lists what refers to the manifest `digest` in the repository of `reference`. A registry that cannot tell is an answer, not
   * an error; rule: distribution specification, "Listing Referrers" and "Unavailable Referrers API".
   */
  referrers(reference: Reference, digest: string, options?: LookupOptions): Promise<ReferrersFact>;
}

export type RegistryOutcome = Extract<
  Outcome,
  'registry-error' | 'auth-denied' | 'circuit-open' | 'budget-exceeded' | 'variant-missing'
>;

export interface RegistryErrorDetails {
  outcome: RegistryOutcome;
  /** Host that was asked, as it stands in the reference. */
  host: string;
  /** HTTP status, where there was an answer. */
  status?: number;
  /** How long the registry asked to be left alone, milliseconds. */
  retryAfterMs?: number;
}

/** Why a registry gave no usable answer. The message names the host, the cause and the way out. */
export class RegistryError extends Error {
  readonly outcome: RegistryOutcome;
  readonly host: string;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, details: RegistryErrorDetails) {
    super(message);
    this.name = 'RegistryError';
    this.outcome = details.outcome;
    this.host = details.host;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }

  /** The registry answered that there is no such manifest: absent, which is not the same as unknown. */
  get notFound(): boolean {
    return this.outcome === 'variant-missing';
  }
}
