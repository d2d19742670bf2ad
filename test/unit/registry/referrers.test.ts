import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { fallbackTag } from '../../../src/images/referrers.js';
import { nextLink } from '../../../src/registry/link.js';
import { OCI, OCI_INDEX, digestOf, manifestBody } from '../images/support.js';
import { RegistryDouble, closeClients, failure, listed, ref, stackOf } from './support.js';
import type { Handler, Stack } from './support.js';

const SUBJECT = digestOf('subject');
let double: RegistryDouble;
beforeEach(async () => {
  double = await RegistryDouble.start();
});
afterEach(async () => {
  await closeClients();
  await double.stop();
});

const entry = (name: string): object => ({ mediaType: OCI, digest: digestOf(name), size: 1, artifactType: 'a/b' });
const index = (...names: string[]): string =>
  JSON.stringify({ schemaVersion: 2, mediaType: OCI_INDEX, manifests: names.map(entry) });
const send =
  (status: number, body = '', headers: Record<string, string | string[]> = {}): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body);
/** Different answers for the API and for the tag. */
const answers =
  (api: Handler, tag: Handler = send(404)): Handler =>
  (request, response, url) =>
    (url.pathname.includes('/manifests/') ? tag : api)(request, response, url);
const stack = (timeoutMs = 5000): Stack => stackOf({ registries: [listed(double.host)], timeoutMs });
const read = ({ port }: Stack = stack(), digest = SUBJECT) => port.referrers(ref(`${double.host}/a/b:1`), digest);
const names = (found: { referrers: readonly { digest: string }[] }, ...expected: string[]): void =>
  expect(found.referrers.map(({ digest }) => digest)).toEqual(expected.map(digestOf));

describe('the API', () => {
  test('lists none, which is not the same as being unsupported', async () => {
    double.handler = answers(send(200, index()));
    expect(await read()).toMatchObject({ how: 'api', referrers: [], detail: expect.stringContaining('lists 0 referrers') });
  });

  test.each([
    ['a path', (next: string) => `<${next}>; rel="next"`],
    ['a whole URL', (next: string) => `<http://${double.host}${next}>; rel="next"`],
    ['a relation without quotes', (next: string) => `<${next}>;rel=next`],
    ['followed by other parameters', (next: string) => `<${next}>; title="x, y; rel=prev"; rel="next"`],
    ['one of several', (next: string) => `</v2/first>; rel="first", <${next}>; REL="last Next"`],
    ['in a header of its own', (next: string) => ['</v2/first>; rel="first"', `<${next}>; rel="next"`]],
  ] as [string, (next: string) => string | string[]][])('is read page by page where the link is %s', async (_, link) => {
    double.handler = answers((request, response, url) => {
      const page = Number(url.searchParams.get('page') ?? '1');
      const next: Record<string, string | string[]> =
        page < 3 ? { link: link(`/v2/a/b/referrers/${SUBJECT}?page=${page + 1}`) } : {};
      send(200, index(`page ${page}`), next)(request, response, url);
    });
    names(await read(), 'page 1', 'page 2', 'page 3');
  });

  test('whose pages never end is left after a bound, and the answer says so', async () => {
    let page = 0;
    double.handler = answers((request, response, url) => {
      page += 1;
      send(200, index(`page ${page}`), { link: `</v2/a/b/referrers/${SUBJECT}?page=${page}>; rel="next"` })(
        request,
        response,
        url,
      );
    });
    const found = await read();
    expect(found.referrers).toHaveLength(20);
    expect(found.detail).toContain('there are more');
  });

  test('whose list is endless is cut', async () => {
    double.handler = answers(
      send(200, index(...Array.from({ length: 5000 }, (_, i) => `${i}`)), { link: '</v2/x>; rel="next"' }),
    );
    expect((await read()).referrers).toHaveLength(2000);
    expect(double.lines).toHaveLength(2);
  });

  test.each(['http://169.254.169.254/v2/x', 'http://127.0.0.1:1/v2/x', '/elsewhere', 'ftp://x/v2/', 'http://['])(
    'does not lead to %s',
    async (target) => {
      double.handler = answers(send(200, index('one'), { link: `<${target}>; rel="next"` }));
      names(await read(), 'one');
      expect(double.lines).toHaveLength(2);
    },
  );

  test.each([
    ['opening brackets', '<'.repeat(8192)],
    ['links that lead nowhere', '<>;'.repeat(2700)],
    ['quotes', `<a>;${'"\\'.repeat(4000)}`],
    ['more than is read', `${'<a>;rel=x,'.repeat(900)}<b>;rel=next`],
    ['another relation, the first of two', '<a>; rel=prev; rel=next'],
    ['a quoted text that looks like one', '<a>; title="; rel=next"'],
  ])('is not held up by a link of %s', (_, header) => {
    const started = performance.now();
    for (let i = 0; i < 5; i += 1) expect(nextLink([header])).toBeUndefined();
    // A search with a pattern took 200 ms for a single one of the first kind.
    expect(performance.now() - started).toBeLessThan(200);
    expect(nextLink([header, '<c>; rel=next'])).toBe('c');
  });

  test('that redirects is followed', async () => {
    double.handler = (request, response, url) =>
      url.pathname.startsWith('/else')
        ? send(200, index('one'))(request, response, url)
        : answers(send(307, '', { location: '/else/where' }))(request, response, url);
    names(await read(), 'one');
  });

  test('entries that name nothing usable are left out', async () => {
    const manifests = [entry('good'), null, 5, { digest: 'sha256:x' }, { digest: digestOf('no size') }, { size: 5 }];
    double.handler = answers(send(200, JSON.stringify({ manifests })));
    names(await read(), 'good');
  });
});

