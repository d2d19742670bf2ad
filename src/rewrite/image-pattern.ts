import type { Reference } from '../images/reference.js';

/** One image pattern of a policy, split once so that matching never parses. */
export interface ImagePattern {
  /** Literal texts and wildcards of the name, in order. */
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
  return (text.match(/\*\*|\*|[^*]+/g) ?? []).map((part) =>
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
 * Carries all positions at which the text can continue from token to token: the time is that of text times tokens whatever the
 * pattern is, where a regular expression with many stars could be made to hang an admission.
 */
function matches(pattern: readonly Token[], text: string): boolean {
  let at = [0];
  for (const token of pattern) {
    at = 'literal' in token ? behindLiteral(token.literal, text, at) : behindWildcard(token.any, text, at);
    if (at.length === 0) return false;
  }
  return at.at(-1) === text.length;
}

function behindLiteral(literal: string, text: string, at: readonly number[]): number[] {
  const next: number[] = [];
  for (const start of at) if (text.startsWith(literal, start)) next.push(start + literal.length);
  return next;
}

/** Ascending, as `at` is. A wildcard may stand for nothing, so its own start is one of the positions behind it. */
function behindWildcard(any: 'component' | 'path', text: string, at: readonly number[]): number[] {
  const next: number[] = [];
  let end = -1;
  for (const start of at) {
    if (start <= end) continue;
    const slash = any === 'path' ? -1 : text.indexOf('/', start);
    end = slash < 0 ? text.length : slash;
    for (let i = start; i <= end; i++) next.push(i);
  }
  return next;
}
