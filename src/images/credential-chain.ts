import { createHash } from 'node:crypto';
import { RegistryError } from './registry-port.js';
import type { Credential, LookupOptions, RegistryPort } from './registry-port.js';
import type { Reference } from './reference.js';

/**
 * Credentials in the order in which a registry is asked with them; undefined stands for Harbinger's own one, or none where it has none.
 * The next is tried only where a registry denied the one before.
 */
export type CredentialChain = readonly (Credential | undefined)[];

/** A Pod can name any number of secrets; more attempts than this only cost time and look like guessing to a registry. */
const MAX_ATTEMPTS = 4;

/** A stand-in for a credential in keys and logs; cannot be turned back. */
export function fingerprint(credential: Credential | undefined): string {
  if (credential === undefined) return '-';
  return createHash('sha256')
    .update(JSON.stringify([credential.username, credential.password, credential.identityToken]))
    .digest('base64url')
    .slice(0, 22);
}

/**
 * A port that asks on behalf of a Pod: with each credential of `chain` in turn until one is not denied, at most four. An empty chain is
 * Harbinger's own credential. The port below remembers answers by credential, so no tenant is told what another may see.
 */
export function withCredentials(port: RegistryPort, chain: CredentialChain): RegistryPort {
  const attempts = chain.length === 0 ? [undefined] : chain.slice(0, MAX_ATTEMPTS);
  // One repository answers to one credential: its other manifests are asked for with what served the first.
  const served = new Map<string, number>();
  const ask = async <T>(reference: Reference, options: LookupOptions, call: (o: LookupOptions) => Promise<T>): Promise<T> => {
    if (options.anonymous === true) return call(options);
    const repository = `${reference.registry}/${reference.repository}`;
    let denied: RegistryError | undefined;
    for (const index of startingAt(served.get(repository), attempts.length)) {
      const credential = attempts[index];
      try {
        const { credential: _, ...rest } = options;
        const answer = await call({ ...rest, forPod: true, ...(credential === undefined ? {} : { credential }) });
        served.set(repository, index);
        return answer;
      } catch (error) {
        // "Not found" is an answer to a credential that serves; only a denial says anything about the credential.
        if (!(error instanceof RegistryError) || error.outcome !== 'auth-denied') throw error;
        denied = error;
      }
    }
    throw deniedAll(denied, attempts.length);
  };
  return {
    manifest: (reference, options = {}) => ask(reference, options, (o) => port.manifest(reference, o)),
    config: (reference, digest, options = {}) => ask(reference, options, (o) => port.config(reference, digest, o)),
    referrers: (reference, digest, options = {}) => ask(reference, options, (o) => port.referrers(reference, digest, o)),
  };
}

function startingAt(first: number | undefined, count: number): number[] {
  const all = Array.from({ length: count }, (_, index) => index);
  return first === undefined ? all : [first, ...all.filter((index) => index !== first)];
}

function deniedAll(last: RegistryError | undefined, count: number): Error {
  if (last === undefined) return new TypeError('a chain of credentials is never empty');
  if (count === 1) return last;
  return new RegistryError(`${last.message} (the last of ${count} credentials; all were denied)`, {
    outcome: last.outcome,
    host: last.host,
    ...(last.status === undefined ? {} : { status: last.status }),
  });
}