describe('a registry without it', () => {
  test.each([
    ['406, as Artifactory', send(406)],
    ['400, as Quay', send(400)],
    ['405', send(405)],
    ['501', send(501)],
    ['a code of its own', send(418)],
    ['a page', send(200, '<html>')],
    ['something else', send(200, JSON.stringify(manifestBody({ name: 'x' })))],
  ])('that answers %s has its fallback tag read, and is not asked again for minutes', async (_, api) => {
    double.handler = answers(api, send(200, index('tagged')));
    const parts = stack();
    const found = await read(parts);
    names(found, 'tagged');
    expect(found.how).toBe('fallback-tag');
    double.handler = answers(api);
    expect(await read(parts, digestOf('other'))).toMatchObject({ how: 'unsupported', referrers: [] });
    const asked = (): number => double.lines.filter((line) => line.includes('/referrers/')).length;
    expect(asked()).toBe(1);
    parts.clock.advance(300_001);
    await read(parts, digestOf('third'));
    expect(asked()).toBe(2);
  });

  test('that answers 404 is asked again for the next image, as the repository may be what is absent', async () => {
    double.handler = send(404);
    const parts = stack();
    expect(await read(parts)).toMatchObject({ how: 'unsupported', detail: expect.stringContaining('answers 404') });
    double.handler = answers(send(200, index('one')));
    names(await read(parts, digestOf('other')), 'one');
  });

  test.each([
    ['the subject itself, as GitLab', () => JSON.stringify({ mediaType: OCI_INDEX, manifests: [entry('platform')] }), true],
    ['an image', () => JSON.stringify(manifestBody({ name: 'x' })), false],
    [
      'a Docker list',
      () => JSON.stringify({ mediaType: 'application/vnd.docker.distribution.manifest.list.v2+json', manifests: [] }),
      false,
    ],
    ['garbage', () => 'nonsense', false],
  ])('has no referrers where its tag leads to %s', async (_, body, same) => {
    double.handler = answers(send(404), send(200, body()));
    expect(await read(stack(), same ? digestOf(body()) : SUBJECT)).toMatchObject({ how: 'unsupported', referrers: [] });
  });

  test('is asked for the tag of the specification', () => {
    expect(fallbackTag(`sha256:${'a'.repeat(64)}`)).toBe(`sha256-${'a'.repeat(64)}`);
    expect(fallbackTag(`sha512:${'b'.repeat(128)}`)).toBe(`sha512-${'b'.repeat(64)}`);
  });
});

describe('a registry that fails is unknown, not without referrers', () => {
  test.each([
    ['401', send(401), 'auth-denied'],
    ['403', send(403), 'auth-denied'],
    ['429', send(429), 'registry-error'],
    ['500', send(500), 'registry-error'],
    ['503', send(503), 'registry-error'],
    ['no answer', () => undefined, 'registry-error'],
    ['a closed connection', (request) => request.socket.destroy(), 'registry-error'],
  ] as [string, Handler, string][])('%s', async (name, api, outcome) => {
    const timeoutMs = name === 'no answer' ? 1000 : 5000;
    double.handler = answers(api, send(200, index('tagged')));
    expect(await failure(read(stack(timeoutMs)))).toMatchObject({ outcome, notFound: false });
    // The twin: where the API answers, a tag that fails takes nothing away.
    double.handler = answers(send(200, index('one')), api);
    names(await read(stack(timeoutMs)), 'one');
  });
});
