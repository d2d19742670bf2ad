import { opendir, readFile, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { list, record } from '../api/json.js';
import type { Json } from '../api/json.js';
import { readYaml } from '../config/yaml.js';

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
const EXTENSIONS: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json']);
/** A line that ends a document, as kubectl reads it: whatever else stands behind the dashes belongs to the next one. */
const SEPARATOR = /^---[^\S\n]*(?:#.*)?$/m;

/**
 * The manifests of a file, of a folder with all below it, or of standard input (`-`), in the order of their names.
 * @param having documents without this text are passed over
 */
export async function* readManifests(path: string, stdin: AsyncIterable<unknown>, having = ''): AsyncGenerator<Entry> {
  if (path === '-') {
    const text = await collect(stdin);
    if (text === undefined) yield tooLarge('standard input');
    else yield* manifestsOf(text, 'standard input', having);
    return;
  }
  const what = await stat(path).catch((cause: Error) => {
    throw new Error(`cannot read manifests: ${cause.message}; give a file, a folder or - with -f`, { cause });
  });
  if (what.isDirectory()) yield* readFolder(path, having);
  else yield* readOne(path, having);
}

/** Links are not followed: one that leads upwards would never end. */
async function* readFolder(folder: string, having: string): AsyncGenerator<Entry> {
  const entries = [];
  for await (const entry of await opendir(folder)) if (!skipped(entry.name)) entries.push(entry);
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* readFolder(path, having);
    else if (entry.isFile() && EXTENSIONS.has(extname(entry.name).toLowerCase())) yield* readOne(path, having);
  }
}

function skipped(name: string): boolean {
  return name.startsWith('.') || name === 'node_modules';
}

async function* readOne(file: string, having: string): AsyncGenerator<Entry> {
  try {
    if ((await stat(file)).size > MAX_FILE_BYTES) yield tooLarge(file);
    else yield* manifestsOf(await readFile(file, 'utf8'), file, having);
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
export function* manifestsOf(text: string, file: string, having = ''): Generator<Entry> {
  let line = 1;
  let rest = text;
  for (;;) {
    const end = SEPARATOR.exec(rest);
    const part = end === null ? rest : rest.slice(0, end.index);
    if (part.includes(having)) yield* documentOf(part, file, line);
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
  return yamlOf(text, file, line);
}

/** Quick, and most of what is large is JSON; a text that is not is left to the YAML parser, which tells the line. */
function parseJson(text: string): Json | undefined {
  try {
    return record(JSON.parse(text));
  } catch {
    return undefined;
  }
}

function yamlOf(text: string, file: string, line: number): Entry[] {
  return readYaml(text).flatMap((document): Entry[] => {
    const begins = line + document.line - 1;
    if ('problem' in document) return [{ problem: { file, line: begins, message: `${document.problem}${hint(text)}` } }];
    if (document.value === undefined) return [];
    const object = record(document.value);
    if (object === undefined)
      return [{ problem: { file, line: begins, message: 'not a Kubernetes object: the document is no mapping' } }];
    return flatten(object).map((one) => ({ manifest: { file, line: begins, object: one } }));
  });
}

function hint(text: string): string {
  return text.includes('{{') ? ' (a chart has to be rendered first: helm template ... | harbinger simulate -f -)' : '';
}

/** `kubectl get -o yaml` prints a List. */
function flatten(object: Json): Json[] {
  const { kind, items } = object;
  if (typeof kind !== 'string' || !kind.endsWith('List')) return [object];
  const inner = list(items);
  return inner === undefined ? [object] : inner.map(record).filter((item) => item !== undefined);
}
