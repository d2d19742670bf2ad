import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Descriptor } from '../../../src/images/registry-port.js';
import { ReferrerPusher } from '../../../src/registry/push.js';
import { OCI, OCI_INDEX, digestOf, indexBody, manifestBody } from '../images/support.js';
import { RegistryDouble, closeClients, failure, listed, ref, spokenLog, stackOf } from './support.js';
import type { Handler } from './support.js';

/** What the registries of vendors send, as reported by their users; one exchange after the other. */

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
const DIGEST = digestOf(MANIFEST);
const SUBJECT = digestOf('subject');
const TAG = SUBJECT.replace(':', '-');
const TYPES = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
];

let double: RegistryDouble;
let doubles: RegistryDouble[];
beforeEach(async () => {
  double = await RegistryDouble.start();
  doubles = [double];
});
afterEach(async () => {
  await closeClients();
  await Promise.all(doubles.map((d) => d.stop()));
});

const image = (name = 'a/b:1') => ref(`${double.host}/${name}`);
const stack = (more: Partial<Parameters<typeof stackOf>[0]> = {}) => stackOf({ registries: [listed(double.host)], ...more });
const send =
  (status: number, body: string | Buffer = '', headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body);
const entry = (name: string, more: Partial<Descriptor> = {}): Partial<Descriptor> => ({
  mediaType: OCI,
  digest: digestOf(name),
  size: 10,
  ...more,
});
const index = (...manifests: unknown[]): string => JSON.stringify({ schemaVersion: 2, mediaType: OCI_INDEX, manifests });

/** Chooses the answer by what the path ends with or holds. */
const routes =
  (table: Record<string, Handler>, other: Handler = send(404)): Handler =>
  (request, response, url) =>
    (Object.entries(table).find(([part]) => url.pathname.includes(part))?.[1] ?? other)(request, response, url);

describe('limits', () => {
  test('R-02: a limit in any form is unknown and pauses the whole host, for no longer than minutes', async () => {
    const date = 'Tue, 01 Dec 2026 10:00:00 GMT';
    const forms: [Record<string, string>, number][] = [
      [{}, 15_000],
      [{ 'retry-after': '43' }, 43_000],
      [{ 'retry-after': 'Tue, 01 Dec 2026 10:01:00 GMT', date }, 60_000],
      [{ 'x-retry-after': String(Date.parse(date) / 1000 + 90), date }, 90_000],
      [{ 'retry-after': '86400' }, 300_000],
    ];
    const bodies = ['{"errors":[{"code":"TOOMANYREQUESTS","message":"..."}]}', 'Too Many Requests (HAP429)'];
    for (const [headers, pauseMs] of forms)
      for (const body of bodies) {
        double.handler = send(429, body, headers);
        const { port, clock } = stack();
        expect(await failure(port.manifest(image()))).toMatchObject({ outcome: 'registry-error', status: 429, notFound: false });
        const asked = double.lines.length;
        clock.advance(pauseMs - 1);
        for (const name of ['x:1', 'y:1', 'z:1'])
          expect(await failure(port.manifest(image(name)))).toMatchObject({ outcome: 'circuit-open' });
        expect(double.lines).toHaveLength(asked);
        double.handler = send(200, MANIFEST);
        clock.advance(1);
        expect(await port.manifest(image('w:1'))).toMatchObject({ kind: 'manifest' });
      }
  });

  test('R-12: a limit without a time backs off longer each time, and not in step with other clients', async () => {
    const pauses = async (random: number): Promise<(number | undefined)[]> => {
      double.handler = send(429, '{"errors":[{"code":"TOOMANYREQUESTS","message":"Rate exceeded"}]}');
      const { port, clock } = stack({ random: () => random });
      const found: (number | undefined)[] = [];
      for (let i = 0; i < 3; i += 1) {
        await failure(port.manifest(image(`limited:${i}`)));
        const { retryAfterMs } = await failure(port.manifest(image(`other:${i}`)));
        found.push(retryAfterMs);
        clock.advance(retryAfterMs ?? 0);
      }
      return found;
    };
    expect(await pauses(0)).toEqual([15_000, 30_000, 60_000]);
    expect(await pauses(0.5)).toEqual([16_500, 33_000, 66_000]);
  });

  test('R-16: a quota of a project leaves the images of that registry unknown, and other registries are asked on', async () => {
    const other = await RegistryDouble.start(send(200, MANIFEST));
    doubles.push(other);
    const text = "Quota exceeded for quota metric 'Requests per project per region' of service 'artifactregistry.googleapis.com'";
    double.handler = send(429, JSON.stringify({ errors: [{ code: 'TOOMANYREQUESTS', message: text }] }));
    const { port } = stack({ registries: [listed(double.host), listed(other.host)] });
    expect(await failure(port.manifest(image()))).toMatchObject({ outcome: 'registry-error', notFound: false });
    expect(await failure(port.manifest(image('c/d:1')))).toMatchObject({ outcome: 'circuit-open', notFound: false });
    expect(await port.manifest(ref(`${other.host}/a/b:1`))).toMatchObject({ kind: 'manifest' });
  });
});

