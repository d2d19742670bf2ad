import { createCipheriv, createHash } from 'node:crypto';

/** Bytes of one file, produced in order and as often as asked for. */
export interface Content {
  size: number;
  chunks(): Iterable<Buffer>;
}

const PIECE = 1 << 20;

export function bytes(data: Buffer | string): Content {
  const buffer = typeof data === 'string' ? Buffer.from(data) : data;
  return { size: buffer.length, chunks: () => (buffer.length === 0 ? [] : [buffer]) };
}

/**
 * Content that no compressor shortens: the AES-CTR key stream of a seed. Equal seeds give equal bytes, so that a big layer need not be
 * kept: it is made again when it is sent.
 */
export function incompressible(seed: string, size: number): Content {
  return { size, chunks: () => keyStream(seed, size) };
}

function* keyStream(seed: string, size: number): Generator<Buffer> {
  const key = createHash('sha256').update(seed).digest();
  const cipher = createCipheriv('aes-128-ctr', key.subarray(0, 16), key.subarray(16, 32));
  const zeros = Buffer.alloc(PIECE);
  for (let left = size; left > 0; left -= PIECE) yield cipher.update(left < PIECE ? zeros.subarray(0, left) : zeros);
}

export function sha256(data: Buffer | string): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}

/** Accumulates a digest and a length. */
export class Digester {
  #hash = createHash('sha256');
  size = 0;

  update(data: Buffer): void {
    this.#hash.update(data);
    this.size += data.length;
  }

  /** Ends the accumulation. */
  digest(): string {
    return `sha256:${this.#hash.digest('hex')}`;
  }
}
