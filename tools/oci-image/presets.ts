import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { bytes, incompressible } from './content.js';
import { buildImage, type ImageOptions } from './image.js';
import { estargzLayer, gzipLayer, zstdLayer } from './layer.js';
import { pullerBinary } from './puller.js';
import type { Entry } from './tar.js';
import { SOURCE_DIGEST, type Image, type Layer } from './types.js';

const BUSYBOX = ['/bin/busybox', '/usr/bin/busybox', '/bin/busybox.static'];
/** Sleeps until told to end; as PID 1 a plain sleep would ignore SIGTERM and cost each Pod its whole grace period. */
const SLEEPER = ['/bin/sh', '-c', "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"];

/** Whether a shell can be put into images on this machine; without it images are for fake nodes only. */
export function hasBusybox(): boolean {
  return BUSYBOX.some((path) => existsSync(path));
}

/** Directories, /bin/busybox and a link for each of its applets. A variant needs its base layers in its own format too. */
export async function busyboxLayer(build: typeof gzipLayer = gzipLayer): Promise<Layer> {
  const path = BUSYBOX.find((candidate) => existsSync(candidate));
  if (!path) throw new Error('no static busybox on this machine: images for real nodes need the package busybox-static');
  const applets = execFileSync(path, ['--list'], { encoding: 'utf8' })
    .split('\n')
    .filter((name) => name && name !== 'busybox');
  const entries: Entry[] = [
    ...['bin', 'etc', 'proc', 'sys', 'dev', 'root'].map((name): Entry => ({ name, type: 'dir' })),
    { name: 'tmp', type: 'dir', mode: 0o1777 },
    { name: 'etc/passwd', type: 'file', content: bytes('root:x:0:0:root:/root:/bin/sh\n') },
    { name: 'bin/busybox', type: 'file', mode: 0o755, content: bytes(readFileSync(path)) },
    ...applets.map((name): Entry => ({ name: `bin/${name}`, type: 'symlink', target: 'busybox' })),
  ];
  return build(entries);
}

/** A small image with a shell that sleeps until SIGTERM unless it is given a command. */
export async function busyboxImage(options: Partial<ImageOptions> = {}): Promise<Image> {
  return buildImage({ cmd: SLEEPER, ...options, layers: [await busyboxLayer(), ...(options.layers ?? [])] });
}

/** What a Pod's sandbox runs. */
export async function pauseImage(): Promise<Image> {
  return buildImage({ layers: [await busyboxLayer()], entrypoint: SLEEPER });
}

/** The puller program and nothing else. */
export async function pullerImage(): Promise<Image> {
  const content = bytes(readFileSync(await pullerBinary()));
  return buildImage({
    layers: [await gzipLayer([{ name: 'puller', type: 'file', mode: 0o755, content }])],
    entrypoint: ['/puller'],
    user: '65532:65532',
  });
}

const BUILDERS = { gzip: gzipLayer, estargz: estargzLayer, zstd: zstdLayer } as const;

export interface PayloadOptions extends Partial<ImageOptions> {
  /** Equal seeds give equal images; each leg of a measurement has its own. */
  seed: string;
  /** Incompressible bytes in the image. */
  bytes: number;
  /** Number of equal files that hold them; default 20. */
  files?: number;
  /** Number of layers; default 1. */
  split?: number;
  format?: keyof typeof BUILDERS;
  /** Without a shell, for fake nodes: nothing runs there. */
  bare?: boolean;
}

/** An image of a given size that no compressor shortens: busybox below, then `/payload/LAYER/FILE`. */
export async function payloadImage(options: PayloadOptions): Promise<Image> {
  const { seed, bytes: total, files = 20, split = 1, format = 'gzip', bare = false } = options;
  const build = BUILDERS[format];
  const layers = bare ? [] : [await busyboxLayer(build)];
  for (let layer = 0; layer < split; layer++) {
    const size = Math.ceil(total / (files * split));
    const file = (n: number): Entry => ({
      name: `payload/${layer}/${n}`,
      type: 'file',
      content: incompressible(`${seed}/${layer}/${n}`, size),
    });
    const entries: Entry[] = [
      { name: 'payload', type: 'dir' },
      { name: `payload/${layer}`, type: 'dir' },
      ...Array.from({ length: files }, (_, n) => file(n)),
    ];
    layers.push(await build(entries, { level: 0 }));
  }
  return buildImage({ cmd: SLEEPER, ...options, layers: [...layers, ...(options.layers ?? [])] });
}

/** The eStargz conversion of a payload image, with the record of what it was made from. */
export async function estargzVariant(source: Image, options: PayloadOptions): Promise<Image> {
  return payloadImage({ ...options, format: 'estargz', annotations: { ...options.annotations, [SOURCE_DIGEST]: source.digest } });
}
