import { opendir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { Composer, LineCounter, Parser } from 'yaml';
import type { CST, Document } from 'yaml';
import { list, record } from '../api/json.js';
import type { Json } from '../api/json.js';

/** One object of a file of manifests. */
export interface Manifest {
  file: string;
  /** Line on which its document begins, from 1. */
  line: number;
  object: Json;
}

/** Something that could not be read; the rest of its folder is read all the same. */
export interface Problem {
  file: string;
  line?: number;
  message: string;
}

export type Entry = { manifest: Manifest } | { problem: Problem };

/** Output of a whole cluster's worth of charts fits; what is larger is no folder of manifests. */
const MAX_FILE_BYTES = 64 << 20;
/** etcd takes objects of 1.5 MiB; a List of many is one document. The tree of a YAML parser takes fifty times its text. */
const MAX_YAML_CHARS = 16 << 20;
/** Levels of YAML collections; a CRD's schema has some forty. */
const MAX_NESTING = 200;
const EXTENSIONS: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json']);
/** A line that ends a document, as kubectl reads it: whatever else stands behind the dashes belongs to the next one. */
const SEPARATOR = /^---[^\S\n]*(?:#.*)?$/m;

/** The manifests of a file, of a folder with all below it, or of standard input (`-`), in the order of their names. */
export async function* readManifests(path: string, stdin: AsyncIterable<unknown>): AsyncGenerator<Entry> {
  if (path === '-') {
    const text = await collect(stdin);
    if (text === undefined) yield tooLarge('standard input');
    else yield* manifestsOf(text, 'standard input');
    return;
  }
  const what = await stat(path).catch((cause: Error) => {
    throw new Error(`cannot read manifests: ${cause.message}; give a file, a folder or - with -f`, { cause });
  });
  if (what.isDirectory()) yield* readFolder(path);
  else yield* readOne(path);
}

/** Links are not followed: one that leads upwards would never end. */
async function* readFolder(folder: string): AsyncGenerator<Entry> {
  const entries = [];
  for await (const entry of await opendir(folder)) if (!skipped(entry.name)) entries.push(entry);
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* readFolder(path);
    else if (entry.isFile() && EXTENSIONS.has(extname(entry.name).toLowerCase())) yield* readOne(path);
  }
}

function skipped(name: string): boolean {
  return name.startsWith('.') || name === 'node_modules';
}

async function* readOne(file: string): AsyncGenerator<Entry> {
  try {
    if ((await stat(file)).size > MAX_FILE_BYTES) yield tooLarge(file);
    else yield* manifestsOf(await readFile(file, 'utf8'), file);
  } catch (error) {
    yield { problem: { file, message: (error as Error).message } };
  }
}

async function collect(stdin: AsyncIterable<unknown>): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of stdin) {
    const bytes = Buffer.from(part as Uint8Array);
    size += bytes.length;
    if (size > MAX_FILE_BYTES) return undefined;
    parts.push(bytes);
  }
  return Buffer.concat(parts).toString('utf8');
}

function tooLarge(file: string): Entry {
  return { problem: { file, message: `larger than ${MAX_FILE_BYTES >> 20} MiB; give its parts one by one` } };
}

/** The objects of a text of one or more documents, Lists taken apart. One document is parsed at a time, as parsing costs much memory. */
export function* manifestsOf(text: string, file: string): Generator<Entry> {
  let line = 1;
  let rest = text;
  for (;;) {
    const end = SEPARATOR.exec(rest);
    const part = end === null ? rest : rest.slice(0, end.index);
    yield* documentOf(part, file, line);
    if (end === null) return;
    line += lines(part);
    rest = rest.slice(end.index + end[0].length);
  }
}

function lines(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++;
  return count;
}

function documentOf(text: string, file: string, line: number): Entry[] {
  const start = text.search(/\S/);
  if (start < 0) return [];
  const first = line + lines(text.slice(0, start));
  const json = text[start] === '{' ? parseJson(text) : undefined;
  if (json !== undefined) return flatten(json).map((object) => ({ manifest: { file, line: first, object } }));
  if (text.length > MAX_YAML_CHARS) {
    const message = `a YAML document of more than ${MAX_YAML_CHARS >> 20} MiB; split the list, or write it as JSON`;
    return [{ problem: { file, line: first, message } }];
  }
  try {
    return yamlOf(text, file, line);
  } catch (error) {
    const message = error instanceof RangeError ? 'nested too deeply to be a manifest' : `not YAML: ${(error as Error).message}`;
    return [{ problem: { file, line: first, message } }];
  }
}

/** Quick, and most of what is large is JSON; a text that is not is left to the YAML parser, which tells the line. */
function parseJson(text: string): Json | undefined {
  try {
    return record(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** Errors carry no excerpt of the file (prettyErrors): it may be a Secret, and this ends in the log of a build. */
function yamlOf(text: string, file: string, line: number): Entry[] {
  const lineCounter = new LineCounter();
  // The composer recurses, and a stack that ends within a regular expression ends the whole process: depth is measured before.
  const tokens = [...new Parser(lineCounter.addNewLine).parse(text)];
  if (tooDeep(tokens)) throw new RangeError('nesting');
  const composer = new Composer({ prettyErrors: false, merge: true });
  const documents = [...composer.compose(tokens)];
  const at = (offset: number): number => line + lineCounter.linePos(offset).line - 1;
  return documents.flatMap((document): Entry[] => {
    const broken = document.errors[0];
    if (broken !== undefined)
      return [{ problem: { file, line: at(broken.pos[0]), message: `not YAML: ${broken.message}${hint(text)}` } }];
    const begins = at(document.contents?.range[0] ?? document.range[0]);
    const object = plain(document);
    if (typeof object === 'string') return [{ problem: { file, line: begins, message: object } }];
    return flatten(object).map((one) => ({ manifest: { file, line: begins, object: one } }));
  });
}

/** Whether collections stand in collections deeper than those of any manifest. Keeps its own stack. */
function tooDeep(tokens: readonly CST.Token[]): boolean {
  const open: { token: CST.Token; depth: number }[] = tokens.map((token) => ({ token, depth: 0 }));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, depth } = next;
    if (depth > MAX_NESTING) return true;
    const inner: (CST.Token | null | undefined)[] =
      'items' in token ? token.items.flatMap(({ key, value }) => [key, value]) : token.type === 'document' ? [token.value] : [];
    for (const below of inner) if (below) open.push({ token: below, depth: depth + 1 });
  }
  return false;
}

function hint(text: string): string {
  return text.includes('{{') ? ' (a chart has to be rendered first: helm template ... | harbinger simulate -f -)' : '';
}

/** The object of a document, {} for an empty one, or what is wrong. Aliases are resolved here, so an unquoted `**` fails only now. */
function plain(document: Document): Json | string {
  try {
    const value: unknown = document.toJS();
    if (value === null || value === undefined) return {};
    return record(value) ?? 'not a Kubernetes object: the document is no mapping';
  } catch (error) {
    if (error instanceof RangeError) throw error;
    return `not YAML: ${(error as Error).message} (texts that start with * need quotes)`;
  }
}

/** `kubectl get -o yaml` prints a List. */
function flatten(object: Json): Json[] {
  const { kind, items } = object;
  if (typeof kind !== 'string' || !kind.endsWith('List')) return [object];
  const inner = list(items);
  return inner === undefined ? [object] : inner.map(record).filter((item) => item !== undefined);
}
