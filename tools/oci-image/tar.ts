import type { Content } from './content.js';

/** One member of a layer. Owners are numeric; times are the epoch, so that equal content gives equal digests. */
export type Entry = { name: string; mode?: number; uid?: number; gid?: number } & (
  { type: 'file'; content: Content } | { type: 'dir' } | { type: 'symlink'; target: string }
);

const BLOCK = 512;
const TYPE_FLAG = { file: '0', symlink: '2', dir: '5' } as const;
const DEFAULT_MODE = { file: 0o644, symlink: 0o777, dir: 0o755 } as const;

/** Two zero blocks: how a tar ends. */
export const tarEnd = Buffer.alloc(2 * BLOCK);

export function modeOf(entry: Entry): number {
  return entry.mode ?? DEFAULT_MODE[entry.type];
}

/** ustar header of an entry. Names over 100 bytes are split at a slash; over 255 they are an error. */
export function tarHeader(entry: Entry): Buffer {
  const header = Buffer.alloc(BLOCK);
  const [prefix, name] = splitName(entry.type === 'dir' ? `${entry.name.replace(/\/$/, '')}/` : entry.name);
  const text = (value: string, at: number): number => header.write(value, at, 'latin1');
  const octal = (value: number, at: number, width: number): number => text(value.toString(8).padStart(width - 1, '0'), at);
  header.write(name, 0, 'utf8');
  octal(modeOf(entry), 100, 8);
  octal(entry.uid ?? 0, 108, 8);
  octal(entry.gid ?? 0, 116, 8);
  octal(entry.type === 'file' ? entry.content.size : 0, 124, 12);
  octal(0, 136, 12);
  text(' '.repeat(8), 148);
  text(TYPE_FLAG[entry.type], 156);
  if (entry.type === 'symlink') header.write(entry.target, 157, 100, 'utf8');
  text('ustar\u000000', 257);
  header.write(prefix, 345, 155, 'utf8');
  const sum = header.reduce((total, byte) => total + byte, 0);
  text(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}

/** Zeros that fill the last block of a file of `size` bytes. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

/** The whole archive, piece by piece. */
export function* tar(entries: readonly Entry[]): Generator<Buffer> {
  for (const entry of entries) {
    yield tarHeader(entry);
    if (entry.type !== 'file') continue;
    yield* entry.content.chunks();
    const padding = tarPadding(entry.content.size);
    if (padding.length > 0) yield padding;
  }
  yield tarEnd;
}

function splitName(name: string): [prefix: string, name: string] {
  if (Buffer.byteLength(name) <= 100) return ['', name];
  // The slash that ends a directory's name is no place to split.
  const slash = name.slice(0, -1).indexOf('/', name.length - 101);
  const parts: [string, string] = [name.slice(0, slash), name.slice(slash + 1)];
  if (slash < 0 || Buffer.byteLength(parts[0]) > 155 || Buffer.byteLength(parts[1]) > 100) {
    throw new Error(
      `tar entry ${name}: the name is too long for a ustar header; use at most 100 bytes after the last slash and 255 in all`,
    );
  }
  return parts;
}
