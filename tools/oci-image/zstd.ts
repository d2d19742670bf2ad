/** Largest block of the format; the window that readers keep is as large. */
const BLOCK = 128 << 10;
/** Magic number, then: no dictionary, no checksum, no size, and a window of 128 KiB. */
const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38]);

/**
 * Yields a Zstandard frame that holds the pieces as they are: Node 20 cannot compress with it, and incompressible content would not get
 * shorter. Format: RFC 8878.
 */
export function* zstdStored(pieces: Iterable<Buffer>): Generator<Buffer> {
  yield FRAME;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += BLOCK) yield* block(piece.subarray(at, at + BLOCK), false);
  }
  yield* block(Buffer.alloc(0), true);
}

/** A raw block: three bytes of size, type 0 and the mark of the last one, little-endian, then the content. */
function* block(content: Buffer, last: boolean): Generator<Buffer> {
  const header = Buffer.alloc(3);
  header.writeUIntLE((content.length << 3) | (last ? 1 : 0), 0, 3);
  yield header;
  yield content;
}