describe('negotiation of types', () => {
  test('R-03: all four types are sent with every request, so a digest never depends on what was accepted', async () => {
    const [amd, all] = [MANIFEST, JSON.stringify(indexBody([{ platform: 'linux/amd64', body: manifestBody({ name: 'good' }) }]))];
    double.handler = (request, response) => {
      const accept = request.headers.accept ?? '';
      response.writeHead(200).end(TYPES.every((type) => accept.includes(type)) ? all : amd);
    };
    const { client } = stack();
    expect(await client.manifest(image())).toMatchObject({ kind: 'index', digest: digestOf(all) });
    expect(await client.manifest(image(`a/b@${digestOf(all)}`))).toMatchObject({ kind: 'index' });
    // The double does convert: who accepts less is given another digest.
    const converted = await fetch(`http://${double.host}/v2/a/b/manifests/1`, { headers: { accept: TYPES[3] ?? '' } });
    expect(digestOf(await converted.text())).toBe(digestOf(amd));
  });

  test('R-05: GHCR is asked for indexes too, and where it has no referrers its fallback tag is read', async () => {
    const list = JSON.stringify(indexBody([{ platform: 'linux/amd64', body: manifestBody({ name: 'good' }) }]));
    const found = index(entry('variant'));
    double.handler = (request, response, url) => {
      if (url.pathname.includes('/referrers/')) return send(404)(request, response, url);
      if (url.pathname.endsWith(TAG)) return send(200, found)(request, response, url);
      const ok = request.headers.accept?.includes('image.index') === true;
      const problem = 'OCI index found, but Accept header does not support OCI indexes';
      return ok
        ? send(200, list)(request, response, url)
        : send(404, JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: problem }] }))(request, response, url);
    };
    const { client } = stack();
    expect(await client.manifest(image())).toMatchObject({ kind: 'index' });
    expect(await client.referrers(image(), SUBJECT)).toMatchObject({
      how: 'fallback-tag',
      referrers: [{ digest: digestOf('variant') }],
    });
  });

  test('R-17: Quay says nothing in its header, and the body tells what it is', async () => {
    const typed = JSON.stringify(manifestBody({ name: 'good', mediaType: OCI }));
    double.handler = send(200, typed, { 'content-type': 'application/json' });
    expect(await stack().client.manifest(image())).toMatchObject({ mediaType: OCI, digest: digestOf(typed) });
    expect(TYPES.every((type) => double.requests[0]?.accept?.includes(type))).toBe(true);
  });

  test('R-27: a schema 1 manifest is refused in words, and is not the same as an absent image', async () => {
    const type = 'application/vnd.docker.distribution.manifest.v1+prettyjws';
    double.handler = send(200, '{"schemaVersion":1,"name":"a/b","fsLayers":[]}', { 'content-type': type });
    expect(await failure(stack().client.manifest(image()))).toMatchObject({
      outcome: 'registry-error',
      notFound: false,
      message: expect.stringMatching(/schema 1 manifest, which current container runtimes refuse/),
    });
  });
});

