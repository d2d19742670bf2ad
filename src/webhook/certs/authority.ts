import type { KubePort, ObjectName } from '../../kube/port.js';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/errors.js';
import { RESOURCE } from '../../kube/resources.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Authority, CaSecret } from './ca-secret.js';
import { caRequiresRegeneration, readAuthority, regenerate } from './ca-secret.js';

export interface AuthorityOptions {
  client: KubePort;
  secret: { namespace: string; name: string };
  validityMs: number;
  clock: Clock;
  log: Log;
}

/** Attempts to agree with the other replicas on one Secret before the caller has to come back. */
const MAX_ROUNDS = 5;

/**
 * The authority that all replicas share, made by whichever comes first. Whoever loses a race uses the winner's; nobody waits
 * for a leader, because a replica without a certificate is a replica that does not serve.
 */
export class AuthorityKeeper {
  readonly #options: AuthorityOptions;

  constructor(options: AuthorityOptions) {
    this.#options = options;
  }

  /** The authority as the API server has it now, made or replaced first where it has to be. Throws KubeError. */
  async ensure(): Promise<Authority> {
    const { client, secret, clock } = this.#options;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const found = await this.#read(secret);
      const reason = found === undefined ? 'there is no Secret yet' : caRequiresRegeneration(found, clock.now());
      if (found !== undefined && reason === undefined) return readAuthority(found);
      const written = await this.#write(client, found, reason ?? '');
      if (written !== undefined) return readAuthority(written);
    }
    throw new Error(`Secret ${secret.namespace}/${secret.name} keeps being changed by others; does something else manage it?`);
  }

  async #read(name: ObjectName): Promise<CaSecret | undefined> {
    try {
      return await this.#options.client.get<CaSecret>(RESOURCE.secrets, name);
    } catch (err) {
      if (isNotFound(err)) return undefined;
      throw err;
    }
  }

  /** Undefined when another replica was first. */
  async #write(client: KubePort, found: CaSecret | undefined, reason: string): Promise<CaSecret | undefined> {
    const { secret, validityMs, clock, log } = this.#options;
    const data = regenerate(found, clock.now(), validityMs);
    try {
      const written =
        found === undefined
          ? await client.create<CaSecret>(RESOURCE.secrets, newSecret(secret, data))
          : await client.patch<CaSecret>(RESOURCE.secrets, secret, mergeData(found, data));
      log.info({ secret, reason }, 'new certificate authority');
      return written;
    } catch (err) {
      if (isAlreadyExists(err) || isConflict(err) || isNotFound(err)) return undefined;
      throw err;
    }
  }
}

function newSecret(name: { namespace: string; name: string }, data: Record<string, string>): CaSecret {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { ...name }, type: 'kubernetes.io/tls', data };
}

/** The resource version makes the write fail when another replica wrote in between. */
function mergeData(found: CaSecret, data: Record<string, string>): { type: 'merge'; body: unknown } {
  return { type: 'merge', body: { metadata: { resourceVersion: found.metadata.resourceVersion }, data } };
}
