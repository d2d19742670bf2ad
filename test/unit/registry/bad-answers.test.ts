import { createHash } from 'node:crypto';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { manifestBody } from '../images/support.js';
import { RegistryDouble, clientOf, closeClients, failure, listed, ref } from './support.js';
import type { Handler } from './support.js';

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
const DIGEST = `sha256:${createHash('sha256').update(MANIFEST).digest('hex')}`;
const TYPE = { 'content-type': 'application/vnd.oci.image.manifest.v1+json' };

let double: RegistryDouble;
beforeEach(async () => {
  double = await RegistryDouble.start();
});
afterEach(async () => {
  await closeClients();
  await double.stop();
});

const answer =
  (status: number, headers: Record<string, string> = {}, body: string | Buffer = ''): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body);

async function ask(tag = ':1', timeoutMs = 2000) {
  const client = clientOf({ registries: [listed(double.host)], timeoutMs });
  return client.manifest(ref(`${double.host}/a/b${tag}`));
}

describe('a good answer', () => {
  test.each([
    ['with its digest', answer(200, { ...TYPE, 'docker-content-digest': DIGEST }, MANIFEST)],
    ['without its digest', answer(200, TYPE, MANIFEST)],
    ['with a digest that is none', answer(200, { ...TYPE, 'docker-content-digest': 'sha256:x' }, MANIFEST)],
    ['without a content type', answer(200, {}, MANIFEST)],
    ['with a generic content type', answer(200, { 'content-type': 'application/json' }, MANIFEST)],
    ['that is compressed though it was not asked for', answer(200, { ...TYPE, 'content-encoding': 'gzip' }, gzipSync(MANIFEST))],
  ])('%s is read', async (_, handler) => {
    double.handler = handler;
    expect(await ask()).toMatchObject({ digest: DIGEST, kind: 'manifest' });
    expect(await ask(`:1@${DIGEST}`)).toMatchObject({ digest: DIGEST });
  });

  test('all four media types are asked for, as a registry that lacks one converts the manifest', async () => {
    double.handler = answer(200, TYPE, MANIFEST);
    await ask();
    expect(double.requests).toEqual([
      {
        path: '/v2/a/b/manifests/1',
        authorization: undefined,
        accept: expect.stringMatching(/oci.image.index.*oci.image.manifest.*manifest.list.v2.*manifest.v2/),
      },
    ]);
  });

  test('of sha512 is verified with sha512', async () => {
    double.handler = answer(200, TYPE, MANIFEST);
    const digest = `sha512:${createHash('sha512').update(MANIFEST).digest('hex')}`;
    expect(await ask(`@${digest}`)).toMatchObject({ digest });
    expect(await failure(ask(`@sha512:${'0'.repeat(128)}`))).toMatchObject({ outcome: 'registry-error' });
  });
});

const hang: Handler = () => undefined;
const hangInBody: Handler = (_, response) => response.writeHead(200, TYPE).write(MANIFEST.slice(0, 40));
const cut: Handler = (_, response) => {
  response.writeHead(200, { ...TYPE, 'content-length': String(MANIFEST.length) });
  response.write(MANIFEST.slice(0, 40), () => response.destroy());
};
const cutBefore: Handler = (request) => request.socket.destroy();
const endless: Handler = (_, response) => {
  response.writeHead(200, TYPE);
  const more = (): void => {
    while (!response.destroyed && response.write(Buffer.alloc(256 * 1024, 32)));
    if (!response.destroyed) response.once('drain', more);
  };
  more();
};

