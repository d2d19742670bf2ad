import { at, records, string } from '../api/json.js';
import type { CredentialChain } from '../images/credential-chain.js';
import type { Keyring } from '../images/pull-secret.js';
import { credentialsFor } from '../images/pull-secret.js';
import type { Reference } from '../images/reference.js';
import type { PodView } from './pod-view.js';

/** Most pull secrets of one Pod that are read; kubelets take any number, and each costs an admission a call. */
export const MAX_SECRETS = 8;
/** Credentials of a Pod that a registry is asked with before Harbinger's own one. */
const MAX_CREDENTIALS = 3;

/**
 * Where the pull secrets of a Pod are named: in the Pod, or at its ServiceAccount where the Pod names none. The API server copies
 * the latter into new Pods before webhooks are called, unless its ServiceAccount plugin is off.
 */
export type SecretNames = { secrets: readonly string[] } | { serviceAccount: string };

export function pullSecretsOf({ raw }: PodView): SecretNames {
  const spec = at(raw, 'spec');
  const secrets = secretNames(spec['imagePullSecrets']);
  return secrets.length > 0 ? { secrets } : { serviceAccount: string(spec['serviceAccountName']) ?? 'default' };
}

/** Names in a list of local references (`[{name}]`), of a Pod or of a ServiceAccount, each once. */
export function secretNames(references: unknown): string[] {
  const names = records(references).flatMap((r) => string(r['name']) ?? []);
  return [...new Set(names)].slice(0, MAX_SECRETS);
}

/** The chain for images of a Pod with these secrets, in the order of kubelets; Harbinger's own credential, where Pods may use it, last. */
export function chainOf(keyrings: readonly Keyring[]): (reference: Reference) => CredentialChain {
  if (keyrings.length === 0) return () => OWN;
  return (reference) => [...credentialsFor(reference, keyrings).slice(0, MAX_CREDENTIALS), undefined];
}

const OWN: CredentialChain = [undefined];
