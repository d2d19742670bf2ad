import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { gunzipSync } from 'node:zlib';
import {
  buildImage,
  buildIndex,
  bytes,
  estargzLayer,
  estargzVariant,
  gzipLayer,
  incompressible,
  payloadImage,
  sha256,
  SOURCE_DIGEST,
  type Entry,
  type Layer,
  zstdLayer,
} from '../../../../tools/oci-image/index.js';

const MIB = 1 << 20;

async function read(stream: Readable): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

/** Members of a tar by name: an own reader, so that a defect of the writer cannot hide in it. */
function untar(tar: Buffer): Map<string, { type: string; mode: number; link: string; data: Buffer }> {
  const members = new Map<string, { type: string; mode: number; link: string; data: Buffer }>();
  const text = (block: Buffer, at: number, length: number): string =>
    block.toString('utf8', at, at + length).replace(/\0.*$/s, '');
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0;) {
    const header = tar.subarray(at, at + 512);
    const sum = header.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0);
    expect(parseInt(text(header, 148, 8), 8)).toBe(sum);
    const size = parseInt(text(header, 124, 12), 8);
    const name = [text(header, 345, 155), text(header, 0, 100)].filter(Boolean).join('/');
    members.set(name, {
      type: text(header, 156, 1),
      mode: parseInt(text(header, 100, 8), 8),
      link: text(header, 157, 100),
      data: tar.subarray(at + 512, at + 512 + size),
    });
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return members;
}

/** Content of a Zstandard frame of raw blocks, read by the letter of RFC 8878. */
function unframe(frame: Buffer): Buffer {
  expect(frame.readUInt32LE(0)).toBe(0xfd2fb528);
  const pieces: Buffer[] = [];
  for (let at = 6, last = false; !last;) {
    const header = frame.readUIntLE(at, 3);
    const [type, size] = [(header >> 1) & 3, header >> 3];
    expect({ type, fits: size <= 128 << 10 }).toEqual({ type: 0, fits: true });
    pieces.push(frame.subarray(at + 3, at + 3 + size));
    last = (header & 1) === 1;
    at += 3 + size;
    if (last) expect(at).toBe(frame.length);
  }
  return Buffer.concat(pieces);
}

const long = `${'d'.repeat(90)}/${'f'.repeat(60)}`;
const entries: Entry[] = [
  { name: 'bin', type: 'dir' },
  { name: 'bin/tool', type: 'file', mode: 0o755, content: bytes('#!/bin/sh\n') },
  { name: 'bin/link', type: 'symlink', target: 'tool' },
  { name: 'secret', type: 'file', mode: 0o600, uid: 7, content: bytes('') },
  { name: 'big', type: 'file', content: incompressible('seed', 9 * MIB + 5) },
  { name: long, type: 'file', content: bytes('long') },
];

describe('layers', () => {
  test.each([
    ['tar+gzip', gzipLayer, gunzipSync],
    ['eStargz', estargzLayer, gunzipSync],
    ['tar+zstd', zstdLayer, unframe],
  ])('of %s hold what was put in, and describe themselves truly', async (_, build, unpack) => {
    const layer: Layer = await build(entries, { level: 0 });
    const packed = await read(layer.open());
    expect({ size: packed.length, digest: sha256(packed) }).toEqual({ size: layer.size, digest: layer.digest });
    const tar = unpack(packed);
    expect(sha256(tar)).toBe(layer.diffId);
    const members = untar(tar);
    expect(members.get('bin/')).toMatchObject({ type: '5', mode: 0o755 });
    expect(members.get('bin/tool')).toMatchObject({ type: '0', mode: 0o755, data: Buffer.from('#!/bin/sh\n') });
    expect(members.get('bin/link')).toMatchObject({ type: '2', link: 'tool' });
    expect(members.get('secret')).toMatchObject({ mode: 0o600, data: Buffer.alloc(0) });
    expect(members.get('big')?.data).toHaveLength(9 * MIB + 5);
    expect(members.get(long)?.data.toString()).toBe('long');
    // Bigger than what is kept in memory: read a second time it is made again, and must be the same.
    expect(sha256(await read(layer.open()))).toBe(layer.digest);
  });

  test('refuse a name that no ustar header holds', async () => {
    await expect(gzipLayer([{ name: 'x'.repeat(101), type: 'dir' }])).rejects.toThrow(/too long/);
  });
});

