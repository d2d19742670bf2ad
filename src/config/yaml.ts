import { Composer, LineCounter, Parser } from 'yaml';
import type { CST, Document, ErrorCode } from 'yaml';

/** One document of a text: its value (undefined where it is empty), or what is wrong with it. Lines count from 1. */
export type YamlDocument = { line: number; value: unknown } | { line: number; problem: string };

/** Levels of collections; a CRD's schema has some forty. */
const MAX_NESTING = 200;

/** What the codes of the parser mean; others are told by their code alone. */
const WORDS: Partial<Readonly<Record<ErrorCode, string>>> = {
  BAD_ALIAS: 'an alias that names nothing; texts that start with * need quotes',
  BAD_INDENT: 'the indentation does not fit, or a bracket is not closed',
  BAD_SCALAR_START: 'a text starts with a character that has to be quoted',
  BLOCK_AS_IMPLICIT_KEY: 'a mapping stands on the line of another key; texts that hold a colon and a space need quotes',
  DUPLICATE_KEY: 'a key stands twice',
  MISSING_CHAR: 'a quote, bracket, comma or colon is missing',
  MULTILINE_IMPLICIT_KEY: 'a key goes over several lines; a colon may be missing',
  TAB_AS_INDENT: 'a tab is used to indent',
  UNEXPECTED_TOKEN: 'something stands where it cannot',
};

/**
 * The documents of a YAML text. Total: depth is bounded, aliases are counted, and problems hold no part of the text, which may be a Secret,
 * while what is said of it ends in the log of a build.
 */
export function readYaml(text: string): readonly YamlDocument[] {
  const lineCounter = new LineCounter();
  // The composer recurses, and a stack that ends within a regular expression ends the whole process: depth is measured before.
  const tokens = [...new Parser(lineCounter.addNewLine).parse(text)];
  if (tooDeep(tokens)) return [{ line: firstLine(text), problem: 'nested too deeply' }];
  const at = (offset: number): number => lineCounter.linePos(offset).line;
  const composer = new Composer({ prettyErrors: false, merge: true });
  return [...composer.compose(tokens)].map((document) => {
    const broken = document.errors[0];
    if (broken !== undefined) return { line: at(broken.pos[0]), problem: wordsFor(broken.code) };
    return { line: at(document.contents?.range[0] ?? document.range[0]), ...valueOf(document) };
  });
}

function firstLine(text: string): number {
  return text.slice(0, Math.max(0, text.search(/\S/))).split('\n').length;
}

function wordsFor(code: ErrorCode): string {
  const words = WORDS[code];
  return words === undefined ? `not YAML (${code})` : `not YAML: ${words} (${code})`;
}

/** Aliases are resolved here, so an unquoted `**` fails only now; so do those that would make a small text a huge value. */
function valueOf(document: Document): { value: unknown } | { problem: string } {
  try {
    return { value: (document.toJS() as unknown) ?? undefined };
  } catch (error) {
    if (error instanceof RangeError) return { problem: 'nested too deeply' };
    return { problem: 'not YAML: an alias or merge key names nothing or too much; texts that start with * need quotes' };
  }
}

/** Whether collections stand in collections deeper than in any file that people write. Keeps its own stack. */
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
