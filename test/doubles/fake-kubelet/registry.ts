import { STATUS_CODES } from 'node:http';
import { request } from 'undici';
import { format, type Reference } from './reference.js';

/** What a node has to fetch for an image. */
export interface ImageFacts {
  /** Of what the reference names: an index or a manifest. */
  digest: string;
  /** Of the config: what the CRI takes for the image's identity. */
  configDigest: string;
  /** Manifests, config and layers by digest. */
  blobs: ReadonlyMap<string, number>;
}

export interface Credential {
  username: string;
  password: string;
}

/** A failed pull, with the text that containerd 2.4 gives the kubelet: taken down from real nodes. */
export class PullError extends Error {}

interface Descriptor {
  digest: string;
  size: number;
  mediaType: string;
  platform?: { os: string; architecture: string };
}
interface Manifest {
  manifests?: Descriptor[];
  config?: Descriptor;
  layers?: Descriptor[];
}

const GARBAGE = 'target.MediaType must be set: invalid argument';
const ACCEPT = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

/** Reads manifests from real registries; layers are only counted. */
export class RegistryReader {
  readonly #plain: ReadonlySet<string>;

  constructor(plainHttp: readonly string[]) {
    this.#plain = new Set(plainHttp);
  }

  /** Resolves a reference for linux/amd64. Throws PullError. */
  async resolve(reference: Reference, credentials: readonly Credential[]): Promise<ImageFacts> {
    const top = await this.#manifest(reference, reference.digest ?? reference.tag ?? 'latest', credentials);
    const blobs = new Map([[top.digest, top.size]]);
    let { manifest } = top;
    if (manifest.manifests) {
      const match = manifest.manifests.find(({ platform }) => platform?.os === 'linux' && platform.architecture === 'amd64');
      if (!match) throw failure(reference, `no match for platform in manifest ${top.digest}: not found`, 'NotFound');
      ({ manifest } = await this.#manifest(reference, match.digest, credentials));
      blobs.set(match.digest, match.size);
    }
    if (!manifest.config || !manifest.layers) throw failure(reference, GARBAGE, 'InvalidArgument');
    for (const { digest, size, mediaType } of [manifest.config, ...manifest.layers]) {
      if (mediaType.includes('nydus'))
        throw failure(reference, `failed to extract layer (${mediaType} ${digest}): no processor for media-type: ${mediaType}`);
      blobs.set(digest, size);
    }
    return { digest: top.digest, configDigest: manifest.config.digest, blobs };
  }

  async #manifest(
    reference: Reference,
    name: string,
    credentials: readonly Credential[],
  ): Promise<{ digest: string; size: number; manifest: Manifest }> {
    const { registry, repository } = reference;
    const scheme = this.#plain.has(registry) || /^(127\.|localhost[:/]?)/.test(registry) ? 'http' : 'https';
    const url = `${scheme}://${registry}/v2/${repository}/manifests/${name}`;
    const { status, text, digest } = await this.#get(url, reference, credentials);
    if (status === 404) throw failure(reference, `failed to resolve image: ${format(reference)}: not found`, 'NotFound');
    if (status === 401 || status === 403) throw denied(reference, status, credentials);
    if (status >= 300)
      throw unresolved(reference, `unexpected status from HEAD request to ${url}: ${status} ${STATUS_CODES[status]}`);
    try {
      return {
        digest: name.startsWith('sha256:') ? name : digest,
        size: Buffer.byteLength(text),
        manifest: JSON.parse(text) as Manifest,
      };
    } catch {
      throw failure(reference, GARBAGE, 'InvalidArgument');
    }
  }

  // As containerd: without credentials first, then with each of the Pod's that fits.
  async #get(
    url: string,
    reference: Reference,
    credentials: readonly Credential[],
  ): Promise<{ status: number; text: string; digest: string }> {
    const attempts = [undefined, ...credentials];
    let last = { status: 0, text: '', digest: '' };
    for (const credential of attempts) {
      const authorization =
        credential && `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString('base64')}`;
      try {
        const response = await request(url, {
          headers: { accept: ACCEPT, ...(authorization && { authorization }) },
          headersTimeout: 30_000,
        });
        last = {
          status: response.statusCode,
          text: await response.body.text(),
          digest: String(response.headers['docker-content-digest'] ?? ''),
        };
      } catch (error) {
        throw unresolved(
          reference,
          `failed to do request: Head "${url}": dial tcp ${reference.registry}: ${networkText(error as NodeJS.ErrnoException)}`,
        );
      }
      if (last.status !== 401) break;
    }
    return last;
  }
}

function denied(reference: Reference, status: number, credentials: readonly Credential[]): PullError {
  const why =
    credentials.length === 0
      ? 'no basic auth credentials'
      : `unexpected status from HEAD request: ${status} ${STATUS_CODES[status]}`;
  return unresolved(
    reference,
    `pull access denied, repository does not exist or may require authorization: authorization failed: ${why}`,
  );
}

function unresolved(reference: Reference, cause: string): PullError {
  return failure(reference, `failed to resolve image: ${cause}`);
}

/** What containerd says of a failed pull; a gRPC code stands before it only for some causes. */
export function failure(reference: Reference, cause: string, code?: 'NotFound' | 'InvalidArgument'): PullError {
  return new PullError(
    `${code ? `rpc error: code = ${code} desc = ` : ''}failed to pull and unpack image "${format(reference)}": ${cause}`,
  );
}

function networkText(error: NodeJS.ErrnoException): string {
  if (error.code === 'ECONNREFUSED') return 'connect: connection refused';
  if (error.code === 'ENOTFOUND') return 'no such host';
  return error.code === 'UND_ERR_HEADERS_TIMEOUT' || error.code === 'UND_ERR_CONNECT_TIMEOUT' ? 'i/o timeout' : error.message;
}
