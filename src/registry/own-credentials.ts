import { readFile } from 'node:fs/promises';
import type { RegistryConfig } from '../config/schema.js';
import { credentialsFor, parseDockerConfig } from '../images/pull-secret.js';
import type { Keyring } from '../images/pull-secret.js';
import type { Reference } from '../images/reference.js';
import type { Credential } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { ExecCredentials } from './exec-credentials.js';

/** Mounted Secrets are replaced without notice; this is how long an old one is used. */
const REREAD_MS = 30_000;
/** A denied credential makes a file be read at once, but not for each of a thousand denied images. */
const RENEW_MS = 1000;

/** Harbinger's own credential for an image; `problem` says why there is none although a source is configured. */
export interface Own {
  credential?: Credential;
  problem?: string;
}

/** Where Harbinger's own credentials come from. */
export interface OwnSource {
  /** `renew`: the registry denied the one before. */
  get(registry: RegistryConfig, reference: Reference, renew?: boolean): Promise<Own>;
}

/** Harbinger's own read-only credentials, from the docker config files and plugins that the configuration names. */
export class OwnCredentials implements OwnSource {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #exec: ExecCredentials;
  readonly #files = new Map<string, { keyring: Keyring; readAt: number }>();
  /** Problems that were told last, by source. */
  readonly #told = new Map<string, string>();

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
    this.#exec = new ExecCredentials(clock);
  }

  /**
   * Without a credential the registry is asked all the same, as the image may be public. Throws RegistryError (`budget-exceeded`) where a
   * plugin does not answer in time: what the registry says without one would be taken for a denial.
   */
  async get(registry: RegistryConfig, reference: Reference, renew = false): Promise<Own> {
    const { dockerConfigFile, exec } = registry.credential ?? {};
    if (dockerConfigFile !== undefined)
      return this.#choose(dockerConfigFile, await this.#read(dockerConfigFile, renew), reference);
    if (exec !== undefined) return this.#choose(exec.command, await this.#exec.get(exec, reference, renew), reference);
    return {};
  }

  #choose(source: string, keyring: Keyring, reference: Reference): Own {
    this.#tell(source, keyring.problems.join('; '));
    const credential = credentialsFor(reference, [keyring])[0];
    if (credential !== undefined) return { credential };
    const problem = keyring.problems[0] ?? `${source} has no entry for ${reference.registry}/${reference.repository}`;
    return { problem };
  }

  /** A problem is logged when it comes, not for each image. */
  #tell(source: string, problems: string): void {
    if (problems === this.#told.get(source)) return;
    if (problems !== '') this.#log.warn({ source, problems }, "a source of Harbinger's credentials cannot be used in full");
    this.#told.set(source, problems);
  }

  async #read(path: string, renew: boolean): Promise<Keyring> {
    const known = this.#files.get(path);
    const now = this.#clock.now();
    if (known !== undefined && now - known.readAt < (renew ? RENEW_MS : REREAD_MS)) return known.keyring;
    const keyring = await readFile(path, 'utf8').then(parseDockerConfig, (error: Error) => ({
      entries: [],
      problems: [error.message],
    }));
    const named = { ...keyring, problems: keyring.problems.map((problem) => `docker config file ${path}: ${problem}`) };
    this.#files.set(path, { keyring: named, readAt: now });
    return named;
  }
}
