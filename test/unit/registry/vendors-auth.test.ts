import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Credential } from '../../../src/images/registry-port.js';
import { manifestBody } from '../images/support.js';
import { RegistryDouble, closeClients, failure, listed, ref, stackOf } from './support.js';
import type { Handler, Stack } from './support.js';

/** How the registries of vendors ask for credentials, as reported by their users; one exchange after the other. */

const MANIFEST = JSON.stringify(manifestBody({ name: 'good' }));
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`;

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

interface Service {
  challenge?: string;
  /** Answer of the token service. */
  token?: Handler;
  /** Answer to whoever brings the right header. */
  manifest?: Handler;
  opens?: (authorization: string | undefined) => boolean;
}

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
const denied = json(403, { errors: [{ code: 'DENIED', message: 'denied' }] });

/** A registry that sends whoever has no token to `/token`. */
function registry({ challenge, token = json(200, { token: 'good' }), manifest, opens }: Service): void {
  double.handler = (request, response, url) => {
    const { authorization } = request.headers;
    if (url.pathname.includes('token')) return token(request, response, url);
    if (opens?.(authorization) ?? authorization === 'Bearer good')
      return (manifest ?? ((_, r) => r.writeHead(200).end(MANIFEST)))(request, response, url);
    const realm = `http://${double.host}/token`;
    response.writeHead(401, { 'www-authenticate': challenge ?? `Bearer realm="${realm}",service="registry"` }).end();
  };
}

const image = (name = 'a/b:1') => ref(`${double.host}/${name}`);
const stack = (credential?: Credential): Stack =>
  stackOf({ registries: [listed(double.host)], ...(credential === undefined ? {} : { credential }) });
const tokens = (): string[] => double.lines.filter((line) => line.includes('token'));

