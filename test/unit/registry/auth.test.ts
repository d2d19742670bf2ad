import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parseChallenges } from '../../../src/registry/challenge.js';
import { fingerprint } from '../../../src/images/credential-chain.js';
import { digestOf, manifestBody } from '../images/support.js';
import { RegistryDouble, TestClock, clientOf, closeClients, failure, listed, ref } from './support.js';
import type { Handler } from './support.js';

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
const CREDENTIAL = { username: 'robot', password: 'pa:ss' };
const BASIC = `Basic ${Buffer.from('robot:pa:ss').toString('base64')}`;

let double: RegistryDouble;
let tokens = 0;
beforeEach(async () => {
  tokens = 0;
  double = await RegistryDouble.start();
});
afterEach(async () => {
  await closeClients();
  await double.stop();
});

interface Service {
  challenge?: string;
  token?: (url: URL, authorization: string | undefined) => { status?: number; body: unknown };
  /** Which Authorization opens the manifests. */
  opens?: (authorization: string | undefined) => boolean;
}

/** A registry with a token service beside it, as Docker Hub and Harbor have. */
function withTokens({ challenge, token, opens = (a) => a?.startsWith('Bearer good') === true }: Service = {}): Handler {
  return (request, response, url) => {
    const { authorization } = request.headers;
    if (url.pathname === '/token') {
      tokens += 1;
      const { status = 200, body } = token?.(url, authorization) ?? { body: { token: `good${tokens}`, expires_in: 300 } };
      response
        .writeHead(status, { 'content-type': 'application/json' })
        .end(typeof body === 'string' ? body : JSON.stringify(body));
    } else if (opens(authorization)) response.writeHead(200).end(MANIFEST);
    else
      response
        .writeHead(401, { 'www-authenticate': challenge ?? `Bearer realm="http://${double.host}/token",service="registry"` })
        .end();
  };
}

const paths = (): string[] => double.requests.map(({ path }) => decodeURIComponent(path));