describe('content', () => {
  test('R-11: a redirect to another host loses the header, ends after five hops and stays on https', async () => {
    const bucket = await RegistryDouble.start((request, response) =>
      request.headers.authorization === undefined && request.headers.cookie === undefined
        ? response.writeHead(200).end(MANIFEST)
        : response.writeHead(400).end('Only one auth mechanism allowed'),
    );
    doubles.push(bucket);
    const opened =
      (location: string): Handler =>
      (request, response) =>
        request.headers.authorization === undefined
          ? response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end()
          : response.writeHead(307, { location, 'set-cookie': 'a=b' }).end();
    const registries = [listed(double.host), listed(bucket.host)];
    const { client } = stack({ registries, credential: { username: 'u', password: 'p' } });
    double.handler = opened(`http://${bucket.host}/blob?X-Amz-Signature=abc`);
    expect(await client.manifest(image())).toMatchObject({ digest: DIGEST });
    double.handler = opened('/v2/a/b/manifests/1');
    double.lines.length = 0;
    expect((await failure(client.manifest(image()))).message).toContain('redirects without an end');
    expect(double.lines).toHaveLength(6);
    double.handler = opened('ftp://example.org/blob');
    expect((await failure(client.manifest(image()))).message).toContain('not https');
  });

  test('R-24: a digest that is not sent is that of the exact bytes', async () => {
    const pretty = `${JSON.stringify(manifestBody({ name: 'pretty' }), undefined, 3)}\n`;
    double.handler = send(200, pretty, { 'content-type': 'text/plain' });
    expect(await stack().client.manifest(image())).toMatchObject({ digest: digestOf(pretty) });
    expect(digestOf(JSON.stringify(JSON.parse(pretty)))).not.toBe(digestOf(pretty));
  });

  test('R-26: forged, cut, compressed and endless answers are unknown, and forged ones are told in the log', async () => {
    const bad: [Handler, RegExp][] = [
      [send(200, MANIFEST, { 'docker-content-digest': digestOf('forged') }), /other bytes than/],
      [
        (_, response) => {
          response.writeHead(200, { 'content-length': String(MANIFEST.length) });
          response.write(MANIFEST.slice(0, 20), () => response.destroy());
        },
        /cut its answer short after 20 bytes/,
      ],
      [send(200, Buffer.alloc(4 * 1024 * 1024 + 1, 32)), /more than 4096 KiB/],
    ];
    for (const [handler, message] of bad) {
      const { log, lines } = spokenLog();
      double.handler = handler;
      expect(await failure(stack({ log }).client.manifest(image()))).toMatchObject({
        outcome: 'registry-error',
        notFound: false,
        message: expect.stringMatching(message),
      });
      expect(lines.filter((line) => line['security'] === true)).toHaveLength(message.source.startsWith('other') ? 1 : 0);
    }
    double.handler = (request, response, url) => {
      expect(request.headers['accept-encoding']).toBe('identity');
      send(200, gzipSync(MANIFEST), { 'content-encoding': 'gzip' })(request, response, url);
    };
    expect(await stack().client.manifest(image())).toMatchObject({ digest: DIGEST });
    // Without Content-Length.
    double.handler = (_, response) =>
      void (response.writeHead(200).write(MANIFEST.slice(0, 20)), response.end(MANIFEST.slice(20)));
    expect(await stack().client.manifest(image())).toMatchObject({ digest: DIGEST });
  });

  test('R-31: what a registry warns of is passed on once', async () => {
    const { log, lines } = spokenLog();
    const warning = '299 - "This image is deprecated and will be removed soon."';
    double.handler = send(200, MANIFEST, { warning });
    const { client } = stack({ log });
    for (const tag of ['1', '2', '3']) await client.manifest(image(`a/b:${tag}`));
    double.handler = send(200, MANIFEST, { warning: '199 proxy "something else"' });
    await client.manifest(image());
    expect(lines.filter(({ msg }) => msg === 'a registry warns')).toEqual([
      expect.objectContaining({ registry: double.host, warning: 'This image is deprecated and will be removed soon.' }),
    ]);
  });
});

