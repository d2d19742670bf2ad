import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseObject, record, records, string } from '../api/json.js';
import { parseConfig, parseManifest } from '../images/manifest.js';
import { format, parseReference } from '../images/reference.js';
import type { Reference } from '../images/reference.js';
import { fallbackTag, isReferrersFailure, referrerEntries, referrersAbsent, referrersFact } from '../images/referrers.js';
import type { ApiAnswer } from '../images/referrers.js';
import { RegistryError } from '../images/registry-port.js';
import type { Descriptor, ImageConfig, ManifestFact, ReferrersFact, RegistryPort } from '../images/registry-port.js';

/** One answer of a registry: a manifest, an index or a config, or the status of a refusal. */
interface Recorded {
  status: number;
  /** The bytes; an object in the file stands for its compact JSON. */
  body: string;
}

/**
 * A registry that answers from files: `{"answers": [{"reference", "status"?, "body"?}]}`, where the body of a 200 is the JSON that
 * the registry sent; `referrersOf` instead of `reference` marks a list of referrers. Each body is served under its reference and under
 * its digest, which is computed, never believed.
 */
export class RecordedRegistry implements RegistryPort {
  readonly #answers = new Map<string, Recorded>();

  /** Reads all `*.json` of a directory. Throws if one cannot be read. */
  static async read(directory: string): Promise<RecordedRegistry> {
    const registry = new RecordedRegistry();
    const found = await readdir(directory).catch((cause: Error) => {
      throw new Error(`cannot read recorded answers: ${cause.message}`, { cause });
    });
    const names = found.filter((name) => name.endsWith('.json')).sort();
    for (const name of names) registry.#add(await readFile(join(directory, name), 'utf8'), join(directory, name));
    return registry;
  }

  manifest(reference: Reference): Promise<ManifestFact> {
    return attempt(() => {
      const body = this.#body(reference, format(reference));
      const digest = digestOf(body, reference.digest);
      if (digest !== (reference.digest ?? digest))
        throw refused(reference, `other bytes were recorded for ${format(reference)}: they are ${digest}`);
      const parsed = parseManifest(body, digest);
      if (!parsed.ok) throw refused(reference, `what was recorded for ${format(reference)} cannot be used: ${parsed.problem}`);
      return parsed.fact;
    });
  }

  config(reference: Reference, digest: string): Promise<ImageConfig> {
    return attempt(() => {
      const parsed = parseConfig(this.#body(reference, `${reference.registry}/${reference.repository}@${digest}`));
      if (!parsed.ok) throw refused(reference, `the config ${digest} cannot be used: ${parsed.problem}`);
      return parsed.config;
    });
  }

  /** The recorded list and the fallback tag, read as those of a real registry; where neither was recorded, it has none. */
  referrers(reference: Reference, digest: string): Promise<ReferrersFact> {
    return attempt((): ReferrersFact => {
      const { registry: host } = reference;
      const answer = this.#listed(reference, digest);
      return referrersFact(host, digest, answer, this.#tagged(reference, digest, 'absent' in answer));
    });
  }

  #listed({ registry, repository }: Reference, digest: string): ApiAnswer {
    const listed = this.#answers.get(referrersKey({ registry, repository, digest }));
    if (listed === undefined) return { absent: `no list of referrers was recorded for ${repository}` };
    if (isReferrersFailure(listed.status)) throw refusal(registry, listed.status, `referrers of ${digest} in ${repository}`);
    const entries = listed.status === 200 ? referrerEntries(listed.body) : undefined;
    return entries === undefined ? { absent: referrersAbsent(registry, listed.status) } : { entries, cut: false };
  }

  /** A tag that leads back to the image itself lists no referrers, as with some registries. */
  #tagged({ registry, repository }: Reference, digest: string, alone: boolean): Descriptor[] | undefined {
    const tag = fallbackTag(digest);
    const found = this.#answers.get(keyOf({ registry, repository, tag }));
    if (found === undefined || found.status === 404 || found.status === 400) return undefined;
    if (found.status === 200) return digestOf(found.body, digest) === digest ? undefined : referrerEntries(found.body);
    if (alone) throw refusal(registry, found.status, `${repository}:${tag}`);
    return undefined;
  }

  #add(text: string, file: string): void {
    const answers = records(parseObject(text)?.['answers']);
    if (answers.length === 0)
      throw new Error(`${file}: no recorded answers; expected {"answers": [{"reference": ..., "body": ...}]}`);
    for (const answer of answers) {
      const referrersOf = string(answer['referrersOf']);
      const parsed = parseReference(referrersOf ?? string(answer['reference']) ?? '');
      if (!parsed.ok) throw new Error(`${file}: an answer has a bad reference: ${parsed.problem}`);
      const { reference } = parsed;
      const body = bodyText(answer['body']);
      const status = typeof answer['status'] === 'number' ? answer['status'] : 200;
      if (referrersOf !== undefined) {
        this.#answers.set(referrersKey(reference), { status, body });
        continue;
      }
      this.#answers.set(keyOf(reference), { status, body });
      if (status === 200) this.#answers.set(keyOf({ ...reference, digest: digestOf(body, reference.digest) }), { status, body });
    }
  }

  #body(reference: Reference, key: string): string {
    const parsed = parseReference(key);
    const found = parsed.ok ? this.#answers.get(keyOf(parsed.reference)) : undefined;
    const host = reference.registry;
    if (found === undefined || found.status === 404) {
      throw new RegistryError(`registry ${host} has no ${key}${found === undefined ? ' (nothing was recorded for it)' : ''}`, {
        outcome: 'variant-missing',
        host,
        status: 404,
      });
    }
    if (found.status === 200) return found.body;
    throw refusal(host, found.status, key);
  }
}

function refusal(host: string, status: number, what: string): RegistryError {
  const outcome = status === 401 || status === 403 ? 'auth-denied' : 'registry-error';
  return new RegistryError(`registry ${host} answered ${status} for ${what}`, { outcome, host, status });
}

function bodyText(body: unknown): string {
  if (typeof body === 'string') return body;
  return record(body) === undefined ? '' : JSON.stringify(body);
}

/** The tag of a reference that also has a digest says nothing. */
function keyOf({ registry, repository, tag, digest }: Pick<Reference, 'registry' | 'repository' | 'tag' | 'digest'>): string {
  return `${registry}/${repository}${digest === undefined ? `:${tag ?? ''}` : `@${digest}`}`;
}

function referrersKey({ registry, repository, digest }: Pick<Reference, 'registry' | 'repository' | 'digest'>): string {
  return `referrers of ${registry}/${repository}@${digest ?? ''}`;
}

function digestOf(body: string, wanted?: string): string {
  const algorithm = wanted?.split(':')[0] ?? 'sha256';
  return `${algorithm}:${createHash(algorithm).update(body).digest('hex')}`;
}

function refused(reference: Reference, message: string): RegistryError {
  return new RegistryError(message, { outcome: 'registry-error', host: reference.registry, status: 200 });
}

function attempt<T>(read: () => T): Promise<T> {
  return new Promise((resolve) => resolve(read()));
}
