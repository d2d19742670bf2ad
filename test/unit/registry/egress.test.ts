import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { classify } from '../../../src/registry/addresses.js';
import { Egress, apiUrl, guardedLookup, trustOf } from '../../../src/registry/egress.js';
import { manifestBody } from '../images/support.js';
import { RegistryDouble, clientOf, closeClients, failure, listed, ref } from './support.js';

describe('addresses', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['2606:4700::1111', 'public'],
    ['10.1.2.3', 'private'],
    ['172.16.0.1', 'private'],
    ['172.32.0.1', 'public'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['fd12::1', 'private'],
    ['127.0.0.1', 'loopback'],
    ['127.255.0.9', 'loopback'],
    ['::1', 'loopback'],
    ['169.254.169.254', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['fd00:ec2::254', 'link-local'],
    ['100.100.100.200', 'link-local'],
    ['168.63.129.16', 'link-local'],
    ['0.0.0.0', 'reserved'],
    ['224.0.0.1', 'reserved'],
    ['255.255.255.255', 'reserved'],
    ['::', 'reserved'],
    ['ff02::1', 'reserved'],
    ['2002:7f00:1::', 'reserved'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['0:0:0:0:0:ffff:a9fe:a9fe', 'link-local'],
    ['64:ff9b::7f00:1', 'loopback'],
    ['64:ff9b::8.8.8.8', 'public'],
    ['64:ff9b::a9fe:a9fe', 'link-local'],
    ['64:ff9b:1::8.8.8.8', 'public'],
    ['64:ff9b:1::a9fe:a9fe', 'link-local'],
    ['64:ff9b:1:808:8:800::', 'reserved'],
    ['::ffff:0:a9fe:a9fe', 'link-local'],
    ['::ffff:0:8.8.8.8', 'public'],
    ['::a9fe:a9fe', 'link-local'],
    ['::127.0.0.1', 'loopback'],
    ['::2', 'reserved'],
    ['::ffff', 'reserved'],
    ['1::2', 'public'],
    ['fd20:ce::254', 'link-local'],
    ['fd20:ce::253', 'private'],
    ['not an address', 'reserved'],
    ['', 'reserved'],
  ])('%s is %s', (address, expected) => {
    expect(classify(address)).toBe(expected);
  });
});

describe('which registries are asked', () => {
  const egress = new Egress([listed('r.example.com'), listed('no.example.com', { allow: false })]);

  test('those that are listed', () => {
    expect(egress.registry('r.example.com').host).toBe('r.example.com');
    expect(egress.registry('R.Example.com').host).toBe('r.example.com');
  });

  test.each([
    ['one that is not listed', 'other.example.com', 'is not listed'],
    ['one that is switched off', 'no.example.com', 'allow: false'],
    ['another port of one that is listed', 'r.example.com:5000', 'is not listed'],
    ['the metadata service', '169.254.169.254', 'is not listed'],
  ])('not %s', (_, host, message) => {
    expect(() => egress.registry(host)).toThrow(message);
  });

  test('Docker Hub is asked where its API is', () => {
    expect(apiUrl(listed('docker.io', { plainHTTP: false })).href).toBe('https://registry-1.docker.io/');
  });
});

describe('hosts that a registry names', () => {
  const registry = listed('registry.example.com', { plainHTTP: false });
  const hub = listed('docker.io', { plainHTTP: false });
  const egress = new Egress([
    registry,
    hub,
    listed('auth.other.org', { plainHTTP: false }),
    listed('off.example.com', { allow: false }),
  ]);

  test.each([
    ['itself', registry, 'https://registry.example.com/token', true],
    ['a sibling', registry, 'https://auth.example.com/token', true],
    ['the token service of Docker Hub', hub, 'https://auth.docker.io/token', true],
    ['one that is listed', registry, 'https://auth.other.org/token', true],
    ['a stranger', registry, 'https://example.org/token', false],
    ['a name that only ends alike', registry, 'https://evil-example.com/token', false],
    ['one that is switched off', registry, 'https://off.example.com/token', false],
    ['an address', registry, 'https://203.0.113.5/token', false],
    ['another name below co.uk', listed('r.example.co.uk', { plainHTTP: false }), 'https://evil.co.uk/token', false],
    ['without TLS', registry, 'http://auth.example.com/token', false],
  ])('%s as token realm', (_, from, url, allowed) => {
    const ask = () => egress.destination(new URL(url), from, 'token realm');
    if (allowed) expect(ask().classes.has('public')).toBe(true);
    else expect(ask).toThrow(/as token realm/);
  });

  test('a redirect may lead to any public host and to no other', () => {
    expect([...egress.destination(new URL('https://cdn.example.net/blob'), registry, 'redirect').classes]).toEqual(['public']);
  });
});

