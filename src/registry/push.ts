import type { Credential, Descriptor } from '../images/registry-port.js';
import type { Reference } from '../images/reference.js';

/** An artifact that says something about a manifest (OCI `subject`). */
export interface Referrer {
  artifactType: string;
  annotations: Readonly<Record<string, string>>;
  /** The manifest it refers to; it has to be in the repository already. */
  subject: Descriptor;
}

/** Writes to registries; only commands that a person runs do. */
export interface RegistryWriter {
  /**
   * Pushes an artifact without files that refers to `manifest.subject`, into the repository of `reference`. `how` tells whether the
   * registry lists it by itself or Harbinger keeps the fallback tag. Throws RegistryError.
   */
  pushReferrer(
    reference: Reference,
    manifest: Referrer,
    credential?: Credential,
  ): Promise<{ digest: string; how: 'api' | 'fallback-tag' }>;
}
