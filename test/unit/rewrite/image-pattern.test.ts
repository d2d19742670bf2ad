import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseReference } from '../../../src/images/reference.js';
import { matchesPattern, parsePattern } from '../../../src/rewrite/image-pattern.js';

function matches(pattern: string, image: string): boolean {
  const parsed = parsePattern(pattern);
  const reading = parseReference(image);
  if (typeof parsed === 'string') throw new Error(parsed);
  if (!reading.ok) throw new Error(reading.problem);
  return matchesPattern(parsed, reading.reference);
}

describe('image patterns', () => {
  test.each([
    ['a literal name matches every tag', 'r.example/team/app', 'r.example/team/app:v1', true],
    ['a literal name matches a digest', 'r.example/team/app', `r.example/team/app@sha256:${'a'.repeat(64)}`, true],
    ['a literal name does not match a longer one', 'r.example/team/app', 'r.example/team/app2', false],
    ['a literal name does not match below itself', 'r.example/team/app', 'r.example/team/app/x', false],
    ['one star stays within a component', 'r.example/*/app', 'r.example/team/app', true],
    ['one star does not cross a slash', 'r.example/*', 'r.example/team/app', false],
    ['one star may stand for nothing', 'r.example/app*', 'r.example/app', true],
    ['two stars cross slashes', 'r.example/**', 'r.example/a/b/c:v1', true],
    ['two stars in the middle', 'r.example/**/app', 'r.example/a/b/app', true],
    ['two stars do not leave the host', 'r.example/**', 'r.example.evil/a', false],
    ['a port is no tag', 'r.example:5000/**', 'r.example:5000/a:v1', true],
    ['a tag pattern matches its tags', 'r.example/a:v*', 'r.example/a:v1', true],
    ['a tag pattern does not match other tags', 'r.example/a:v*', 'r.example/a:latest', false],
    ['a tag pattern does not match a bare digest', 'r.example/a:*', `r.example/a@sha256:${'a'.repeat(64)}`, false],
    ['the default tag counts', 'nginx:latest', 'nginx', true],
    ['a Docker Hub image by its short name', 'nginx', 'docker.io/library/nginx:1', true],
    ['a Docker Hub image by its long name', 'docker.io/library/nginx', 'nginx:1', true],
    ['a Docker Hub image of a user by its short name', 'bitnami/*', 'bitnami/redis', true],
    ['a short name does not match another registry', 'nginx', 'r.example/nginx', false],
    ['everything', '**', 'r.example/a/b:c', true],
    ['a dot is a dot', 'r.example/a', 'rxexample.com/a', false],
  ])('%s', (_, pattern, image, want) => {
    expect(matches(pattern, image)).toBe(want);
  });

  test.each([
    ['white space', 'r.example/a b', /white space/],
    ['three stars', 'r.example/***', /two stars/],
    ['a digest', 'r.example/a@sha256:1', /digest/],
    ['no name', ':v1', /no name/],
  ])('refuses %s and says why', (_, pattern, want) => {
    expect(parsePattern(pattern)).toMatch(want);
  });

  test('many stars do not make matching slow', () => {
    const started = performance.now();
    expect(matches(`r.example/${'*a'.repeat(120)}b`, `r.example/${'a'.repeat(200)}`)).toBe(false);
    expect(performance.now() - started).toBeLessThan(500);
  });

  test('agrees with a regular expression made from the same pattern', () => {
    const part = fc.constantFrom('*', '**', 'a', 'b', '/', '.');
    const text = fc.array(fc.constantFrom('a', 'b', '/', '.'), { minLength: 1, maxLength: 8 }).map((c) => c.join(''));
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 6 }), text, (parts, repository) => {
        const pattern = parts.join('').replace(/\*{3,}/g, '**');
        const parsed = parsePattern(`r.example/${pattern}`);
        const source = pattern.replace(/[./]/g, '\\$&').replace(/\*\*|\*/g, (s) => (s === '**' ? '.*' : '[^/]*'));
        const want = new RegExp(`^r\\.example/${source}$`).test(`r.example/${repository}`);
        expect(typeof parsed !== 'string' && matchesPattern(parsed, { registry: 'r.example', repository, tag: 't' })).toBe(want);
      }),
    );
  });
});
