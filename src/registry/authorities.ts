import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { RegistryError } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';

/** Mounted ConfigMaps and Secrets are replaced without notice; this is how long an old file is used. */
const REREAD_MS = 10_000;
/** Bundles of all public authorities have 250 KiB. */
const MAX_BYTES = 4 * 1024 * 1024;

interface Known {
  /** The last text that was usable. */
  text?: string;
  /** Why the file could not be used when it was read last. */
  problem?: string;
  readAt: number;
}

/** The certificate authorities that `caFile` of a registry names, read again while Harbinger runs. */
export class Authorities {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #files = new Map<string, Known>();

  constructor({ clock, log }: { clock: Clock; log: Log }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** PEM text. A file that turns bad is told in the log and its last good text stays in use. Throws RegistryError if there is none. */
  async read(path: string, host: string): Promise<string> {
    let known = this.#files.get(path);
    if (known === undefined || this.#clock.now() - known.readAt >= REREAD_MS) {
      known = await this.#reread(path, host, known);
      this.#files.set(path, known);
    }
    if (known.text !== undefined) return known.text;
    throw new RegistryError(`caFile ${path} of registry ${host} cannot be used: ${known.problem}; the registry is not asked`, {
      outcome: 'registry-error',
      host,
    });
  }

  async #reread(path: string, host: string, before: Known | undefined): Promise<Known> {
    const readAt = this.#clock.now();
    const found = await usable(path);
    if ('text' in found) return { text: found.text, readAt };
    if (found.problem !== before?.problem)
      this.#log.warn({ file: path, registry: host, problem: found.problem }, 'caFile cannot be used');
    return { ...found, readAt, ...(before?.text === undefined ? {} : { text: before.text }) };
  }
}

/** TLS takes any text for authorities and then trusts nobody: what is wrong with it has to be found here. */
async function usable(path: string): Promise<{ text: string } | { problem: string }> {
  try {
    const text = await readFile(path, 'utf8');
    if (text.length > MAX_BYTES) return { problem: `it is larger than ${MAX_BYTES / 1024 / 1024} MiB` };
    const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
    if (blocks.length === 0) return { problem: 'it holds no certificate in PEM form (BEGIN CERTIFICATE)' };
    const broken = blocks.findIndex((block) => !isCertificate(block));
    return broken < 0 ? { text } : { problem: `its certificate ${broken + 1} of ${blocks.length} is damaged` };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}
