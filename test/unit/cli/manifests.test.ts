import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { manifestsOf, readManifests } from '../../../src/cli/manifests.js';
import type { Entry } from '../../../src/cli/manifests.js';

const line = (entry: Entry): string =>
  'problem' in entry
    ? `${entry.problem.line ?? ''}! ${entry.problem.message}`
    : `${entry.manifest.line} ${String(entry.manifest.object['kind'])}`;
const read = (text: string): string[] => [...manifestsOf(text, 'f.yaml')].map(line);

async function* bytes(...parts: string[]): AsyncGenerator<Buffer> {
  for (const part of parts) yield Promise.resolve(Buffer.from(part));
}

describe('a text of manifests', () => {
  test.each<[string, string, string[]]>([
    ['one document', 'kind: Pod\n', ['1 Pod']],
    ['JSON', '{"kind": "Pod"}', ['1 Pod']],
    ['several documents, with comments and empty ones', '# a\n---\nkind: A\n---   # b\n\n---\n\nkind: B\n', ['3 A', '8 B']],
    ['Windows line ends', 'kind: A\r\n---\r\nkind: B\r\n', ['1 A', '3 B']],
    ['dashes inside of a text', 'kind: A\ntext: |\n  ---\n  kind: B\n', ['1 A']],
    ['a List', 'kind: List\nitems:\n- kind: A\n- kind: B\n', ['1 A', '1 B']],
    ['a typed list in JSON', '{"kind":"PodList","items":[{"kind":"A"},{"kind":"B"}]}', ['1 A', '1 B']],
    ['a kind that ends in List without items', 'kind: AllowList\n', ['1 AllowList']],
    ['merge keys, as kubectl reads them', 'a: &a {kind: A}\n<<: *a\n', ['1 A']],
    ['nothing', ' \n', []],
  ])('%s', (_, text, wanted) => {
    expect(read(text)).toEqual(wanted);
  });

  test.each<[string, string, (string | RegExp)[]]>([
    ['broken YAML', 'kind: A\n---\n\na: [\n---\nkind: B\n', ['1 A', /^\d! not YAML: /, '6 B']],
    ['broken JSON', '{"kind": "A",\n "b": ]}', [/^2! not YAML: /]],
    ['a list', '- kind: A\n', [/1! not a Kubernetes object/]],
    ['a text', 'hello\n', [/1! not a Kubernetes object/]],
    ['a chart that was not rendered', 'kind: {{ .Values.kind }}\na: b: c\n', [/helm template/]],
    ['a key that stands twice', 'kind: A\nkind: B\n', [/2! not YAML: a key stands twice \(DUPLICATE_KEY\)/]],
    ['an alias without anchor', 'kind: *nobody\n', [/not YAML: .*quotes/]],
    ['a bomb of aliases', bomb(), [/not YAML: /]],
    ['nesting without end', `a: ${'['.repeat(50_000)}`, [/! nested too deeply/]],
    ['nesting without end in blocks', `a: ${'- '.repeat(20_000)}`, [/! /]],
    ['nesting by mappings', Array.from({ length: 2_000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), [/! nested too deeply/]],
  ])('%s is named with its line, and the rest is read', (_, text, wanted) => {
    expect(read(text)).toEqual(wanted.map((w) => (typeof w === 'string' ? w : expect.stringMatching(w))));
  });

  test.each([
    ['a colon too many', 'kind: Secret\nstringData:\n  password: hunter2: x\n', 3],
    ['an alias', 'kind: Secret\nstringData:\n  password: *hunter2\n', 1],
    ['a tag', 'kind: Secret\nstringData:\n  password: !<hunter2 x\n', 3],
    ['a quote that does not end', 'kind: Secret\nstringData:\n  password: "hunter2\n', 3],
    ['an escape', 'kind: Secret\nstringData:\n  password: "\\hunter2"\n', 3],
    ['a directive', '%TAG hunter2\nkind: Secret\n', 1],
    ['a bad first character', 'kind: Secret\nstringData:\n  password: @hunter2\n', 3],
    ['a merge', 'kind: Secret\n<<: hunter2\n', 1],
    ['a bracket', 'kind: Secret\nstringData: {password: hunter2]}\n', 2],
    ['a text behind a text', 'kind: Secret\nstringData:\n  password: "a" hunter2\n', 3],
  ])('a problem quotes nothing of the file, which may be a Secret: %s', (_, text, at) => {
    const problems = read(text).filter((entry) => entry.includes('!'));
    expect(problems).toEqual([expect.stringMatching(new RegExp(`^[${at}-${at + 1}]! not YAML`))]);
    expect(problems.join()).not.toMatch(/hunter/);
  });
});

/** Every level names the one below nine times. */
function bomb(): string {
  const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
  return `l0: &l0 [x]\n${levels.join('\n')}\n`;
}

describe('a path', () => {
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'manifests-'));
    await mkdir(join(root, 'b'));
    await mkdir(join(root, '.git'));
    await Promise.all([
      writeFile(join(root, 'a.yaml'), 'kind: A\n'),
      writeFile(join(root, 'b', 'c.yml'), 'kind: C\n'),
      writeFile(join(root, 'd.json'), '{"kind":"D"}'),
      writeFile(join(root, 'notes.md'), 'kind: E\n'),
      writeFile(join(root, '.git', 'f.yaml'), 'kind: F\n'),
      symlink(root, join(root, 'b', 'up')),
    ]);
  });
  afterAll(() => rm(root, { recursive: true }));

  const all = async (path: string, stdin: AsyncIterable<unknown> = bytes()): Promise<string[]> => {
    const found: string[] = [];
    for await (const entry of readManifests(path, stdin)) found.push(line(entry));
    return found;
  };

  test('of a folder is read in order of names, without hidden folders, other files and links', async () => {
    expect(await all(root)).toEqual(['1 A', '1 C', '1 D']);
  });

  test('of a file is read whatever its name', async () => {
    expect(await all(join(root, 'notes.md'))).toEqual(['1 E']);
  });

  test('- is standard input, also where characters are cut in two', async () => {
    const text = Buffer.from('kind: Ä\n');
    const parts = (async function* () {
      for (const part of [text.subarray(0, 7), text.subarray(7)]) yield Promise.resolve(part);
    })();
    expect(await all('-', parts)).toEqual(['1 Ä']);
  });

  test('that is not there is an error with the way out', async () => {
    await expect(all(join(root, 'none'))).rejects.toThrow(/cannot read manifests: ENOENT.*give a file, a folder or -/);
  });

  test('input without end is given up', async () => {
    const endless = (async function* () {
      for (;;) yield Promise.resolve(Buffer.alloc(16 << 20, 'a'));
    })();
    expect(await all('-', endless)).toEqual([expect.stringContaining('larger than 64 MiB')]);
  });
});
