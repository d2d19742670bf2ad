import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { notYet, until } from '../../cluster/until.js';
import { OCI, OCI_INDEX, bodyDigest, digestOf, manifestBody } from '../images/support.js';
import { RegistryDouble, closeClients, failure, listed, ref, stackOf } from './support.js';
import type { Handler } from './support.js';

const [own, copy] = ['own', 'copy'].map((name) => manifestBody({ name }));
const send =
  (status: number, body: unknown = '', headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body));

let registry: RegistryDouble;
let mirrors: RegistryDouble[];
beforeEach(async () => {
  registry = await RegistryDouble.start(send(200, own));
  mirrors = await Promise.all([RegistryDouble.start(), RegistryDouble.start()]);
});
afterEach(async () => {
  await closeClients();
  await Promise.all([registry, ...mirrors].map((double) => double.stop()));
});

const hosts = (): string[] => mirrors.map(({ host }) => host);
const image = (name = 'a/b:1') => ref(`${registry.host}/${name}`);
const user = (name: string) => ({ username: name, password: 'p' });
const bearer = (name: string): string => `Basic ${Buffer.from(`${name}:p`).toString('base64')}`;
const exec = { command: '/bin/true', args: [], env: {}, timeoutSeconds: 1 };

/** Each host has an entry of its own, as doubles speak plain HTTP. */
function setup(more: Partial<Parameters<typeof stackOf>[0]> = {}, mirror: Parameters<typeof listed>[1] = {}) {
  const registries = [listed(registry.host, { mirrors: hosts() }), ...hosts().map((host) => listed(host, mirror))];
  return stackOf({ registries, timeoutMs: 1500, ...more });
}

describe('mirrors', () => {
  test('are asked in order before the registry, and told for which registry', async () => {
    const { port } = setup();
    mirrors[1]!.handler = send(200, copy);
    expect(await port.manifest(image())).toMatchObject({ digest: bodyDigest(copy!) });
    expect(mirrors.map(({ lines }) => lines)).toEqual([
      [`GET /v2/a/b/manifests/1?ns=${registry.host}`],
      [`GET /v2/a/b/manifests/1?ns=${registry.host}`],
    ]);
    expect(registry.lines).toEqual([]);
  });

  test.each<[string, Handler]>([
    ['404', send(404)],
    ['401', send(401)],
    ['403', send(403)],
    ['429', send(429)],
    ['500', send(500)],
    ['a page', send(200, '<html>')],
    ['other bytes than their digest', send(200, copy, { 'docker-content-digest': digestOf('x') })],
    ['no answer', () => undefined],
    ['a closed connection', (request) => request.socket.destroy()],
  ])('that answer %s lead to the registry itself', async (_, handler) => {
    const { port } = setup();
    for (const mirror of mirrors) mirror.handler = handler;
    expect(await port.manifest(image())).toMatchObject({ digest: bodyDigest(own!) });
    expect(registry.lines).toEqual(['GET /v2/a/b/manifests/1']);
  });

  test('cannot replace what a digest names', async () => {
    const { port } = setup();
    mirrors[0]!.handler = send(200, copy);
    expect(await port.manifest(image(`a/b@${bodyDigest(own!)}`))).toMatchObject({ digest: bodyDigest(own!) });
  });

  test('that hang cost one try: from then on they are passed over', async () => {
    const { port, breaker, clock } = setup();
    mirrors[0]!.handler = () => undefined;
    for (const tag of ['1', '2', '3']) await port.manifest(image(`a/b:${tag}`));
    expect(mirrors.map(({ lines }) => lines.length)).toEqual([1, 3]);
    expect(breaker.worst(`${hosts()[0]} `)).toBe('open');
    expect(breaker.worst(`${registry.host} `)).toBe('closed');
    clock.advance(15_000);
    await port.manifest(image('a/b:4'));
    expect(mirrors[0]!.lines).toHaveLength(2);
  });

  test('that have no turn to give do not hide their registry', async () => {
    const slots = { total: 8, perHost: 2 };
    const registries = [listed(registry.host, { mirrors: hosts().slice(0, 1) }), listed(hosts()[0]!)];
    const { port, clock } = stackOf({ registries, timeoutMs: 1500, slots });
    const held: (() => void)[] = [];
    mirrors[0]!.handler = (_, response) => void held.push(() => response.writeHead(404).end());
    const asked = Array.from({ length: 20 }, (_, i) => port.manifest(image(`a/b:${i}`)));
    await until('both turns of the mirror to be taken', () => held.length === 2 || notYet(`${held.length}`));
    // The others have waited longer than any admission when the mirror answers at last.
    clock.advance(2_501);
    for (const end of held) end();
    const found = await Promise.all(asked);
    expect(new Set(found.map(({ digest }) => digest))).toEqual(new Set([bodyDigest(own!)]));
    expect(mirrors[0]!.lines).toHaveLength(2);
    expect(registry.lines).toHaveLength(20);
  });

  test('end with what the registry itself says', async () => {
    const { port } = setup();
    for (const mirror of mirrors) mirror.handler = send(500);
    registry.handler = send(404);
    expect(await failure(port.manifest(image()))).toMatchObject({ notFound: true, host: registry.host });
  });

  test('that know of no referrers are no proof that there are none', async () => {
    const found = { mediaType: OCI_INDEX, manifests: [{ mediaType: OCI, digest: digestOf('r'), size: 1 }] };
    const { port } = setup();
    mirrors[1]!.handler = send(200, { mediaType: OCI_INDEX, manifests: [] });
    registry.handler = (_, response, url) =>
      url.pathname.includes('/referrers/') ? send(200, found)(_, response, url) : send(404)(_, response, url);
    expect(await port.referrers(image(), digestOf('subject'))).toMatchObject({ referrers: [{ digest: digestOf('r') }] });
    expect(registry.lines.length).toBeGreaterThan(0);
    // The twin: what a mirror does list is enough.
    registry.lines.length = 0;
    mirrors[0]!.handler = registry.handler;
    await port.referrers(image(), digestOf('another'));
    expect(registry.lines).toEqual([]);
  });

  test('of a registry that is not to be asked are not asked either', async () => {
    const registries = [listed(registry.host, { mirrors: hosts(), allow: false }), ...hosts().map((host) => listed(host))];
    const { port } = stackOf({ registries });
    expect((await failure(port.manifest(image()))).message).toContain('allow: false');
    expect(mirrors.flatMap(({ lines }) => lines)).toEqual([]);
  });

  test('that are switched off are left out, and those that are not listed are asked with TLS', async () => {
    const registries = [listed(registry.host, { mirrors: hosts() }), listed(hosts()[0]!, { allow: false })];
    const { port } = stackOf({ registries, timeoutMs: 1500 });
    expect(await port.manifest(image())).toMatchObject({ digest: bodyDigest(own!) });
    // Nothing that a plain server could read arrived.
    expect(mirrors.flatMap(({ lines }) => lines)).toEqual([]);
  });
});

