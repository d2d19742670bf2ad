import { Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { Digester } from './content.js';
import { estargzPieces, type EstargzFacts } from './estargz.js';
import { tar, type Entry } from './tar.js';
import { mediaTypes, type Layer } from './types.js';
import { zstdStored } from './zstd.js';

/** Layers up to this size are kept in memory; bigger ones are made again whenever they are read. */
const KEEP_BYTES = 8 << 20;

export interface LayerOptions {
  /** zlib level; 0 (stored) suits incompressible content. Default 6. */
  level?: number;
}

/** An ordinary tar+gzip layer. */
export async function gzipLayer(entries: readonly Entry[], options: LayerOptions = {}): Promise<Layer> {
  return packedLayer(mediaTypes.layer, (raw) => gzipPieces(entries, options, raw));
}

/** A tar+zstd layer, stored: for content that no compressor shortens. */
export async function zstdLayer(entries: readonly Entry[]): Promise<Layer> {
  return packedLayer(mediaTypes.zstdLayer, (raw) => zstdStored(measured(entries, raw)));
}

async function packedLayer(
  mediaType: string,
  pieces: (raw?: Digester) => Iterable<Buffer> | AsyncIterable<Buffer>,
): Promise<Layer> {
  const raw = new Digester();
  const packed = new Digester();
  const kept = new Keeper();
  for await (const piece of pieces(raw)) {
    packed.update(piece);
    kept.add(piece);
  }
  return {
    mediaType,
    digest: packed.digest(),
    size: packed.size,
    diffId: raw.digest(),
    open: () => kept.stream() ?? Readable.from(pieces()),
  };
}

/**
 * An eStargz layer: readable as tar+gzip, and file by file by a lazy snapshotter. Format:
 * https://github.com/containerd/stargz-snapshotter/blob/main/docs/estargz.md
 */
export async function estargzLayer(entries: readonly Entry[], options: LayerOptions = {}): Promise<Layer> {
  const packed = new Digester();
  const kept = new Keeper();
  const pieces = estargzPieces(entries, options.level ?? 6);
  let step = pieces.next();
  for (; !step.done; step = pieces.next()) {
    packed.update(step.value);
    kept.add(step.value);
    // The pieces are compressed synchronously; others on this event loop get their turn in between.
    await new Promise(setImmediate);
  }
  const facts: EstargzFacts = step.value;
  return {
    mediaType: mediaTypes.layer,
    digest: packed.digest(),
    size: packed.size,
    diffId: facts.diffId,
    annotations: {
      'containerd.io/snapshot/stargz/toc.digest': facts.tocDigest,
      'io.containers.estargz.uncompressed-size': String(facts.uncompressedSize),
    },
    open: () => kept.stream() ?? Readable.from(estargzPieces(entries, options.level ?? 6)),
  };
}

async function* gzipPieces(entries: readonly Entry[], { level = 6 }: LayerOptions, raw?: Digester): AsyncGenerator<Buffer> {
  const packer = createGzip({ level, chunkSize: 256 << 10 });
  const input = Readable.from(measured(entries, raw));
  input.on('error', (error) => packer.destroy(error));
  yield* input.pipe(packer) as AsyncIterable<Buffer>;
}

/** The archive, with its digest taken on the way. */
function* measured(entries: readonly Entry[], raw?: Digester): Generator<Buffer> {
  for (const piece of tar(entries)) {
    raw?.update(piece);
    yield piece;
  }
}

/** Keeps pieces until they are too many. */
class Keeper {
  #pieces: Buffer[] | undefined = [];
  #size = 0;

  add(piece: Buffer): void {
    this.#size += piece.length;
    if (this.#size > KEEP_BYTES) this.#pieces = undefined;
    this.#pieces?.push(piece);
  }

  stream(): Readable | undefined {
    return this.#pieces && Readable.from(this.#pieces);
  }
}