describe('bearer tokens', () => {
  test('are fetched for the repository, with the credential, and used', async () => {
    double.handler = withTokens({ token: (_, authorization) => ({ body: { token: authorization === BASIC ? 'good' : 'bad' } }) });
    const client = clientOf({ registries: [listed(double.host)], credential: CREDENTIAL });
    await client.manifest(ref(`${double.host}/a/b:1`));
    expect(paths()).toEqual(['/v2/a/b/manifests/1', '/token?service=registry&scope=repository:a/b:pull', '/v2/a/b/manifests/1']);
    // The credential itself only goes to the token service.
    expect(double.requests.map(({ authorization }) => authorization)).toEqual([undefined, BASIC, 'Bearer good']);
  });

  test('are used again until they expire, and then fetched again', async () => {
    double.handler = withTokens();
    const clock = new TestClock();
    const client = clientOf({ registries: [listed(double.host)], clock });
    const ask = () => client.manifest(ref(`${double.host}/a/b:1`));
    await ask();
    await ask();
    expect(tokens).toBe(1);
    clock.advance(269_000);
    await ask();
    expect(tokens).toBe(1);
    clock.advance(2000);
    await ask();
    expect(tokens).toBe(2);
  });

  test('are one for each repository and credential', async () => {
    double.handler = withTokens();
    const client = clientOf({ registries: [listed(double.host)] });
    await client.manifest(ref(`${double.host}/a/b:1`));
    await client.manifest(ref(`${double.host}/a/c:1`));
    await client.manifest(ref(`${double.host}/a/b:1`), { credential: CREDENTIAL });
    await client.manifest(ref(`${double.host}/a/b:2`), { credential: CREDENTIAL });
    expect(tokens).toBe(3);
  });

  test('that a thousand askers need at once are fetched once', async () => {
    double.handler = withTokens();
    const client = clientOf({ registries: [listed(double.host)] });
    await client.manifest(ref(`${double.host}/warm:1`));
    await Promise.all(Array.from({ length: 100 }, (_, i) => client.manifest(ref(`${double.host}/a/b:${i}`))));
    expect(tokens).toBe(2);
  });

  test('that are revoked early are fetched again, once', async () => {
    let good = 'good1';
    double.handler = withTokens({ opens: (a) => a === `Bearer ${good}` });
    const client = clientOf({ registries: [listed(double.host)] });
    await client.manifest(ref(`${double.host}/a/b:1`));
    good = 'good2';
    await client.manifest(ref(`${double.host}/a/b:1`));
    expect(tokens).toBe(2);
    good = 'never';
    expect(await failure(client.manifest(ref(`${double.host}/a/b:1`)))).toMatchObject({ outcome: 'auth-denied' });
    expect(tokens).toBe(3);
  });

  test.each<[string, Service, string]>([
    ['access_token instead of token', { token: () => ({ body: { access_token: 'good' } }) }, ''],
    [
      'a challenge without service',
      { challenge: 'Bearer realm="http://HOST/token",scope="repository:a/b:pull"' },
      '/token?scope=repository:a/b:pull',
    ],
    [
      'a basic challenge before the bearer one',
      { challenge: 'Basic realm="x", Bearer realm="http://HOST/token",service="s"' },
      '/token?service=s&scope=repository:a/b:pull',
    ],
    [
      'a realm that has a query already',
      { challenge: 'Bearer realm="http://HOST/token?a=b"' },
      '/token?a=b&scope=repository:a/b:pull',
    ],
    ['upper case', { challenge: 'BEARER Realm="http://HOST/token"' }, '/token?scope=repository:a/b:pull'],
  ])('%s works', async (_, service, path) => {
    const challenge = service.challenge?.replace('HOST', double.host);
    double.handler = withTokens({ ...service, ...(challenge === undefined ? {} : { challenge }) });
    const client = clientOf({ registries: [listed(double.host)] });
    expect(await client.manifest(ref(`${double.host}/a/b:1`))).toMatchObject({ kind: 'manifest' });
    if (path !== '') expect(paths()[1]).toBe(path);
  });

  test.each<[string, Service, string, RegExp]>([
    [
      'a token service that refuses',
      { token: () => ({ status: 401, body: {} }) },
      'auth-denied',
      /the token service .* denied access \(401\) without a credential/,
    ],
    ['a token service that says 403', { token: () => ({ status: 403, body: {} }) }, 'auth-denied', /denied access \(403\)/],
    ['a token service that limits', { token: () => ({ status: 429, body: '' }) }, 'registry-error', /limits requests/],
    [
      'a token service that fails',
      { token: () => ({ status: 502, body: '' }) },
      'registry-error',
      /token service .* answered 502/,
    ],
    ['a login page', { token: () => ({ body: '<html>' }) }, 'registry-error', /answered without a token/],
    [
      'a token that would end the header',
      { token: () => ({ body: { token: 'good\r\nX-Evil: 1' } }) },
      'registry-error',
      /without a token/,
    ],
    ['a token that is no text', { token: () => ({ body: { token: 5 } }) }, 'registry-error', /without a token/],
    [
      'an answer of more than 64 KiB',
      { token: () => ({ body: { token: 'x'.repeat(70_000) } }) },
      'registry-error',
      /more than 64 KiB/,
    ],
    ['a realm that is no URL', { challenge: 'Bearer realm="nonsense"' }, 'registry-error', /no usable token realm/],
    ['a bearer challenge without realm', { challenge: 'Bearer service="x"' }, 'auth-denied', /denied access \(401\)/],
    ['a realm in a file', { challenge: 'Bearer realm="file:///etc/passwd"' }, 'registry-error', /not https/],
    [
      'a realm at a metadata address',
      { challenge: 'Bearer realm="http://169.254.169.254/token"' },
      'registry-error',
      /another domain/,
    ],
    [
      'a realm of somebody else',
      { challenge: 'Bearer realm="https://evil.example.org/token"' },
      'registry-error',
      /evil.example.org as token realm, which belongs to another domain/,
    ],
  ])('%s does not work, and the message says why', async (_, service, outcome, message) => {
    double.handler = withTokens(service);
    const client = clientOf({ registries: [listed(double.host)] });
    expect(await failure(client.manifest(ref(`${double.host}/a/b:1`)))).toMatchObject({
      outcome,
      message: expect.stringMatching(message),
    });
  });

  test('the password stands in no message', async () => {
    double.handler = withTokens({ token: () => ({ status: 401, body: { detail: 'bad password pa:ss' } }) });
    const client = clientOf({ registries: [listed(double.host)], credential: CREDENTIAL });
    const error = await failure(client.manifest(ref(`${double.host}/a/b:1`)));
    expect(error.message).toMatch(/with the credential given/);
    expect(`${error.message}${error.stack}`).not.toMatch(/pa:ss|cm9ib3Q/);
  });
});