describe('referrers', () => {
  const subject = { mediaType: OCI, digest: SUBJECT, size: 7, annotations: {} };
  const record = { artifactType: 'application/vnd.example.v1+json', annotations: { a: 'b' }, subject };
  /** A registry that takes everything that is written; `take` answers the manifests. */
  const writable =
    (take: Handler, tag: Handler = send(404)): Handler =>
    (request, response, url) => {
      if (request.method === 'PUT' && url.pathname.includes('/manifests/')) return take(request, response, url);
      if (request.method === 'PUT') return send(201)(request, response, url);
      if (request.method === 'POST') return send(202, '', { location: '/upload/1?state=x' })(request, response, url);
      return url.pathname.includes(TAG) ? tag(request, response, url) : send(404)(request, response, url);
    };

  test('R-13: a repository whose tags may not move is told in words, and nothing is tried again', async () => {
    const refuse = send(400, '{"errors":[{"code":"TAG_INVALID","message":"The image tag already exists and is immutable"}]}');
    double.handler = writable((request, response, url) =>
      (url.pathname.endsWith(TAG) ? refuse : send(201))(request, response, url),
    );
    expect(await failure(new ReferrerPusher(stack().client.session).pushReferrer(image(), record))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringMatching(/does not let a tag of .*a\/b move \(400 TAG_INVALID\).*make the repository mutable/),
    });
    expect(double.lines.filter((line) => line === `PUT /v2/a/b/manifests/${TAG}`)).toHaveLength(1);
  });

  test.each([
    ['reading', 'GET', undefined, /denied access \(401\) without a credential/],
    [
      'reading',
      'GET',
      'no usable login',
      /denied access \(401\) without a credential, because there is none to use: no usable login/,
    ],
    ['writing', 'POST', 'no usable login', /denied writing to .*a\/b \(401\) without a credential, because .*: no usable login/],
    ['writing', 'PUT', 'no usable login', /denied writing to .*a\/b \(401\) without a credential, because .*: no usable login/],
  ])('%s (%s) that is denied says what was wrong with the login', async (_, method, problem, message) => {
    const open = writable(send(201, '', { 'oci-subject': SUBJECT }));
    double.handler = (request, response, url) => (request.method === method ? send(401) : open)(request, response, url);
    const own = { get: () => Promise.resolve(problem === undefined ? {} : { problem }) };
    const pusher = new ReferrerPusher(stack({ own }).client.session);
    expect(await failure(pusher.pushReferrer(image(), record))).toMatchObject({
      outcome: 'auth-denied',
      message: expect.stringMatching(message),
    });
    const withLogin = new ReferrerPusher(stack({ credential: { username: 'u', password: 'p' } }).client.session);
    const may = method === 'GET' ? 'read' : 'push to';
    expect((await failure(withLogin.pushReferrer(image(), record))).message).toContain(`valid and may ${may} this repository`);
    double.handler = open;
    expect(await withLogin.pushReferrer(image(), record)).toMatchObject({ how: 'api' });
  });

  test('R-18: Quay answers 400 for referrers, which it therefore has not, while 429 is still a limit', async () => {
    double.handler = routes({ '/referrers/': send(400) });
    const { client, clock } = stack();
    expect(await client.referrers(image(), SUBJECT)).toMatchObject({ how: 'unsupported', referrers: [] });
    await client.referrers(image('a/other:1'), digestOf('second'));
    const asked = (): number => double.lines.filter((line) => line.includes('/referrers/')).length;
    expect(asked()).toBe(1);
    clock.advance(5 * 60_000 + 1);
    await client.referrers(image(), SUBJECT);
    expect(asked()).toBe(2);
    clock.advance(5 * 60_000 + 1);
    double.handler = routes({ '/referrers/': send(429) });
    expect(await failure(client.referrers(image(), SUBJECT))).toMatchObject({ status: 429, notFound: false });
    double.handler = writable(send(400, '{"errors":[{"code":"MANIFEST_INVALID"}]}'));
    expect(await failure(new ReferrerPusher(client.session).pushReferrer(image(), record))).toMatchObject({
      message: expect.stringContaining('(400 MANIFEST_INVALID); it may not take artifacts'),
    });
  });

  test('R-29: what is pushed is listed by the registry or under the tag, and read from both without counting twice', async () => {
    const pusher = new ReferrerPusher(stack().client.session);
    double.handler = writable(send(201, '', { 'oci-subject': SUBJECT }));
    expect(await pusher.pushReferrer(image(), record)).toMatchObject({ how: 'api' });
    expect(double.lines.some((line) => line.includes(TAG))).toBe(false);

    let tagged = index(entry('by somebody else'));
    double.handler = writable(
      (request, response, url) => {
        if (!url.pathname.endsWith(TAG)) return send(201)(request, response, url);
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        return request.on('end', () => {
          tagged = Buffer.concat(chunks).toString();
          send(201)(request, response, url);
        });
      },
      (...args) => send(200, tagged)(...args),
    );
    const { digest, how } = await pusher.pushReferrer(image(), record);
    expect(how).toBe('fallback-tag');
    await pusher.pushReferrer(image(), record);
    const digests = (JSON.parse(tagged) as { manifests: { digest: string }[] }).manifests.map((m) => m.digest);
    expect(digests).toEqual([digestOf('by somebody else'), digest]);

    double.handler = routes({
      '/referrers/': send(200, index(entry('new'), { ...entry('both'), artifactType: 'x/y' })),
      [TAG]: send(200, index(entry('old'), entry('both'))),
    });
    const found = await stack().client.referrers(image(), SUBJECT);
    expect(found.how).toBe('api');
    expect(found.referrers.map((r) => r.digest)).toEqual([digestOf('new'), digestOf('both'), digestOf('old')]);
    expect(found.referrers[1]).toMatchObject({ artifactType: 'x/y' });
  });
});
