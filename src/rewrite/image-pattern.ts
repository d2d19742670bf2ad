import type { Reference } from '../images/reference.js';

/** One image pattern of a policy, split once so that matching never parses. */
export interface ImagePattern {
  /** Literal characters and wildcards of the name, in order. */
  name: readonly Token[];
  /** Tokens of the tag; undefined where the pattern names none and so takes every tag and digest. */
  tag?: readonly Token[];
}

type Token = { literal: string } | { any: 'component' | 'path' };

/**
 * Reads a pattern: `*` stands for any characters within one path component, `**` also across components. A part after a colon
 * in the last component is a pattern for the tag. Returns the problem as a text where it is none.
 */
export function parsePattern(text: string): ImagePattern | string {
  if (/\s/.test(text)) return `image pattern "${text}" contains white space`;
  if (text.includes('***')) return `image pattern "${text}": more than two stars in a row`;
  if (text.includes('@')) return `image pattern "${text}" names a digest; patterns match names and tags`;
  const colon = text.indexOf(':', text.lastIndexOf('/') + 1);
  const name = colon < 0 ? text : text.slice(0, colon);
  if (name === '') return `image pattern "${text}" has no name`;
  return colon < 0 ? { name: tokens(name) } : { name: tokens(name), tag: tokens(text.slice(colon + 1)) };
}

function tokens(text: string): Token[] {
  return (text.match(/\*\*|\*|[^*]/g) ?? []).map((part) =>
    part === '**' ? { any: 'path' } : part === '*' ? { any: 'component' } : { literal: part },
  );
}

/**
 * Whether an image is meant. Images of Docker Hub are known by two names, `nginx` and `docker.io/library/nginx`: a pattern may
 * use either, since users write both.
 */
export function matchesPattern(pattern: ImagePattern, reference: Reference): boolean {
  if (pattern.tag !== undefined && (reference.tag === undefined || !matches(pattern.tag, reference.tag))) return false;
  return namesOf(reference).some((name) => matches(pattern.name, name));
}

function namesOf({ registry, repository }: Reference): string[] {
  const full = `${registry}/${repository}`;
  if (registry !== 'docker.io') return [full];
  return repository.startsWith('library/') ? [full, repository, repository.slice('library/'.length)] : [full, repository];
}

/**
 * Walks the text once with the set of token positions that are still possible: linear in text times pattern whatever the
 * pattern is, where a regular expression with many stars could be made to hang an admission.
 */
function matches(pattern: readonly Token[], text: string): boolean {
  let at = closure(pattern, [0]);
  for (const char of text) {
    const next = new Set<number>();
    for (const i of at) step(pattern, i, char, next);
    if (next.size === 0) return false;
    at = closure(pattern, next);
  }
  return at.has(pattern.length);
}

function step(pattern: readonly Token[], i: number, char: string, next: Set<number>): void {
  const token = pattern[i];
  if (token === undefined) return;
  if ('literal' in token) {
    if (token.literal === char) next.add(i + 1);
  } else if (token.any === 'path' || char !== '/') {
    next.add(i);
  }
}

/** Adds the positions that are reached without a character: a wildcard may stand for nothing. */
function closure(pattern: readonly Token[], from: Iterable<number>): Set<number> {
  const reached = new Set<number>();
  for (const start of from) {
    let i = start;
    reached.add(i);
    for (let token = pattern[i]; token !== undefined && 'any' in token; token = pattern[i]) reached.add(++i);
  }
  return reached;
}
