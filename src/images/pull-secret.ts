import type { Reference } from './reference.js';
import type { Credential } from './registry-port.js';

/** Credentials of one pull secret or docker config file, longest pattern first. */
export interface Keyring {
  entries: readonly { host: string; path: string; credential: Credential }[];
  /** Entries that could not be used, in words that contain no part of a credential. */
  problems: readonly string[];
}

/** Reads a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg (`data` is base64). Total. */
export function parsePullSecret(_secret: { type?: string; data?: Record<string, string> }): Keyring {
  return { entries: [], problems: [] };
}

/** Reads the text of a docker config file. Total. */
export function parseDockerConfig(_text: string): Keyring {
  return { entries: [], problems: [] };
}

/** The credential a kubelet would try first: secrets in order, in each the longest matching pattern. */
export function credentialFor(_reference: Reference, _keyrings: readonly Keyring[]): Credential | undefined {
  return undefined;
}
