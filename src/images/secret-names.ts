import { records, string } from '../api/json.js';
import type { CredentialChain } from './credential-chain.js';
import type { Keyring } from './pull-secret.js';
import { credentialsFor } from './pull-secret.js';
import type { Reference } from './reference.js';

/** Most pull secrets of one Pod that are read; kubelets take any number, and each costs a call. */
export const MAX_SECRETS = 8;
/** Credentials of a Pod that a registry is asked with before Harbinger's own one. */
const MAX_CREDENTIALS = 3;

/** Where the pull secrets of Pods are named: in the Pods, or at their ServiceAccount where Pods name none. */
export type SecretNames = { secrets: readonly string[] } | { serviceAccount: string };

/** Names in a list of local references (`[{name}]`), of a Pod or of a ServiceAccount, each once. */
export function secretNames(references: unknown): string[] {
  const names = records(references).flatMap((r) => string(r['name']) ?? []);
  return [...new Set(names)].slice(0, MAX_SECRETS);
}

/** The credentials of these secrets for an image, in the order of kubelets. */
export function ownChainOf(keyrings: readonly Keyring[]): (reference: Reference) => CredentialChain {
  return (reference) => credentialsFor(reference, keyrings).slice(0, MAX_CREDENTIALS);
}

/** The chain for images of a Pod with these secrets, in the order of kubelets; Harbinger's own credential, where Pods may use it, last. */
export function chainOf(keyrings: readonly Keyring[]): (reference: Reference) => CredentialChain {
  if (keyrings.length === 0) return () => OWN;
  const own = ownChainOf(keyrings);
  return (reference) => [...own(reference), undefined];
}

const OWN: CredentialChain = [undefined];
