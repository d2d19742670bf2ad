import { createHash } from 'node:crypto';
import type { Credential } from './registry-port.js';

/**
 * Credentials in the order in which a registry is asked with them; undefined stands for Harbinger's own one, or none where it has none.
 * The next is tried only where a registry denied the one before.
 */
export type CredentialChain = readonly (Credential | undefined)[];

/** A stand-in for a credential in keys and logs; cannot be turned back. */
export function fingerprint(credential: Credential | undefined): string {
  if (credential === undefined) return '-';
  return createHash('sha256')
    .update(JSON.stringify([credential.username, credential.password]))
    .digest('base64url')
    .slice(0, 22);
}
