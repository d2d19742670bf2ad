import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { format, isDigest, parseReference, withDigest, withTag } from '../../../src/images/reference.js';

const SHA256 = `sha256:${'a1'.repeat(32)}`;
const SHA512 = `sha512:${'b2'.repeat(64)}`;

function full(text: string): string {
  const parsed = parseReference(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.problem}`);
  return format(parsed.reference);
}

describe('an image as people write it becomes one full name', () => {
  test.each([
    ['a short name is an official image of Docker Hub', 'nginx', 'docker.io/library/nginx:latest'],
    ['docker.io with one component is an official image', 'docker.io/bash', 'docker.io/library/bash:latest'],
    ['index.docker.io is docker.io', 'index.docker.io/x/y', 'docker.io/x/y:latest'],
    ['a dot in a later component makes no host', 'library/nginx.v2:1', 'docker.io/library/nginx.v2:1'],
    ['a dot in the tag makes no host', 'nginx:1.27.2', 'docker.io/library/nginx:1.27.2'],
    ['a colon before the last slash is a port', 'registry:5000/a/b', 'registry:5000/a/b:latest'],
    ['host with port and tag', 'registry:5000/a/b:1', 'registry:5000/a/b:1'],
    ['localhost is a host', 'localhost/a', 'localhost/a:latest'],
    ['localhost without a slash is an image', 'localhost', 'docker.io/library/localhost:latest'],
    ['a domain without a slash is an image', 'example.com', 'docker.io/library/example.com:latest'],
    ['upper case in the first component makes it a host', 'MyHost/a', 'MyHost/a:latest'],
    ['IPv6 host with port', '[::1]:5000/a:1', '[::1]:5000/a:1'],
    ['IPv6 host without port', '[fd00::2]/a', '[fd00::2]/a:latest'],
    ['a digest wins over nothing: no tag is added', `a@${SHA256}`, `docker.io/library/a@${SHA256}`],
    ['tag and digest are both kept', `a:1@${SHA256}`, `docker.io/library/a:1@${SHA256}`],
    ['sha512 is a digest too', `a@${SHA512}`, `docker.io/library/a@${SHA512}`],
    ['separators of the grammar', 'a__b/c--d/e.f_g', 'docker.io/a__b/c--d/e.f_g:latest'],
    ['a tag of 128 characters', `a:${'t'.repeat(128)}`, `docker.io/library/a:${'t'.repeat(128)}`],
    ['templates that other injectors replace are names like any other', 'auto', 'docker.io/library/auto:latest'],
  ])('%s', (_, text, expected) => {
    expect(full(text)).toBe(expected);
  });
});

describe('what is no image is refused with a reason', () => {
  test.each([
    ['nothing', '', 'empty'],
    ['64 hexadecimal digits', 'ab'.repeat(32), 'image ID'],
    ['upper case in the repository', 'docker.io/Foo/bar', 'lower case'],
    ['a placeholder in upper case', 'IMAGE_PLACEHOLDER', 'lower case'],
    ['a tag that is too long', `a:${'t'.repeat(129)}`, '129 characters'],
    ['an empty tag', 'a:', 'not a tag'],
    ['a name that is too long', `a/${'b'.repeat(256)}`, 'limit is 255'],
    ['an empty digest', 'a@', 'not a digest'],
    ['a digest that is too short', 'a@sha256:abcdef', 'not a digest'],
    ['a digest in upper case', `a@sha256:${'AB'.repeat(32)}`, '64 lower-case'],
    ['a digest of an unknown algorithm', `a@md5:${'ab'.repeat(16)}`, 'not known'],
    ['a digest with the wrong length', `a@sha512:${'ab'.repeat(32)}`, '128 lower-case'],
    ['two digests', `a@${SHA256}@${SHA256}`, 'not a digest'],
    ['a URL', 'https://registry.example.com/a', 'registry host'],
    ['white space', 'a b', 'repository name'],
    ['a double slash', 'a.example.com//b', 'repository name'],
    ['a trailing slash', 'a/', 'repository name'],
    ['an unclosed IPv6 host', '[::1/a', 'registry host'],
    ['three underscores', 'a___b', 'repository name'],
    ['a host that ends in a dash', 'bad-.example.com/a', 'registry host'],
    ['a port that is no number', 'registry:port/a', 'registry host'],
  ])('%s', (_, text, reason) => {
    expect(parseReference(text)).toEqual({ ok: false, problem: expect.stringContaining(reason) });
  });

  test('a long text is quoted in part only', () => {
    const parsed = parseReference(`a:${'$'.repeat(100)}`);
    expect(parsed).toEqual({ ok: false, problem: expect.stringMatching(/^.{60,90}$/) });
  });
});

const component = fc.stringMatching(/^[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}$/);
const host = fc.oneof(
  fc.constant(''),
  fc.constant('docker.io'),
  fc.stringMatching(/^[a-z0-9]{1,8}\.[a-zA-Z0-9]{1,8}(:[0-9]{1,5})?$/),
  fc.constant('[::1]:5000'),
);
const image = fc
  .record({
    host,
    // A dot in the first component would make it a host.
    first: component.map((text) => text.replaceAll('.', '-')),
    rest: fc.array(component, { maxLength: 3 }),
    tag: fc.option(fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/)),
    digest: fc.option(fc.constantFrom(SHA256, SHA512)),
  })
  .map(
    ({ host: h, first, rest, tag, digest }) =>
      `${h === '' ? '' : `${h}/`}${[first, ...rest].join('/')}${tag === null ? '' : `:${tag}`}${digest === null ? '' : `@${digest}`}`,
  );

describe('properties of the grammar', () => {
  test('any text gives an answer and nothing is thrown', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string(), fc.stringMatching(/^[a-z.:/@[\]A-F0-9_-]*$/)), (text) => {
        const parsed = parseReference(text);
        expect(parsed.ok ? format(parsed.reference) : parsed.problem).not.toBe('');
      }),
      { numRuns: 2000 },
    );
  });

  test('the full form parses to the same reference', () => {
    fc.assert(
      fc.property(image, (text) => {
        const parsed = parseReference(text);
        if (!parsed.ok) throw new Error(`${text}: ${parsed.problem}`);
        expect(parseReference(format(parsed.reference))).toEqual(parsed);
      }),
      { numRuns: 1000 },
    );
  });

  test('a long text is answered in time that grows with its length only', () => {
    const started = performance.now();
    for (const unit of ['a.', 'a-', 'a_', 'a/', '.', '@', '[', 'a__']) parseReference(unit.repeat(100_000));
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

describe('other names of the same repository', () => {
  const source = parseReference('docker.io/library/nginx:1');
  if (!source.ok) throw new Error(source.problem);

  test('by digest the tag is gone, so that the scheduler finds the image', () => {
    expect(withDigest(source.reference, SHA256)).toBe(`docker.io/library/nginx@${SHA256}`);
  });

  test('by another tag', () => {
    expect(withTag(source.reference, '1-esgz')).toEqual({ registry: 'docker.io', repository: 'library/nginx', tag: '1-esgz' });
  });

  test.each([
    ['too long', 't'.repeat(129)],
    ['not a tag', 'a b'],
    ['empty', ''],
  ])('a tag that is %s gives none', (_, tag) => {
    expect(withTag(source.reference, tag)).toBeUndefined();
  });

  test('digests are told from other texts', () => {
    expect(isDigest(SHA256)).toBe(true);
    expect(isDigest('latest')).toBe(false);
  });
});
