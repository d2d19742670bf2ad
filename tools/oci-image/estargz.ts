import { gzipSync } from 'node:zlib';
import { bytes, Digester, sha256 } from './content.js';
import { modeOf, tarEnd, tarHeader, tarPadding, type Entry } from './tar.js';

export interface EstargzFacts {
  /** Digest of the uncompressed archive, table of contents included. */
  diffId: string;
  uncompressedSize: number;
  /** Digest of the table of contents' JSON: the snapshotter trusts the table only by it. */
  tocDigest: string;
}

/** A row of the table of contents; the names are those of the format. */
interface TocEntry {
  name: string;
  type: 'dir' | 'reg' | 'symlink' | 'chunk';
  size?: number;
  modtime?: string;
  mode?: number;
  linkName?: string;
  offset?: number;
  chunkOffset?: number;
  chunkSize?: number;
  digest?: string;
  chunkDigest?: string;
  uid?: number;
  gid?: number;
}

const CHUNK = 4 << 20;
const TOC_NAME = 'stargz.index.json';
const TOC_TYPE = { dir: 'dir', file: 'reg', symlink: 'symlink' } as const;
/** Tells the snapshotter that no file is to be fetched ahead of the others. */
const noPrefetch: Entry = { name: '.no.prefetch.landmark', type: 'file', content: bytes(Buffer.from([0xf])) };

/**
 * Yields the compressed layer. Each file's bytes begin a gzip member of their own, in chunks of 4 MiB, so that a reader with the table of contents
 * can fetch a single chunk; concatenated members are still one gzip stream.
 */
export function* estargzPieces(entries: readonly Entry[], level: number): Generator<Buffer, EstargzFacts> {
  const raw = new Digester();
  const toc: TocEntry[] = [];
  let offset = 0;
  // Headers and padding wait here and go out as one member before the next file's bytes.
  let pending: Buffer[] = [];
  const pack = (data: Buffer): Buffer => {
    raw.update(data);
    const member = gzipSync(data, { level });
    offset += member.length;
    return member;
  };
  const flush = (): Buffer => {
    const member = pack(Buffer.concat(pending));
    pending = [];
    return member;
  };

  for (const entry of [noPrefetch, ...entries]) {
    const row = describe(entry);
    toc.push(row);
    pending.push(tarHeader(entry));
    if (entry.type !== 'file' || entry.content.size === 0) continue;
    yield flush();
    const whole = new Digester();
    for (const chunk of rechunk(entry.content.chunks())) {
      const place = {
        offset,
        ...(whole.size > 0 && { chunkOffset: whole.size }),
        ...(entry.content.size > CHUNK && { chunkSize: chunk.length }),
        chunkDigest: sha256(chunk),
      };
      if (whole.size === 0) Object.assign(row, place);
      else toc.push({ name: row.name, type: 'chunk', ...place });
      whole.update(chunk);
      yield pack(chunk);
    }
    row.digest = whole.digest();
    pending.push(tarPadding(whole.size));
  }
  if (pending.length > 0) yield flush();

  const tocOffset = offset;
  const table = Buffer.from(JSON.stringify({ version: 1, entries: toc }));
  const tocFile: Entry = { name: TOC_NAME, type: 'file', content: bytes(table) };
  yield pack(Buffer.concat([tarHeader(tocFile), table, tarPadding(table.length), tarEnd]));
  yield footer(tocOffset);
  return { diffId: raw.digest(), uncompressedSize: raw.size, tocDigest: sha256(table) };
}

/**
 * The last 51 bytes: an empty gzip member whose extra field, subfield "SG", holds the offset of the table of contents as 16 hex digits and "STARGZ".
 * Written by hand: zlib offers no extra field.
 */
function footer(tocOffset: number): Buffer {
  const payload = Buffer.from(`${tocOffset.toString(16).padStart(16, '0')}STARGZ`);
  const header = Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, payload.length + 4, 0, 0x53, 0x47, payload.length, 0]);
  const emptyStoredBlock = Buffer.from([1, 0, 0, 0xff, 0xff]);
  const checksumAndLength = Buffer.alloc(8);
  return Buffer.concat([header, payload, emptyStoredBlock, checksumAndLength]);
}

function describe(entry: Entry): TocEntry {
  return {
    name: entry.name,
    type: TOC_TYPE[entry.type],
    mode: modeOf(entry),
    modtime: '1970-01-01T00:00:00Z',
    ...(entry.uid && { uid: entry.uid }),
    ...(entry.gid && { gid: entry.gid }),
    ...(entry.type === 'symlink' && { linkName: entry.target }),
    ...(entry.type === 'file' && entry.content.size > 0 && { size: entry.content.size }),
  };
}

function* rechunk(pieces: Iterable<Buffer>): Generator<Buffer> {
  let held: Buffer[] = [];
  let size = 0;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length;) {
      const part = piece.subarray(at, at + CHUNK - size);
      held.push(part);
      size += part.length;
      at += part.length;
      if (size < CHUNK) continue;
      yield Buffer.concat(held);
      held = [];
      size = 0;
    }
  }
  if (size > 0) yield Buffer.concat(held);
}