describe('eStargz', () => {
  interface Row {
    name: string;
    type: string;
    offset?: number;
    chunkOffset?: number;
    chunkSize?: number;
    chunkDigest?: string;
    digest?: string;
    size?: number;
  }
  const open = async (level: number): Promise<{ layer: Layer; packed: Buffer; rows: Row[] }> => {
    const layer = await estargzLayer(entries, { level });
    const packed = await read(layer.open());
    const footer = packed.subarray(-51);
    // gzip header with the extra field, whose subfield is called SG.
    expect([...footer.subarray(0, 4)]).toEqual([0x1f, 0x8b, 8, 4]);
    expect(footer.toString('latin1', 12, 14)).toBe('SG');
    expect(footer.toString('latin1', 32, 38)).toBe('STARGZ');
    expect(gunzipSync(footer)).toHaveLength(0);
    const toc =
      untar(gunzipSync(packed.subarray(parseInt(footer.toString('latin1', 16, 32), 16)))).get('stargz.index.json')?.data ??
      Buffer.alloc(0);
    expect(sha256(toc)).toBe(layer.annotations?.['containerd.io/snapshot/stargz/toc.digest']);
    return { layer, packed, rows: (JSON.parse(toc.toString()) as { entries: Row[] }).entries };
  };

  test.each([0, 6])('finds each chunk of each file by the table of contents, at level %i', async (level) => {
    const { packed, rows } = await open(level);
    const whole = createHash('sha256');
    const chunks = rows.filter((row) => row.name === 'big');
    expect(chunks.map((row) => row.type)).toEqual(['reg', 'chunk', 'chunk']);
    expect(chunks.map((row) => row.chunkOffset ?? 0)).toEqual([0, 4 * MIB, 8 * MIB]);
    for (const row of chunks) {
      const data = gunzipSync(packed.subarray(row.offset)).subarray(0, row.chunkSize);
      expect(sha256(data)).toBe(row.chunkDigest);
      whole.update(data);
    }
    expect(chunks[0]).toMatchObject({ size: 9 * MIB + 5, digest: `sha256:${whole.digest('hex')}` });
    expect(rows.find((row) => row.name === 'secret')).not.toHaveProperty('offset');
  });

  test('says how long the uncompressed layer is', async () => {
    const { layer, packed } = await open(0);
    expect(layer.annotations?.['io.containers.estargz.uncompressed-size']).toBe(String(gunzipSync(packed).length));
  });
});

describe('images', () => {
  test('name their blobs by digest and count them', async () => {
    const layer = await gzipLayer([{ name: 'a', type: 'file', content: bytes('a') }]);
    const image = buildImage({ layers: [layer], entrypoint: ['/a'], annotations: { note: 'x' } });
    const manifest = JSON.parse(image.manifest.toString()) as Record<string, unknown>;
    expect(manifest).toMatchObject({
      annotations: { note: 'x' },
      config: { digest: image.config.digest },
      layers: [{ digest: layer.digest, size: layer.size }],
    });
    const config = JSON.parse((await read(image.config.open())).toString()) as unknown;
    expect(config).toMatchObject({
      os: 'linux',
      architecture: 'amd64',
      config: { Entrypoint: ['/a'] },
      rootfs: { diff_ids: [layer.diffId] },
    });
    expect(image.digest).toBe(sha256(image.manifest));
    expect(image.sizeBytes).toBe(image.manifest.length + image.config.size + layer.size);
    const index = buildIndex([image]);
    expect(JSON.parse(index.manifest.toString())).toMatchObject({
      manifests: [{ digest: image.digest, size: image.manifest.length, platform: { os: 'linux' } }],
    });
  });

  test('of one seed are equal, of two seeds are not, and are equally big', async () => {
    const [one, again, other] = await Promise.all(['a', 'a', 'b'].map((seed) => payloadImage({ seed, bytes: MIB, bare: true })));
    expect(again?.digest).toBe(one?.digest);
    expect(other?.digest).not.toBe(one?.digest);
    expect(other?.sizeBytes).toBe(one?.sizeBytes);
    expect(one?.sizeBytes).toBeGreaterThan(MIB);
  });

  test('converted to eStargz record their source', async () => {
    const options = { seed: 'a', bytes: 1000, bare: true };
    const source = await payloadImage(options);
    const variant = await estargzVariant(source, options);
    expect(JSON.parse(variant.manifest.toString())).toMatchObject({ annotations: { [SOURCE_DIGEST]: source.digest } });
    expect(variant.layers[0]?.diffId).not.toBe(source.layers[0]?.diffId);
  });
});
