import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from '../../cluster/exec.js';
import { buildImage, buildIndex, bytes, gzipLayer, type Image, type Index, type Layer } from '../../../tools/oci-image/index.js';

const PREFIX = 'containerd.io/snapshot/nydus';
/** Manifest annotation by which acceld and nydusify say what they converted. */
export const NYDUS_SOURCE = `${PREFIX}-source-digest`;

/** A RAFS v6 file system of an image: what `nydus-image` made of it. */
export interface Rafs {
  /** Data blob and, last, the layer with the bootstrap. */
  layers: Layer[];
  /** Ends the life of the files behind the layers. */
  remove(): Promise<void>;
}

/** Converts the root file system of an image with the real builder; `program` is the path of nydus-image. Needs root, for owners of files. */
export async function buildRafs(source: Image, program: string): Promise<Rafs> {
  const dir = await mkdtemp(join(tmpdir(), 'harbinger-nydus-'));
  const [rootfs, blobs, bootstrap] = [join(dir, 'rootfs'), join(dir, 'blobs'), join(dir, 'bootstrap')];
  await mkdir(rootfs);
  await mkdir(blobs);
  for (const layer of source.layers) await untar(layer, rootfs);
  const options = ['--fs-version', '6', '--compressor', 'zstd', '--type', 'directory', '--log-level', 'warn'];
  await run(program, ['create', ...options, '--blob-dir', blobs, '--bootstrap', bootstrap, rootfs]);
  const [blob = ''] = await readdir(blobs);
  const file = join(blobs, blob);
  const data: Layer = {
    mediaType: 'application/vnd.oci.image.layer.nydus.blob.v1',
    // The builder names the blob by its digest.
    digest: `sha256:${blob}`,
    diffId: `sha256:${blob}`,
    size: (await stat(file)).size,
    annotations: { [`${PREFIX}-blob`]: 'true' },
    open: () => createReadStream(file),
  };
  const boot = await gzipLayer([
    { name: 'image', type: 'dir' },
    { name: 'image/image.boot', type: 'file', content: bytes(await readFile(bootstrap)) },
  ]);
  const marks = { [`${PREFIX}-bootstrap`]: 'true', [`${PREFIX}-fs-version`]: '6' };
  return {
    layers: [data, { ...boot, annotations: marks }],
    remove: () => rm(dir, { recursive: true, force: true }),
  };
}

/** The image as acceld writes it, with its record of the source. */
export function nydusImage(source: Image, { layers }: Rafs, cmd: readonly string[]): Image {
  return buildImage({
    layers,
    cmd,
    platform: source.platform,
    annotations: { [NYDUS_SOURCE]: source.digest, [`${PREFIX}-fs-version`]: '6' },
  });
}

/**
 * The merged index of acceld since 0.2.21: an OCI image that any node runs, and the Nydus image beside it for the same platform. The config
 * type of the latter is one that plain containerd does not know, so that it takes the other.
 */
export async function mergedIndex(source: Image, { layers }: Rafs, cmd: readonly string[]): Promise<Index> {
  const record = { [NYDUS_SOURCE]: source.digest };
  const nydus = buildImage({
    layers,
    cmd,
    platform: source.platform,
    annotations: { ...record, [`${PREFIX}-fs-version`]: '6' },
    configMediaType: 'application/vnd.nydus.image.config.v1+json',
  });
  // acceld puts an empty layer in front, so that the image is not the source's: the record is all that ties the two together.
  const empty = { ...(await gzipLayer([])), annotations: { [`${PREFIX}-empty-layer`]: 'true' } };
  const oci = buildImage({ layers: [empty, ...source.layers], cmd, platform: source.platform, annotations: record });
  return buildIndex([
    { ...oci, descriptor: { annotations: record } },
    { ...nydus, descriptor: { artifactType: 'application/vnd.nydus.image.manifest.v1+json' } },
  ]);
}

async function untar(layer: Layer, dir: string): Promise<void> {
  const child = spawn('tar', ['-xz', '-C', dir], { stdio: ['pipe', 'ignore', 'inherit'] });
  const ended = new Promise<number | null>((resolve, reject) => child.once('close', resolve).once('error', reject));
  await pipeline(layer.open(), child.stdin);
  const code = await ended;
  if (code !== 0) throw new Error(`tar could not unpack layer ${layer.digest}: exit code ${code}`);
}
