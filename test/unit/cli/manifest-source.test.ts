import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ManifestSource } from '../../../src/cli/manifest-source.js';

async function* stdin(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Promise.resolve(Buffer.from(text));
}

async function kinds(source: ManifestSource): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const entry of source.entries()) found.push('manifest' in entry ? entry.manifest.object['kind'] : 'problem');
  return found;
}

async function namespaces(source: ManifestSource): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const one of source.namespaces()) found.push(one);
  return found;
}

describe('a source of manifests', () => {
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'source-'));
    await mkdir(join(root, 'empty'));
    await mkdir(join(root, 'notes'));
    await mkdir(join(root, 'good'));
    await Promise.all([
      writeFile(join(root, 'notes', 'README.md'), 'kind: Pod\n'),
      writeFile(join(root, 'comment.yaml'), '# nothing\n---\n'),
      writeFile(join(root, 'good', 'a.yaml'), 'kind: Pod\n'),
      writeFile(join(root, 'good', 'z.yaml'), 'kind: Namespace\nmetadata: {name: ns, labels: {a: b}}\n---\na: [\n'),
    ]);
  });
  afterAll(() => rm(root, { recursive: true }));

  test.each([
    ['an empty folder', 'empty'],
    ['a folder without manifests', 'notes'],
    ['a file with comments only', 'comment.yaml'],
  ])('%s is an error that says what is read', async (_, name) => {
    const path = join(root, name);
    await expect(kinds(new ManifestSource([path], stdin()))).rejects.toThrow(`${path} holds no manifest; give a file`);
  });

  test('standard input without any is an error, as the command before it may have failed', async () => {
    await expect(kinds(new ManifestSource(['-'], stdin('\n')))).rejects.toThrow(/standard input holds no manifest/);
  });

  test('one bad path of several is an error behind the good ones', async () => {
    const source = new ManifestSource([join(root, 'good'), join(root, 'empty')], stdin());
    await expect(kinds(source)).rejects.toThrow(/empty holds no manifest/);
  });

  test('tells Namespaces first, wherever they stand, and leaves problems to those who read the rest', async () => {
    const source = new ManifestSource([join(root, 'good')], stdin());
    expect(await namespaces(source)).toEqual([['ns', { labels: { a: 'b' }, annotations: {} }]]);
    expect(await kinds(source)).toEqual(['Pod', 'Namespace', 'problem']);
  });

  test('keeps standard input, so that it is read twice', async () => {
    const source = new ManifestSource(['-'], stdin('kind: Pod\n---\nkind: Name', 'space\nmetadata: {name: ns}\n'));
    expect(await namespaces(source)).toEqual([['ns', { labels: {}, annotations: {} }]]);
    expect(await kinds(source)).toEqual(['Pod', 'Namespace']);
    expect(await kinds(source)).toEqual(['Pod', 'Namespace']);
  });
});