describe('addresses that a host may have', () => {
  test.each([
    ['a listed host', listed('r.example.com'), ['public', 'private']],
    [
      'a listed host that may be local',
      listed('r.example.com', { allowLocalAddresses: true }),
      ['public', 'private', 'loopback', 'link-local'],
    ],
    ['localhost', listed('localhost:5000'), ['public', 'private', 'loopback']],
    ['a loopback address', listed('127.0.0.1:5000'), ['public', 'private', 'loopback']],
    ['an IPv6 loopback address', listed('[::1]:5000'), ['public', 'private', 'loopback']],
  ])('%s', (_, registry, expected) => {
    expect([...trustOf(registry).classes]).toEqual(expected);
  });
});

describe('a connection', () => {
  const body = JSON.stringify(manifestBody({ name: 'good' }));
  let double: RegistryDouble;
  beforeEach(async () => {
    double = await RegistryDouble.start((_, response) => response.writeHead(200).end(body));
  });
  afterEach(async () => {
    await closeClients();
    await double.stop();
  });
  const named = (): string => `r.example.com:${double.host.split(':')[1]}`;

  test('is refused where the name of a listed host leads to loopback', async () => {
    const client = clientOf({ registries: [listed(named())], resolve: () => Promise.resolve(['127.0.0.1']) });
    expect(await failure(client.manifest(ref(`${named()}/a:1`)))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringContaining('r.example.com is at 127.0.0.1, a loopback address'),
    });
    expect(double.requests).toEqual([]);
  });

  test('is made there where the configuration says that this is right', async () => {
    const client = clientOf({
      registries: [listed(named(), { allowLocalAddresses: true })],
      resolve: () => Promise.resolve(['127.0.0.1']),
    });
    expect(await client.manifest(ref(`${named()}/a:1`))).toMatchObject({ kind: 'manifest' });
  });

  test('is refused if only one of several addresses is bad, as the socket could pick that one', async () => {
    const client = clientOf({ registries: [listed(named())], resolve: () => Promise.resolve(['8.8.8.8', '169.254.169.254']) });
    expect(await failure(client.manifest(ref(`${named()}/a:1`)))).toMatchObject({
      message: expect.stringContaining('169.254.169.254, a link-local address'),
    });
  });

  test('is made to the addresses that were checked: the name is resolved once', async () => {
    let calls = 0;
    const resolve = (): Promise<string[]> => {
      calls += 1;
      return Promise.resolve([calls === 1 ? '127.0.0.1' : '169.254.169.254']);
    };
    const client = clientOf({ registries: [listed(named(), { allowLocalAddresses: true })], resolve });
    expect(await client.manifest(ref(`${named()}/a:1`))).toMatchObject({ kind: 'manifest' });
    expect(calls).toBe(1);
  });
});

test('a lookup answers in the form that the socket asks for', async () => {
  const lookup = guardedLookup(trustOf(listed('r.example.com')), () => Promise.resolve(['8.8.8.8', '2606:4700::1111']));
  const ask = (options: object): Promise<unknown> =>
    new Promise((resolve) => lookup('r.example.com', options, (error, address, family) => resolve(error ?? [address, family])));
  expect(await ask({ all: true })).toEqual([
    [
      { address: '8.8.8.8', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ],
    undefined,
  ]);
  expect(await ask({ family: 6 })).toEqual(['2606:4700::1111', 6]);
  expect(await ask({})).toEqual(['8.8.8.8', 4]);
  const empty = guardedLookup(trustOf(listed('r.example.com')), () => Promise.resolve([]));
  expect(await new Promise((resolve) => empty('r.example.com', {}, (error) => resolve(error?.code)))).toBe('ENOTFOUND');
});