describe('a bad answer has an outcome and a message that names the host', () => {
  test.each<[string, Handler, { outcome: string; status?: number }, RegExp]>([
    [
      '404',
      answer(404, {}, '{"errors":[{"code":"MANIFEST_UNKNOWN"}]}'),
      { outcome: 'variant-missing', status: 404 },
      /has no 127.*a\/b:1; check/,
    ],
    [
      '401 without a challenge',
      answer(401),
      { outcome: 'auth-denied', status: 401 },
      /denied access \(401\) without a credential/,
    ],
    ['403', answer(403), { outcome: 'auth-denied', status: 403 }, /denied access \(403\)/],
    [
      '429 without a time',
      answer(429, {}, 'Too Many Requests'),
      { outcome: 'registry-error', status: 429 },
      /limits requests \(429\); a credential or a mirror/,
    ],
    [
      '429 with seconds',
      answer(429, { 'retry-after': '43' }),
      { outcome: 'registry-error', status: 429 },
      /asks to be left alone for 43 s/,
    ],
    ['500', answer(500), { outcome: 'registry-error', status: 500 }, /answered 500; see its own logs/],
    ['503', answer(503), { outcome: 'registry-error', status: 503 }, /answered 503/],
    ['406', answer(406), { outcome: 'registry-error', status: 406 }, /answered 406; check that host and port/],
    ['204', answer(204), { outcome: 'registry-error', status: 204 }, /answered 204/],
    ['an empty body', answer(200, TYPE), { outcome: 'registry-error', status: 200 }, /not a JSON object/],
    [
      'garbage',
      answer(200, TYPE, Buffer.from([0, 255, 1, 254])),
      { outcome: 'registry-error', status: 200 },
      /not a JSON object/,
    ],
    [
      'a web page',
      answer(200, { 'content-type': 'text/html' }, '<html>Sign in</html>'),
      { outcome: 'registry-error', status: 200 },
      /web page/,
    ],
    ['a schema 1 manifest', answer(200, {}, '{"schemaVersion":1}'), { outcome: 'registry-error', status: 200 }, /schema 1/],
    [
      'other bytes than its digest header says',
      answer(200, { ...TYPE, 'docker-content-digest': `sha256:${'0'.repeat(64)}` }, MANIFEST),
      { outcome: 'registry-error', status: 200 },
      /other bytes than sha256:0000/,
    ],
    ['a body cut short', cut, { outcome: 'registry-error' }, /cut its answer short after 40 bytes/],
    ['a closed connection', cutBefore, { outcome: 'registry-error' }, /closed the connection without an answer/],
    [
      'more than 4 MiB, declared',
      answer(200, TYPE, Buffer.alloc(4 * 1024 * 1024 + 1, 32)),
      { outcome: 'registry-error', status: 200 },
      /more than 4096 KiB/,
    ],
    ['an endless body', endless, { outcome: 'registry-error', status: 200 }, /more than 4096 KiB/],
    [
      'a gzip bomb',
      answer(200, { ...TYPE, 'content-encoding': 'gzip' }, gzipSync(Buffer.alloc(64 * 1024 * 1024))),
      { outcome: 'registry-error', status: 200 },
      /more than 4096 KiB/,
    ],
    [
      'broken gzip',
      answer(200, { ...TYPE, 'content-encoding': 'gzip' }, 'nonsense'),
      { outcome: 'registry-error', status: 200 },
      /broken gzip/,
    ],
    [
      'an unknown encoding',
      answer(200, { ...TYPE, 'content-encoding': 'br' }, 'x'),
      { outcome: 'registry-error', status: 200 },
      /encoding "br"/,
    ],
    [
      'a redirect in a circle',
      (_, r) => r.writeHead(307, { location: '/v2/a/b/manifests/1' }).end(),
      { outcome: 'registry-error', status: 307 },
      /redirects without an end/,
    ],
    [
      'a redirect to nowhere',
      (_, r) => r.writeHead(307, { location: 'http://[' }).end(),
      { outcome: 'registry-error', status: 307 },
      /redirects without an end/,
    ],
  ])('%s', async (_, handler, expected, message) => {
    double.handler = handler;
    const error = await failure(ask());
    expect(error).toMatchObject({ status: undefined, ...expected, message: expect.stringMatching(message) });
    expect(error.message).toContain(`registry ${double.host}`);
    // The next request is unharmed.
    double.handler = answer(200, TYPE, MANIFEST);
    expect(await ask()).toMatchObject({ digest: DIGEST });
  });

  test('other bytes than the digest that was asked for', async () => {
    double.handler = answer(200, TYPE, MANIFEST);
    expect(await failure(ask(`@sha256:${'1'.repeat(64)}`))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining('other bytes than sha256:1111'),
    });
  });

  test.each([
    ['no answer', hang],
    ['a body that never ends', hangInBody],
  ])('%s within the time of one exchange', async (_, handler) => {
    double.handler = handler;
    expect(await failure(ask(':1', 150))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining('did not answer within 0.2 s'),
    });
  });

  test('a caller that gives up ends as budget-exceeded', async () => {
    double.handler = hang;
    const client = clientOf({ registries: [listed(double.host)] });
    const asked = failure(client.manifest(ref(`${double.host}/a/b:1`), { signal: AbortSignal.timeout(50) }));
    expect(await asked).toMatchObject({ outcome: 'budget-exceeded' });
  });

  test('nobody listens', async () => {
    const { host } = double;
    await double.stop();
    const client = clientOf({ registries: [listed(host)] });
    expect(await failure(client.manifest(ref(`${host}/a:1`)))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringMatching(/cannot be reached \(ECONNREFUSED\)/),
    });
    double = await RegistryDouble.start();
  });

  test('the name has no address', async () => {
    const resolve = (): Promise<string[]> => Promise.reject(Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' }));
    const client = clientOf({ registries: [listed('r.example.com')], resolve });
    expect(await failure(client.manifest(ref('r.example.com/a:1')))).toMatchObject({
      message: expect.stringContaining('its name has no address'),
    });
  });

  test('a registry without TLS is asked with TLS', async () => {
    const client = clientOf({ registries: [listed(double.host, { plainHTTP: false })] });
    expect(await failure(client.manifest(ref(`${double.host}/a:1`)))).toMatchObject({
      message: expect.stringContaining('set plainHTTP: true'),
    });
  });

  test('something that speaks no HTTP', async () => {
    const server = createServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-OpenSSH_9.9\r\n'));
    try {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const client = clientOf({ registries: [listed(host)] });
      expect(await failure(client.manifest(ref(`${host}/a:1`)))).toMatchObject({
        message: expect.stringContaining('does not speak HTTP'),
      });
    } finally {
      server.close();
    }
  });

  test('a caFile that is not there', async () => {
    const client = clientOf({ registries: [listed(double.host, { plainHTTP: false, caFile: '/no/such/ca.pem' })] });
    expect(await failure(client.manifest(ref(`${double.host}/a:1`)))).toMatchObject({
      message: expect.stringContaining('caFile /no/such/ca.pem'),
    });
  });
});
