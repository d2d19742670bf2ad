import type { RegistryConfig } from '../config/schema.js';
import type { Reference } from '../images/reference.js';
import type { ImageConfig, LookupOptions, ManifestFact, ReferrersFact } from '../images/registry-port.js';

/** A question to one particular host. */
export interface HostOptions extends LookupOptions {
  /** The mirror to ask instead of the registry that the reference names. */
  mirror?: RegistryConfig;
}

/** Registries one host at a time; that a registry may have mirrors is known above. */
export interface HostPort {
  manifest(reference: Reference, options?: HostOptions): Promise<ManifestFact>;
  config(reference: Reference, digest: string, options?: HostOptions): Promise<ImageConfig>;
  referrers(reference: Reference, digest: string, options?: HostOptions): Promise<ReferrersFact>;
}

/** A call that is still to be sent to a host of the caller's choice. */
export type HostCall<T> = (options: HostOptions) => Promise<T>;