describe('basic authentication', () => {
  test('is sent when it is asked for, and brought along from then on', async () => {
    double.handler = withTokens({ challenge: 'Basic realm="r"', opens: (a) => a === BASIC });
    const client = clientOf({ registries: [listed(double.host)], credential: CREDENTIAL });
    await client.manifest(ref(`${double.host}/a/b:1`));
    await client.manifest(ref(`${double.host}/a/b:1`));
    expect(double.requests.map(({ authorization }) => authorization)).toEqual([undefined, BASIC, BASIC]);
  });

  test('that is refused is not tried again in the same call', async () => {
    double.handler = withTokens({ challenge: 'Basic realm="r"', opens: () => false });
    const client = clientOf({ registries: [listed(double.host)], credential: CREDENTIAL });
    await failure(client.manifest(ref(`${double.host}/a/b:1`)));
    expect(double.requests).toHaveLength(2);
    expect(await failure(client.manifest(ref(`${double.host}/a/b:1`)))).toMatchObject({ outcome: 'auth-denied' });
    expect(double.requests).toHaveLength(3);
  });

  test('the credential of the Pod goes before that of Harbinger', async () => {
    double.handler = withTokens({ challenge: 'Basic realm="r"', opens: (a) => a === BASIC });
    const client = clientOf({ registries: [listed(double.host)], credential: { username: 'other', password: 'x' } });
    expect(await client.manifest(ref(`${double.host}/a/b:1`), { credential: CREDENTIAL })).toMatchObject({ kind: 'manifest' });
  });
});

describe("Harbinger's own credential", () => {
  const exec = { command: '/bin/true', args: [], env: {}, timeoutSeconds: 1 };
  const setup = (forPods: boolean) => {
    double.handler = withTokens({ challenge: 'Basic realm="r"', opens: (a) => a === BASIC });
    return clientOf({ registries: [listed(double.host, { credential: { exec, forPods } })], credential: CREDENTIAL });
  };

  test.each([
    [true, true, true],
    [true, false, true],
    [false, false, true],
    [false, true, false],
  ])('with forPods: %s serves a question for a Pod (%s): %s', async (forPods, forPod, serves) => {
    const asked = setup(forPods).manifest(ref(`${double.host}/a/b:1`), { forPod });
    if (serves) expect(await asked).toMatchObject({ kind: 'manifest' });
    else
      expect(await failure(asked)).toMatchObject({
        outcome: 'auth-denied',
        message: expect.stringContaining('not used for Pods (credential.forPods is false)'),
      });
    expect(double.requests.some(({ authorization }) => authorization === BASIC)).toBe(serves);
  });

  test('does not stand in for that of a Pod which is denied', async () => {
    const client = setup(true);
    const wrong = { username: 'pod', password: 'wrong' };
    expect(await failure(client.manifest(ref(`${double.host}/a/b:1`), { credential: wrong }))).toMatchObject({
      outcome: 'auth-denied',
    });
    expect(double.requests.some(({ authorization }) => authorization === BASIC)).toBe(false);
  });
});

