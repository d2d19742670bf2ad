import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { digestOf, manifestBody } from '../images/support.js';
import { RegistryDouble, clientOf, closeClients, failure, listed, ref } from './support.js';
import type { Handler } from './support.js';

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
const GIB = 1024 ** 3;
const TIMEOUT_MS = 3000;

let double: RegistryDouble;
/** Bytes that the last endless answer got rid of. */
let sent: number;
beforeEach(async () => {
  sent = 0;
  double = await RegistryDouble.start();
});
afterEach(async () => {
  await closeClients();
  await double.stop();
});

/** A body of 1 GiB that is made while it is read. */
const huge =
  (headers: Record<string, string> = {}): Handler =>
  (_, response) => {
    response.writeHead(200, headers);
    const chunk = Buffer.alloc(64 * 1024, 32);
    const more = (): void => {
      while (!response.destroyed && sent < GIB && response.write(chunk)) sent += chunk.length;
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  };
const bomb = gzipSync(Buffer.alloc(256 * 1024 * 1024));
const body =
  (content: string | Buffer, headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    response.writeHead(200, headers).end(content);
const nested = `${'{"a":'.repeat(400_000)}1${'}'.repeat(400_000)}`;

const HOSTILE: [string, Handler][] = [
  ['1 GiB', huge()],
  ['1 GiB, announced', huge({ 'content-length': String(GIB) })],
  ['a gzip bomb of 256 MiB', body(bomb, { 'content-encoding': 'gzip' })],
  ['a page', body('<html>Sign in</html>', { 'content-type': 'text/html' })],
  ['JSON nested 400,000 deep', body(nested)],
  ['three million layers that are none', body(`{"layers":[${'1,'.repeat(1_900_000)}1]}`)],
  ['invalid UTF-8', body(Buffer.alloc(100_000, 0xff))],
  ['other bytes than its digest', body(MANIFEST, { 'docker-content-digest': digestOf('other') })],
  ['half an answer', (_, r) => void r.writeHead(200, { 'content-length': '9999' }).write('{"a":', () => r.destroy())],
  ['nothing, for ever', () => undefined],
  ['one byte now and then', (_, r) => void r.writeHead(200).write('{')],
  ['16 KiB of headers', (_, r) => void r.writeHead(200, { 'x-filler': 'x'.repeat(17_000) }).end(MANIFEST)],
];

describe('an answer of', () => {
  test.each(HOSTILE)('%s takes bounded memory and time, and the next request is unharmed', async (_, handler) => {
    const client = clientOf({ registries: [listed(double.host)], timeoutMs: TIMEOUT_MS });
    const ask = (tag: string) => client.manifest(ref(`${double.host}/a/b:${tag}`));
    const [before, started] = [process.memoryUsage().rss, performance.now()];
    double.handler = handler;
    expect(await failure(ask('bad'))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining(`registry ${double.host}`),
    });
    expect(performance.now() - started).toBeLessThan(TIMEOUT_MS * 2);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    // What was cut off is not sent on: socket buffers are all that is lost.
    expect(sent).toBeLessThan(64 * 1024 * 1024);
    double.handler = body(MANIFEST);
    expect(await ask('good')).toMatchObject({ digest: digestOf(MANIFEST) });
  });

  test.each(HOSTILE.filter(([name]) => !/page|layers|UTF-8|digest|nested|now and then/.test(name)))(
    '%s in the place of referrers does no harm either',
    async (_, handler) => {
      const client = clientOf({ registries: [listed(double.host)], timeoutMs: 1000 });
      double.handler = (request, response, url) =>
        url.pathname.includes('/referrers/') ? handler(request, response, url) : response.writeHead(404).end();
      expect(await failure(client.referrers(ref(`${double.host}/a/b:1`), digestOf('x')))).toMatchObject({
        outcome: 'registry-error',
      });
      double.handler = body(MANIFEST);
      expect(await client.manifest(ref(`${double.host}/a/b:1`))).toMatchObject({ kind: 'manifest' });
    },
  );
});