describe('credentials and mirrors', () => {
  const challenged: Handler = (request, response, url) =>
    request.headers.authorization === undefined
      ? send(401, '', { 'www-authenticate': 'Basic realm="r"' })(request, response, url)
      : send(404)(request, response, url);
  const sent = (double: RegistryDouble | undefined): (string | undefined)[] =>
    double?.requests.map(({ authorization }) => authorization) ?? [];

  beforeEach(() => {
    for (const mirror of mirrors) mirror.handler = challenged;
    registry.handler = (request, response, url) =>
      (request.headers.authorization === undefined ? challenged : send(200, own))(request, response, url);
  });

  test('neither the credential of a Pod nor that of the registry goes to a mirror', async () => {
    const ofRegistry = {
      get: ({ host }: { host: string }) => Promise.resolve(host === registry.host ? { credential: user('own') } : {}),
    };
    const { port } = setup({ own: ofRegistry });
    await port.manifest(image(), { credential: user('pod') });
    await port.manifest(image('a/b:2'));
    // Both were asked, and asked for a credential.
    expect(mirrors.map((mirror) => [...new Set(sent(mirror))])).toEqual([[undefined], [undefined]]);
    expect(sent(registry)).toEqual([undefined, bearer('pod'), bearer('own')]);
  });

  test('what anybody may read only the registry itself can say, and no credential goes along', async () => {
    const { port } = setup({ own: { get: () => Promise.resolve({ credential: user('own') }) } });
    const asked = { anonymous: true, credential: user('pod') } as const;
    expect(await failure(port.manifest(image(), asked))).toMatchObject({ outcome: 'auth-denied' });
    expect(mirrors.flatMap(({ lines }) => lines)).toEqual([]);
    expect(sent(registry)).toEqual([undefined]);
    registry.handler = send(200, own);
    expect(await port.manifest(image('a/b:2'), asked)).toMatchObject({ digest: bodyDigest(own!) });
  });

  test.each([
    ['serves the Pods', true, [undefined, bearer('mirror')]],
    ['does not serve Pods where forPods is false', false, [undefined]],
  ])('the credential of its own entry %s', async (_, forPods, expected) => {
    const get = ({ host }: { host: string }) => Promise.resolve({ credential: user(host === hosts()[0] ? 'mirror' : 'own') });
    const { port } = setup({ own: { get } }, { credential: { exec, forPods } });
    await port.manifest(image(), { credential: user('pod') });
    expect(sent(mirrors[0])).toEqual(expected);
  });
});