describe('redirects', () => {
  test('to another host go without the credential', async () => {
    const other = await RegistryDouble.start((_, response) => response.writeHead(200).end(MANIFEST));
    double.handler = (request, response) => {
      if (request.headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end();
      else response.writeHead(307, { location: `http://${other.host}/signed?secret=1` }).end();
    };
    const client = clientOf({ registries: [listed(double.host), listed(other.host)], credential: CREDENTIAL });
    expect(await client.manifest(ref(`${double.host}/a/b:1`))).toMatchObject({ digest: digestOf(MANIFEST) });
    expect(other.requests).toEqual([{ path: '/signed?secret=1', authorization: undefined, accept: expect.any(String) }]);
    await other.stop();
  });

  test('within the host keep it', async () => {
    double.handler = (request, response, url) => {
      if (request.headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': 'Basic realm="r"' }).end();
      else if (url.pathname === '/else') response.writeHead(200).end(MANIFEST);
      else response.writeHead(302, { location: '/else' }).end();
    };
    const client = clientOf({ registries: [listed(double.host)], credential: CREDENTIAL });
    await client.manifest(ref(`${double.host}/a/b:1`));
    expect(double.requests.at(-1)).toMatchObject({ path: '/else', authorization: BASIC });
  });

  test.each([
    'http://127.0.0.1:1/x',
    'http://169.254.169.254/latest',
    'http://[::1]:1/',
    'http://10.0.0.1/',
    'http://2130706433/',
    'http://0x7f.1/',
  ])('to %s are not followed', async (location) => {
    double.handler = (_, response) => response.writeHead(307, { location }).end();
    const client = clientOf({ registries: [listed(double.host)] });
    expect(await failure(client.manifest(ref(`${double.host}/a/b:1`)))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringMatching(/is not asked: .* a (loopback|link-local|private) address/),
    });
  });

  test('from https to http are not followed', async () => {
    const secure = listed('r.example.com', { plainHTTP: false });
    const { Egress } = await import('../../../src/registry/egress.js');
    expect(() => new Egress([secure]).destination(new URL('http://r.example.com/x'), secure, 'redirect')).toThrow(/not https/);
  });
});

describe('challenges', () => {
  test.each([
    ['one', ['Bearer realm="a",service="b"'], [{ scheme: 'bearer', parameters: { realm: 'a', service: 'b' } }]],
    [
      'two in one header',
      ['Basic realm="a", Bearer realm="b"'],
      [
        { scheme: 'basic', parameters: { realm: 'a' } },
        { scheme: 'bearer', parameters: { realm: 'b' } },
      ],
    ],
    [
      'two in two headers',
      ['Basic realm="a"', 'Bearer realm="b"'],
      [
        { scheme: 'basic', parameters: { realm: 'a' } },
        { scheme: 'bearer', parameters: { realm: 'b' } },
      ],
    ],
    ['commas and escapes in quotes', ['Bearer realm="a,b\\"c"'], [{ scheme: 'bearer', parameters: { realm: 'a,b"c' } }]],
    ['values without quotes', ['Bearer realm=a , service=b'], [{ scheme: 'bearer', parameters: { realm: 'a', service: 'b' } }]],
    ['a scheme alone', ['Basic'], [{ scheme: 'basic', parameters: {} }]],
    [
      'a scheme without parameters before another',
      ['Negotiate, Basic realm="a"'],
      [
        { scheme: 'negotiate', parameters: {} },
        { scheme: 'basic', parameters: { realm: 'a' } },
      ],
    ],
    ['nothing', [''], []],
    ['garbage', ['"""=,,,'], []],
    ['an unclosed quote', ['Bearer realm="a'], [{ scheme: 'bearer', parameters: { realm: '' } }]],
  ])('%s', (_, headers, expected) => {
    expect(parseChallenges(headers)).toEqual(expected);
  });

  test('of any length are read in no time', () => {
    const started = performance.now();
    for (const unit of ['a=', '"\\', 'a ', 'a="', ', ', 'Bearer ']) parseChallenges([unit.repeat(100_000)]);
    expect(performance.now() - started).toBeLessThan(200);
  });
});

test('a fingerprint tells credentials apart and does not show them', () => {
  const prints = [undefined, CREDENTIAL, { username: 'robot:pa', password: 'ss' }, { username: 'robot', password: 'other' }].map(
    fingerprint,
  );
  expect(new Set(prints).size).toBe(4);
  expect(prints.join()).not.toContain('robot');
});
