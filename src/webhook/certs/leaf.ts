import { X509Certificate } from 'node:crypto';
import type { Authority } from './ca-secret.js';
import type { KeyPair } from './x509.js';
import { createLeaf, notAfterOf, renewAt } from './x509.js';

/** A server certificate of this replica; its key never leaves the process. */
export interface Leaf {
  pair: KeyPair;
  cert: X509Certificate;
  /** SHA-256 fingerprint of the authority that signed it. */
  issuer: string;
}

export function signLeaf(authority: Authority, names: readonly string[], now: number, validityMs: number): Leaf {
  const pair = createLeaf(authority, names, { now, validityMs });
  return { pair, cert: new X509Certificate(pair.cert), issuer: authority.cert.fingerprint256 };
}

/**
 * Why a new leaf has to be signed now, or undefined. While the API server may not know the new authority yet, a leaf of the old
 * one is kept as long as it is valid: a handshake that fails loses an admission silently.
 * @param settled whether the API server has trusted the current authority for long enough
 */
export function leafRequiresRenewal(
  leaf: Leaf | undefined,
  authority: Authority,
  now: number,
  settled: boolean,
): string | undefined {
  if (leaf === undefined) return 'there is none yet';
  if (now >= notAfterOf(leaf.cert)) return `it expired at ${leaf.cert.validTo}`;
  if (leaf.issuer === authority.cert.fingerprint256) {
    return now >= renewAt(leaf.cert) ? 'two thirds of its life are over' : undefined;
  }
  return settled ? 'the authority changed' : undefined;
}
