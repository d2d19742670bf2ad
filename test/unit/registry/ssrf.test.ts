import { createServer } from 'node:net';
import type { AddressInfo, Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parseReference } from '../../../src/images/reference.js';
import { guardedLookup, trustOf } from '../../../src/registry/egress.js';
import { manifestBody } from '../images/support.js';
import { RegistryDouble, closeClients, failure, listed, ref, stackOf } from './support.js';
import type { Handler } from './support.js';

/**
 * Places that no tenant and no registry may make Harbinger connect to. A listening socket counts connections: a refusal that comes after
 * the connection would be none.
 */

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
let trap: Server;
let connections: number;
let port: number;
let double: RegistryDouble;
beforeEach(async () => {
  connections = 0;
  trap = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined).end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
  });
  // Of both families, so that no spelling of loopback goes unseen.
  await new Promise<void>((resolve) => trap.listen(0, '::', resolve));
  port = (trap.address() as AddressInfo).port;
  double = await RegistryDouble.start();
});
afterEach(async () => {
  await closeClients();
  trap.close();
  await double.stop();
});

const FORBIDDEN = [
  '169.254.169.254',
  '[::ffff:169.254.169.254]',
  '[::ffff:a9fe:a9fe]',
  '[::ffff:127.0.0.1]',
  '[::1]',
  '[::]',
  '0.0.0.0',
  '127.0.0.1',
  '127.1',
  '0x7f.1',
  '0177.0.0.1',
  '2130706433',
  '2852039166',
  'localhost',
  '[fd00:ec2::254]',
  '100.100.100.200',
  '168.63.129.16',
  '10.0.0.1',
  '192.168.0.1',
  '[64:ff9b::7f00:1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::a9fe:a9fe]',
  '[64:ff9b:1:a9fe:a9:fe00::]',
  '[::ffff:0:a9fe:a9fe]',
  '[::ffff:0:127.0.0.1]',
  '[::a9fe:a9fe]',
  '[::127.0.0.1]',
  '[fd20:ce::254]',
];
const NAMES: [string, string][] = [
  ['metadata.google.internal', '169.254.169.254'],
  ['instance-data.ec2.internal', '169.254.169.254'],
  ['loop.example.com', '127.0.0.1'],
  ['loop6.example.com', '::1'],
  ['mapped.example.com', '::ffff:127.0.0.1'],
  ['inside.example.com', '10.0.0.7'],
  ['link.example.com', 'fe80::1'],
  ['zero.example.com', '0.0.0.0'],
  ['local-nat64.example.com', '64:ff9b:1::a9fe:a9fe'],
  ['translated.example.com', '::ffff:0:a9fe:a9fe'],
  ['compatible.example.com', '::169.254.169.254'],
  ['google6.example.com', 'fd20:ce::254'],
];
const resolve = (name: string): Promise<string[]> => {
  const address = name === 'localhost' ? '127.0.0.1' : NAMES.find(([known]) => known === name)?.[1];
  return address === undefined
    ? Promise.reject(Object.assign(new Error('none'), { code: 'ENOTFOUND' }))
    : Promise.resolve([address]);
};
const send =
  (status: number, headers: Record<string, string> = {}, body = ''): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body);

describe('an image of a tenant', () => {
  test.each([...FORBIDDEN, ...NAMES.map(([name]) => name)])('at %s is not looked up with default settings', async (host) => {
    const { port: registries } = stackOf({ registries: [listed('docker.io')], resolve });
    const parsed = parseReference(`${host}:${port}/a/b:1`);
    if (!parsed.ok) return expect(parsed.problem).not.toBe('');
    // `127.1:5000` and the like are hosts; what is none belongs to Docker Hub, which is at no forbidden place.
    expect(await failure(registries.manifest(parsed.reference))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringMatching(/is not listed in the configuration of Harbinger|has no address/),
    });
    expect(connections).toBe(0);
  });
});

describe('a listed registry', () => {
  test.each(NAMES.filter(([, address]) => !address.startsWith('10.')))('%s that is at %s is not asked', async (name, address) => {
    const host = `${name}:${port}`;
    const { port: registries } = stackOf({ registries: [listed(host)], resolve });
    expect(await failure(registries.manifest(ref(`${host}/a:1`)))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining(`${name} is at ${address}, a `),
    });
    expect(connections).toBe(0);
  });

  test('whose name is public first and loopback later is refused the second time', async () => {
    const found = [['8.8.8.8'], ['127.0.0.1'], ['8.8.8.8', '169.254.169.254']];
    const lookup = guardedLookup(trustOf(listed('rebind.example.com')), () => Promise.resolve(found.shift() ?? []));
    const ask = (): Promise<unknown> =>
      new Promise((done) => lookup('rebind.example.com', {}, (error, address) => done(error?.message ?? address)));
    // The socket is given exactly the address that was checked; each new connection is checked anew.
    expect(await ask()).toBe('8.8.8.8');
    expect(await ask()).toContain('is at 127.0.0.1, a loopback address');
    expect(await ask()).toContain('is at 169.254.169.254, a link-local address');
  });
});

describe('a registry that names other places', () => {
  const places = (): string[] => [...FORBIDDEN, ...NAMES.map(([name]) => name)].map((host) => `http://${host}:${port}/x`);
  const ask = () => stackOf({ registries: [listed(double.host)], resolve, credential: { username: 'u', password: 'p' } }).client;

  test('is not followed by redirect', async () => {
    for (const location of places()) {
      double.handler = send(307, { location });
      expect(await failure(ask().manifest(ref(`${double.host}/a:1`)))).toMatchObject({ outcome: 'registry-error', status: 307 });
    }
    expect(connections).toBe(0);
  });

  test('is not followed to its token service', async () => {
    for (const realm of [...places(), 'file:///etc/passwd', `https://evil.example.org:${port}/t`]) {
      double.handler = send(401, { 'www-authenticate': `Bearer realm="${realm}",service="s"` });
      expect(await failure(ask().manifest(ref(`${double.host}/a:1`)))).toMatchObject({ outcome: 'registry-error', status: 401 });
    }
    expect(connections).toBe(0);
  });

  test('cuts off nobody else by that', async () => {
    const { port: registries } = stackOf({ registries: [listed(double.host)], resolve });
    double.handler = (request, response, url) =>
      url.pathname.includes('/evil/')
        ? send(307, { location: 'http://169.254.169.254/' })(request, response, url)
        : send(200, {}, MANIFEST)(request, response, url);
    for (let i = 0; i < 10; i += 1) await failure(registries.manifest(ref(`${double.host}/evil/a:${i}`)));
    expect(await registries.manifest(ref(`${double.host}/good:1`))).toMatchObject({ kind: 'manifest' });
  });
});

test('the trap does see whoever connects', async () => {
  const host = `127.0.0.1:${port}`;
  await failure(stackOf({ registries: [listed(host)] }).client.manifest(ref(`${host}/a:1`)));
  expect(connections).toBe(1);
});
