import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Pki, type KeyPair } from '../../cluster/pki.js';
import { manifestBody } from '../images/support.js';
import { TestClock, clientOf, closeClients, failure, listed, ref, spokenLog } from './support.js';

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
let directory: string;
let server: Server;
let [first, second]: Pki[] = [];
const certificates = new Map<Pki | undefined, KeyPair>();
// Signing is slow on a busy machine, so each authority does it once.
beforeAll(async () => {
  [first, second] = [await Pki.create('first'), await Pki.create('second')];
  for (const pki of [first, second]) certificates.set(pki, pki.issue({ commonName: 'registry', addresses: ['127.0.0.1'] }));
}, 60_000);
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'authorities-'));
  server = createServer(certificate(first), (_, response) => response.writeHead(200).end(MANIFEST));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await closeClients();
  server.closeAllConnections();
  server.close();
  await rm(directory, { recursive: true });
});

const certificate = (pki: Pki | undefined): Partial<KeyPair> => certificates.get(pki) ?? {};

test('authorities are read again when their file changes, and a bad file leaves the last good one in use', async () => {
  const caFile = join(directory, 'ca.pem');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clock = new TestClock();
  const { log, lines } = spokenLog();
  const client = clientOf({ registries: [listed(host, { plainHTTP: false, caFile })], clock, log });
  const ask = () => client.manifest(ref(`${host}/a:1`));
  const write = async (text: string): Promise<void> => {
    await writeFile(caFile, text);
    clock.advance(10_000);
  };

  await write(second?.caCert ?? '');
  expect((await failure(ask())).message).toMatch(/not trusted .* set caFile/);
  await write(first?.caCert ?? '');
  expect(await ask()).toMatchObject({ kind: 'manifest' });

  // The registry gets a certificate of the other authority; connections of before are not reused.
  server.setSecureContext(certificate(second));
  server.closeAllConnections();
  await write('half a file');
  expect((await failure(ask())).message).toMatch(/not trusted/);
  expect(lines).toEqual([
    expect.objectContaining({ file: caFile, problem: expect.stringContaining('no certificate in PEM form') }),
  ]);
  await write(`${first?.caCert}${second?.caCert}`);
  expect(await ask()).toMatchObject({ kind: 'manifest' });
});

test.each([
  ['is not there', undefined, /ENOENT/],
  ['is empty', '', /no certificate in PEM form/],
  ['is a key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----', /no certificate in PEM form/],
  ['holds a damaged one', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', /certificate 1 of 1 is damaged/],
])('a caFile that %s is an error that names it, and the registry is not asked', async (_, text, problem) => {
  const caFile = join(directory, 'ca.pem');
  if (text !== undefined) await writeFile(caFile, text);
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = clientOf({ registries: [listed(host, { plainHTTP: false, caFile })] });
  const { message } = await failure(client.manifest(ref(`${host}/a:1`)));
  expect(message).toContain(`caFile ${caFile} of registry ${host} cannot be used`);
  expect(message).toMatch(problem);
});