describe('Docker Hub', () => {
  test('R-01: one token serves a repository until it ends, and what is left of the limit is shown and spared', async () => {
    let lives = 300;
    registry({
      token: (...args) =>
        json(200, {
          ...(lives === 0 ? { access_token: 'good' } : { token: 'good', access_token: 'good', expires_in: lives }),
          issued_at: '2026-12-01T00:00:00Z',
        })(...args),
      manifest: (_, response) =>
        response
          .writeHead(200, {
            'ratelimit-limit': '100;w=21600',
            'ratelimit-remaining': `${remaining};w=21600`,
            'docker-ratelimit-source': '192.0.2.1',
          })
          .end(MANIFEST),
    });
    let remaining = 70;
    const { port, clock, metrics } = stack();
    await port.manifest(image('library/nginx:1'));
    await port.manifest(image('library/nginx:2'));
    await port.manifest(image('library/nginx:3'));
    expect(tokens()).toEqual(['GET /token?service=registry&scope=repository:library/nginx:pull']);
    expect(await metrics.text()).toContain(`harbinger_registry_rate_limit_remaining{host="${double.host}"} 70`);

    // Without expires_in a token lives for a minute, less what is kept back.
    clock.advance(271_000);
    lives = 0;
    remaining = 7;
    await port.manifest(image('library/nginx:4'));
    expect(tokens()).toHaveLength(2);
    // Near the end requests are spread over the window, and the others are answered without one.
    const before = double.lines.length;
    expect(await failure(port.manifest(image('library/nginx:5')))).toMatchObject({
      outcome: 'circuit-open',
      message: expect.stringContaining('it allows 7 more of 100 requests'),
    });
    expect(double.lines).toHaveLength(before);
    clock.advance(60_000);
    await port.manifest(image('library/nginx:5'));
    expect(tokens()).toHaveLength(3);
  });

  test('R-07: a token service that limits, fails or shows a page pauses its realm: unknown, and nobody else asks it', async () => {
    const bad: [string, Handler][] = [
      ['limits', (_, r) => r.writeHead(429, { 'content-type': 'text/plain' }).end('Too Many Requests (HAP429)')],
      ['fails', (_, r) => r.writeHead(503).end()],
      ['a page', (_, r) => r.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ];
    for (const [, token] of bad) {
      registry({ token });
      const { client, clock } = stack();
      const before = tokens().length;
      expect(await failure(client.manifest(image('one/a:1')))).toMatchObject({ outcome: 'registry-error', notFound: false });
      expect(await failure(client.manifest(image('two/b:1')))).toMatchObject({
        outcome: 'circuit-open',
        message: expect.stringMatching(/token service .* left alone for \d+ s more/),
      });
      expect(tokens()).toHaveLength(before + 1);
      registry({});
      clock.advance(15_000);
      expect(await client.manifest(image('two/b:1'))).toMatchObject({ kind: 'manifest' });
    }
  });
});

test('a token service that limits a credential of a Pod is asked on with those of others', async () => {
  const limited = { username: 'limited', password: 'p' };
  const basic = `Basic ${Buffer.from('limited:p').toString('base64')}`;
  registry({
    token: (request, ...rest) => json(request.headers.authorization === basic ? 429 : 200, { token: 'good' })(request, ...rest),
  });
  const { port } = stack();
  const ask = (credential?: Credential): Promise<unknown> =>
    port.manifest(image(), credential === undefined ? {} : { credential });
  expect(await failure(ask(limited))).toMatchObject({ outcome: 'registry-error', status: 429 });
  expect(await failure(port.manifest(image('c/d:1'), { credential: limited }))).toMatchObject({ outcome: 'circuit-open' });
  expect(await ask({ username: 'other', password: 'p' })).toMatchObject({ kind: 'manifest' });
  expect(await ask()).toMatchObject({ kind: 'manifest' });
});

describe('GHCR', () => {
  test('R-04: a token service that denies leaves unknown whether the image is there, and is asked once a minute', async () => {
    for (const [status, repository] of [
      [403, 'private/a'],
      [401, 'missing/a'],
    ] as const) {
      registry({ token: status === 403 ? denied : json(401, { errors: [{ code: 'UNAUTHORIZED' }] }) });
      const { port, clock } = stack();
      const before = tokens().length;
      for (const tag of ['1', '2', '3'])
        expect(await failure(port.manifest(image(`${repository}:${tag}`)))).toMatchObject({
          outcome: 'auth-denied',
          notFound: false,
          status,
        });
      expect(tokens()).toHaveLength(before + 1);
      clock.advance(60_001);
      registry({});
      expect(await port.manifest(image(`${repository}:1`))).toMatchObject({ kind: 'manifest' });
    }
  });
});

describe('ECR', () => {
  const challenge = 'Basic realm="https://111122223333.dkr.ecr.us-east-1.amazonaws.com/",service="ecr.amazonaws.com"';

  test('R-08: a basic challenge with realm and service is answered with basic, and no token is asked for', async () => {
    registry({ challenge, opens: (a) => a === basic('AWS:token') });
    const { port } = stack({ username: 'AWS', password: 'token' });
    expect(await port.manifest(image())).toMatchObject({ kind: 'manifest' });
    expect(double.lines).toEqual(['GET /v2/a/b/manifests/1', 'GET /v2/a/b/manifests/1']);
  });

  test('R-09: a token that expired is renewed once and the image asked for again; 403 does not mean that it is gone', async () => {
    let good = 'old';
    let minted = 'old';
    registry({
      challenge,
      opens: (a) => a !== undefined,
      manifest: (request, response) => {
        if (request.headers.authorization === basic(`AWS:${good}`)) response.writeHead(200).end(MANIFEST);
        else response.writeHead(403).end('Your authorization token has expired. Reauthenticate and try again.');
      },
    });
    const renewals: boolean[] = [];
    const own = {
      get: (_: unknown, __: unknown, renew = false) => {
        renewals.push(renew);
        if (renew) minted = good;
        return Promise.resolve({ credential: { username: 'AWS', password: minted } });
      },
    };
    const { client } = stackOf({ registries: [listed(double.host)], own });
    await client.manifest(image());
    expect(renewals).toEqual([false]);
    good = 'new';
    expect(await client.manifest(image())).toMatchObject({ kind: 'manifest' });
    expect(renewals).toEqual([false, false, true]);
    // What a renewal does not help with stays unknown.
    good = 'another account';
    minted = 'same';
    const stuck = { get: () => Promise.resolve({ credential: { username: 'AWS', password: 'same' } }) };
    const { client: other } = stackOf({ registries: [listed(double.host)], own: stuck });
    const before = double.lines.length;
    expect(await failure(other.manifest(image()))).toMatchObject({ outcome: 'auth-denied', status: 403, notFound: false });
    expect(double.lines).toHaveLength(before + 2);
  });
});

describe('ACR', () => {
  const identity: Credential = { username: '00000000-0000-0000-0000-000000000000', password: '', identityToken: 'refresh' };

  test('R-14: an identity token is posted; where the service knows no POST, it is asked by GET', async () => {
    const bodies: string[] = [];
    let post = 200;
    registry({
      challenge: `Bearer realm="http://${double.host}/oauth2/token",service="acr"`,
      token: (request, response) => {
        const chunks: Buffer[] = [];
        request.on('data', (chunk: Buffer) => chunks.push(chunk));
        request.on('end', () => {
          if (request.method === 'POST') bodies.push(Buffer.concat(chunks).toString());
          const known = request.method === 'POST' || request.headers.authorization === basic(`${identity.username}:refresh`);
          const status = request.method === 'POST' ? post : known ? 200 : 401;
          response.writeHead(status).end(JSON.stringify({ access_token: 'good' }));
        });
      },
    });
    for (const credential of [identity, { username: identity.username, password: 'refresh' }]) {
      const { client } = stack(credential);
      await client.manifest(image());
    }
    expect(tokens()).toEqual(['POST /oauth2/token', 'POST /oauth2/token']);
    expect(Object.fromEntries(new URLSearchParams(bodies[0]))).toEqual({
      grant_type: 'refresh_token',
      client_id: 'harbinger',
      service: 'acr',
      scope: 'repository:a/b:pull',
      refresh_token: 'refresh',
    });
    for (const status of [404, 405, 400, 401]) {
      post = status;
      double.lines.length = 0;
      const { client } = stack(identity);
      expect(await client.manifest(image())).toMatchObject({ kind: 'manifest' });
      expect(tokens()).toEqual(['POST /oauth2/token', 'GET /oauth2/token?service=acr&scope=repository:a/b:pull']);
    }
    // Other failures are no reason to try the second way.
    post = 500;
    double.lines.length = 0;
    expect(await failure(stack(identity).client.manifest(image()))).toMatchObject({ outcome: 'registry-error', status: 500 });
    expect(tokens()).toEqual(['POST /oauth2/token']);
    // Some ask for basic all the same.
    registry({ challenge: 'Basic realm="acr"', opens: (a) => a === basic(`${identity.username}:refresh`) });
    expect(await stack(identity).client.manifest(image())).toMatchObject({ kind: 'manifest' });
  });
});

describe('Harbor', () => {
  test('R-20: a basic challenge after a token, a realm in the cluster, no content type and sizes of 0 break nothing', async () => {
    // The token does not suffice for one project; other projects are still asked with tokens.
    double.handler = (request, response, url) => {
      const { authorization } = request.headers;
      if (url.pathname === '/token') return json(200, { token: 'good' })(request, response, url);
      if (authorization === 'Bearer good' && url.pathname.startsWith('/v2/ok/')) return response.writeHead(200).end(MANIFEST);
      const challenge =
        authorization?.startsWith('Bearer') === true ? 'Basic realm="harbor"' : `Bearer realm="http://${double.host}/token"`;
      return response.writeHead(401, { 'www-authenticate': challenge }).end();
    };
    const { client } = stack({ username: 'robot', password: 'p' });
    expect(await client.manifest(image('ok/a:1'))).toMatchObject({ kind: 'manifest' });
    expect(await failure(client.manifest(image('no/a:1')))).toMatchObject({ outcome: 'auth-denied', notFound: false });
    expect(await client.manifest(image('ok/a:2'))).toMatchObject({ kind: 'manifest' });
    expect(double.requests.at(-1)?.authorization).toBe('Bearer good');

    registry({ challenge: 'Bearer realm="http://harbor-core/service/token",service="harbor-registry"' });
    expect(await failure(stack().client.manifest(image()))).toMatchObject({
      outcome: 'registry-error',
      message: expect.stringMatching(
        /names http:\/\/harbor-core as token realm, which belongs to another domain; add it under registries/,
      ),
    });

    const digest = `sha256:${'a'.repeat(64)}`;
    double.handler = (_, response, url) =>
      url.pathname.includes('/referrers/')
        ? response.writeHead(200).end(JSON.stringify({ manifests: [{ mediaType: 'x', digest, size: 0 }] }))
        : response.writeHead(404).end();
    expect(await stack().client.referrers(image(), `sha256:${'b'.repeat(64)}`)).toMatchObject({
      how: 'api',
      referrers: [{ digest, size: 0 }],
    });
  });
});

describe('nvcr.io', () => {
  test('R-22: a challenge without service is answered without one, with the literal user name', async () => {
    registry({
      challenge: `Bearer realm="http://${double.host}/proxy_auth_token",scope="repository:nvidia/pytorch:pull"`,
      token: (request, response, url) =>
        request.headers.authorization === basic('$oauthtoken:key')
          ? json(200, { token: 'good', expires_in: 600 })(request, response, url)
          : denied(request, response, url),
    });
    expect(await stack({ username: '$oauthtoken', password: 'key' }).port.manifest(image('nvidia/pytorch:1'))).toMatchObject({
      kind: 'manifest',
    });
    expect(tokens()).toEqual(['GET /proxy_auth_token?scope=repository:nvidia/pytorch:pull']);
  });
});

describe('a hostile or broken registry', () => {
  test('R-30: realms at forbidden places, none at all, endless ones and redirected ones are refused without a credential', async () => {
    const elsewhere = await RegistryDouble.start((_, response) => response.writeHead(200).end('{"token":"good"}'));
    doubles.push(elsewhere);
    const credential = { username: 'u', password: 'secret' };
    const challenges: [string, RegExp][] = [
      [
        'Bearer realm="http://169.254.169.254/latest/meta-data"',
        /169\.254\.169\.254 as token realm, which belongs to another domain/,
      ],
      ['Bearer realm="https://10.0.0.1/t"', /10\.0\.0\.1 as token realm/],
      ['Bearer realm="https://[fd00:ec2::254]/t"', /as token realm/],
      ['Bearer realm="file:///etc/passwd"', /not https/],
      [`Bearer realm="http://${elsewhere.host}/token"`, /is not asked: .* a loopback address/],
      ['Bearer service="x"', /denied access \(401\)/],
    ];
    for (const [challenge, message] of challenges) {
      registry({ challenge });
      expect(await failure(stack(credential).client.manifest(image()))).toMatchObject({
        message: expect.stringMatching(message),
      });
    }
    expect(elsewhere.lines).toEqual([]);

    registry({ token: (_, r) => r.writeHead(200).end(JSON.stringify({ token: 'x'.repeat(70_000) })) });
    expect((await failure(stack(credential).client.manifest(image()))).message).toMatch(/more than 64 KiB/);
    // A token service that redirects could lead the credential anywhere: its redirects are not followed.
    registry({ token: (_, r) => r.writeHead(307, { location: `http://${elsewhere.host}/token` }).end() });
    expect(await failure(stack(credential).client.manifest(image()))).toMatchObject({ outcome: 'registry-error' });
    expect(elsewhere.lines).toEqual([]);
    // The twin: two challenges in one header, of which one is good.
    registry({ challenge: `Basic realm="x", Bearer realm="http://${double.host}/token",service="s"` });
    expect(await stack(credential).client.manifest(image())).toMatchObject({ kind: 'manifest' });
  });
});
