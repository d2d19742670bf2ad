import { readFile } from 'node:fs/promises';
import type { RegistryConfig } from '../config/schema.js';
import { credentialsFor, parseDockerConfig } from '../images/pull-secret.js';
import type { Keyring } from '../images/pull-secret.js';
import type { Reference } from '../images/reference.js';
import type { Credential } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';

/** Mounted Secrets are replaced without notice; this is how long an old one is used. */
const REREAD_MS = 30_000;

/** Harbinger's own read-only credentials, from docker config files named in the configuration. */
export class OwnCredentials {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #files = new Map<string, { keyring: Keyring; readAt: number }>();

  constructor(log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Undefined where none is configured, or its file cannot be used: then the registry is asked without one and says so itself. */
  async get(registry: RegistryConfig, reference: Reference): Promise<Credential | undefined> {
    const path = registry.credential?.dockerConfigFile;
    return path === undefined ? undefined : credentialsFor(reference, [await this.#read(path)])[0];
  }

  /** A file that cannot be read is logged once per interval, not once per image. */
  async #read(path: string): Promise<Keyring> {
    const known = this.#files.get(path);
    const now = this.#clock.now();
    if (known !== undefined && now - known.readAt < REREAD_MS) return known.keyring;
    const keyring = await readFile(path, 'utf8').then(parseDockerConfig, (error: Error) => ({
      entries: [],
      problems: [error.message],
    }));
    if (keyring.problems.length > 0)
      this.#log.warn({ file: path, problems: keyring.problems }, 'docker config file cannot be used in full');
    this.#files.set(path, { keyring, readAt: now });
    return keyring;
  }
}
