import { createHash } from 'node:crypto';
import type { Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const SUFFIX = '-esgz';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

const digestOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

type LayerBytes = (repository: string) => number;

/** What an image is made up from. */
interface Made {
  repository: string;
  layerBytes: number;
}

/** A registry that makes images up from their names: any `REPOSITORY:TAG` is there, and its eStargz variant unless it is below plain/. */
export class MadeUpRegistry {
  /** Answers come after this time, milliseconds. */
  delayMs = 0;
  /** Requests are taken and never answered. */
  hangs = false;
  /** Size of each of the two layers of an image. */
  readonly #layerBytes: LayerBytes;
  readonly #server: Server;
  readonly #asked = new Map<string, number>();

  private constructor(layerBytes: LayerBytes) {
    this.#layerBytes = layerBytes;
    this.#server = createServer((request, response) => {
      const url = request.url ?? '';
      this.#asked.set(url, (this.#asked.get(url) ?? 0) + 1);
      if (this.hangs) return;
      const reply = (): void => answer(url, response, this.#layerBytes);
      if (this.delayMs === 0) reply();
      else setTimeout(reply, this.delayMs);
    });
  }

  static async start(layerBytes: LayerBytes = () => 50_000_000): Promise<MadeUpRegistry> {
    const made = new MadeUpRegistry(layerBytes);
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The plain image of a repository, by digest. */
  resolved(repository: string): string {
    const made = { repository, layerBytes: this.#layerBytes(repository) };
    return `${this.host}/${repository}@${digestOf(manifestOf(made, configOf(repository), undefined))}`;
  }

  /** What a node fetches of it. */
  bytesOf(repository: string): number {
    const made = { repository, layerBytes: this.#layerBytes(repository) };
    const config = configOf(repository);
    return 2 * made.layerBytes + config.length + manifestOf(made, config, undefined).length;
  }

  /** How often each manifest whose tag is asked for has been asked for: by `REPOSITORY:TAG`. */
  tagRequests(): Map<string, number> {
    const tags = [...this.#asked].flatMap(([url, count]) => {
      const match = /^\/v2\/(.+)\/manifests\/([^:]+)$/.exec(url);
      return match === null ? [] : [[`${match[1]}:${match[2]}`, count] as const];
    });
    return new Map(tags);
  }

  /** All requests since the start or `forget`. */
  get asked(): number {
    return [...this.#asked.values()].reduce((sum, count) => sum + count, 0);
  }

  forget(): void {
    this.#asked.clear();
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function answer(url: string, response: ServerResponse, layerBytes: LayerBytes): void {
  const [, repository, kind, wanted] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(url) ?? [];
  const found =
    repository === undefined || wanted === undefined
      ? undefined
      : find({ repository, layerBytes: layerBytes(repository) }, kind, wanted);
  if (found === undefined) {
    const body = JSON.stringify({ errors: [{ code: kind === 'blobs' ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN' }] });
    return void response.writeHead(404, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
  }
  const headers = { 'docker-content-digest': digestOf(found), 'content-length': Buffer.byteLength(found) };
  response.writeHead(200, { 'content-type': kind === 'blobs' ? 'application/octet-stream' : MANIFEST, ...headers }).end(found);
}

/** Nothing is kept, so a hundred thousand images cost no memory here: each is made again from its name. */
function find(made: Made, kind: string | undefined, wanted: string): string | undefined {
  const { repository } = made;
  const config = configOf(repository);
  if (kind === 'blobs') return digestOf(config) === wanted ? config : undefined;
  const source = manifestOf(made, config, undefined);
  const variant = repository.startsWith('plain/') ? undefined : manifestOf(made, config, digestOf(source));
  if (!wanted.startsWith('sha256:')) return wanted.endsWith(SUFFIX) ? variant : source;
  return [source, variant].find((text) => text !== undefined && digestOf(text) === wanted);
}

function configOf(repository: string): string {
  const diffIds = [digestOf(`${repository}/0`), digestOf(`${repository}/1`)];
  return JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: diffIds } });
}

function manifestOf({ repository, layerBytes }: Made, config: string, sourceDigest: string | undefined): string {
  const layer = (i: number): unknown => ({
    mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
    digest: digestOf(`${repository} ${i} ${sourceDigest ?? ''}`),
    size: layerBytes,
    ...(sourceDigest === undefined
      ? {}
      : { annotations: { 'containerd.io/snapshot/stargz/toc.digest': digestOf(`${repository} toc ${i}`) } }),
  });
  return JSON.stringify({
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: {
      mediaType: 'application/vnd.oci.image.config.v1+json',
      digest: digestOf(config),
      size: config.length,
    },
    layers: [layer(0), layer(1)],
    ...(sourceDigest === undefined ? {} : { annotations: { 'harbinger.dev/source-digest': sourceDigest } }),
  });
}
