import { clip } from '../api/conditions.js';
import { list, parseObject, records, string } from '../api/json.js';
import type { Json } from '../api/json.js';
import { MEDIA_TYPE } from '../images/manifest.js';
import { fallbackTag } from '../images/referrers.js';
import type { Credential, Descriptor } from '../images/registry-port.js';
import { RegistryError } from '../images/registry-port.js';
import type { Reference } from '../images/reference.js';
import type { Ask, Reply, Session } from './session.js';
import { digestOf } from './verify.js';

/** An artifact that says something about a manifest (OCI `subject`). */
export interface Referrer {
  artifactType: string;
  annotations: Readonly<Record<string, string>>;
  /** The manifest it refers to; it has to be in the repository already. */
  subject: Descriptor;
}

export interface Pushed {
  digest: string;
  /** The registry lists it by itself, or Harbinger keeps the tag of the specification for registries that do not. */
  how: 'api' | 'fallback-tag';
}

/** Writes to registries; only commands that a person runs do. */
export interface RegistryWriter {
  /**
   * Pushes an artifact without files that refers to `manifest.subject`, into the repository of `reference`. Pushing the same one again
   * changes nothing. Throws RegistryError.
   */
  pushReferrer(reference: Reference, manifest: Referrer, credential?: Credential): Promise<Pushed>;
}

/** The content `{}` that stands where an artifact has nothing (image specification, "Guidance for an Empty Descriptor"). */
const EMPTY_BODY = '{}';
const EMPTY = { mediaType: 'application/vnd.oci.empty.v1+json', digest: digestOf(EMPTY_BODY), size: EMPTY_BODY.length };
/** The tag has no lock: somebody else's change between reading and writing is found by reading again. */
const TAG_ATTEMPTS = 3;

type Target = Pick<Ask, 'reference' | 'subject'> & { credential?: Credential };

export class ReferrerPusher implements RegistryWriter {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  async pushReferrer(reference: Reference, manifest: Referrer, credential?: Credential): Promise<Pushed> {
    const subject = `${reference.registry}/${reference.repository}`;
    const target: Target = { reference, subject, ...(credential === undefined ? {} : { credential }) };
    await this.#pushEmptyBlob(target);
    const body = manifestOf(manifest);
    const digest = digestOf(body);
    const reply = await this.#put(target, `manifests/${digest}`, body, MEDIA_TYPE.ociManifest);
    if (reply.headers['oci-subject'] !== undefined) return { digest, how: 'api' };
    const { artifactType, annotations } = manifest;
    const entry = { mediaType: MEDIA_TYPE.ociManifest, digest, size: Buffer.byteLength(body), artifactType, annotations };
    await this.#keepTag(target, fallbackTag(manifest.subject.digest), entry);
    return { digest, how: 'fallback-tag' };
  }

  async #pushEmptyBlob(target: Target): Promise<void> {
    const there = await this.#session.ask({ ...target, path: `blobs/${EMPTY.digest}`, accept: '*/*' });
    if (there.status === 200) return;
    if (there.status !== 404) throw refusal(there, target);
    const started = await this.#session.ask({ ...target, path: 'blobs/uploads/', write: { method: 'POST' } });
    const location = started.headers['location'];
    if (started.status !== 202 || location === undefined || !URL.canParse(location, started.url.href))
      throw refusal(started, target);
    const url = new URL(location, started.url);
    url.searchParams.set('digest', EMPTY.digest);
    await this.#put(target, url, EMPTY_BODY, 'application/octet-stream');
  }

  /** Adds `entry` to the index behind `tag`, keeping what others put there. */
  async #keepTag(target: Target, tag: string, entry: Json): Promise<void> {
    for (let attempt = 0; attempt < TAG_ATTEMPTS; attempt += 1) {
      const entries = await this.#entries(target, tag);
      if (entries.some(({ digest }) => digest === entry['digest'])) return;
      const index = { schemaVersion: 2, mediaType: MEDIA_TYPE.ociIndex, manifests: [...entries, entry] };
      await this.#put(target, `manifests/${tag}`, JSON.stringify(index), MEDIA_TYPE.ociIndex);
    }
    if ((await this.#entries(target, tag)).some(({ digest }) => digest === entry['digest'])) return;
    throw new RegistryError(`the tag ${tag} of ${target.subject} is changed by somebody else all the time; try again later`, {
      outcome: 'registry-error',
      host: target.reference.registry,
    });
  }

  async #entries(target: Target, tag: string): Promise<Json[]> {
    const reply = await this.#session.ask({ ...target, path: `manifests/${tag}`, accept: MEDIA_TYPE.ociIndex });
    if (reply.status === 404) return [];
    if (reply.status !== 200) throw refusal(reply, target);
    const manifests = list(parseObject(reply.body.toString('utf8'))?.['manifests']);
    if (manifests !== undefined) return records(manifests);
    throw new RegistryError(`the tag ${tag} of ${target.subject} is no index, so nothing was added to it; see who uses it`, {
      outcome: 'registry-error',
      host: target.reference.registry,
      status: reply.status,
    });
  }

  async #put(target: Target, path: string | URL, body: string, contentType: string): Promise<Reply> {
    const reply = await this.#session.ask({ ...target, path, write: { method: 'PUT', body, contentType } });
    if (reply.status === 201) return reply;
    throw refusal(reply, target);
  }
}

/** The same record always has the same bytes. */
function manifestOf({ artifactType, annotations, subject: { mediaType, digest, size } }: Referrer): string {
  const subject = { mediaType, digest, size };
  const sorted = Object.fromEntries(Object.entries(annotations).sort(([a], [b]) => (a < b ? -1 : 1)));
  const content = { schemaVersion: 2, mediaType: MEDIA_TYPE.ociManifest, artifactType, config: EMPTY, layers: [EMPTY] };
  return JSON.stringify({ ...content, subject, annotations: sorted });
}

/** Why nothing was written. Registries say that a tag may not move in several ways; trying again helps with none. */
function refusal(reply: Reply, { reference: { registry: host }, subject }: Target): RegistryError {
  const { status } = reply;
  const code = errorCode(reply);
  if (status === 401 || status === 403) return reply.failure();
  if (status === 409 || code === 'TAG_INVALID' || /immutable/i.test(reply.body.toString('utf8').slice(0, 4096)))
    return new RegistryError(
      `registry ${host} does not let a tag of ${subject} move (${status}${code === '' ? '' : ` ${code}`}): it has no referrers API, so ` +
        'the tag of the specification has to change with each record; make the repository mutable for tags that begin with sha256-',
      { outcome: 'registry-error', host, status },
    );
  if (status === 429 || status >= 500 || code === '') return reply.failure();
  return new RegistryError(
    `registry ${host} refused what was written to ${subject} (${status} ${code}); it may not take artifacts`,
    {
      outcome: 'registry-error',
      host,
      status,
    },
  );
}

function errorCode(reply: Reply): string {
  const first = records(parseObject(reply.body.toString('utf8'))?.['errors'])[0];
  const code = string(first?.['code']) ?? '';
  return /^[A-Z_]+$/.test(code) ? clip(code, 40) : '';
}
