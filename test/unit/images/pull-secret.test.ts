import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { credentialsFor, parseDockerConfig, parsePullSecret } from '../../../src/images/pull-secret.js';
import { parseReference } from '../../../src/images/reference.js';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const auth = (user: string): { auth: string } => ({ auth: base64(`${user}:secret`) });
const config = (auths: Record<string, unknown>) => parseDockerConfig(JSON.stringify({ auths }));

function userFor(image: string, ...secrets: Record<string, unknown>[]): string | undefined {
  const parsed = parseReference(image);
  if (!parsed.ok) throw new Error(parsed.problem);
  return credentialsFor(parsed.reference, secrets.map(config))[0]?.username;
}

describe('which entry of a secret is for an image', () => {
  test.each([
    ['the host', 'r.example.com/a:1', 'r.example.com', true],
    ['the host with a scheme', 'r.example.com/a:1', 'https://r.example.com', true],
    ['the host with a version path', 'r.example.com/a:1', 'https://r.example.com/v2/', true],
    ['host and port', 'r.example.com:5000/a:1', 'r.example.com:5000', true],
    ['another port', 'r.example.com:5000/a:1', 'r.example.com', false],
    ['no port where the entry has one', 'r.example.com/a:1', 'r.example.com:5000', false],
    ['another host', 'r.example.com/a:1', 'example.com', false],
    ['the key of Docker Hub', 'nginx', 'https://index.docker.io/v1/', true],
    ['the other key of Docker Hub', 'acme/web:1', 'docker.io', true],
    ['Docker Hub is not everything', 'r.example.com/a:1', 'https://index.docker.io/v1/', false],
    ['a path', 'nvcr.io/nvaie/x:1', 'nvcr.io/nvaie', true],
    ['a path that ends inside of a name, as kubelets allow', 'nvcr.io/nvaie2/x:1', 'nvcr.io/nvaie', true],
    ['another path', 'nvcr.io/nvidia/x:1', 'nvcr.io/nvaie', false],
    ['a star for one label', 'a.example.com/x:1', '*.example.com', true],
    ['a star does not reach over a dot', 'a.b.example.com/x:1', '*.example.com', false],
    ['a star in the middle of a label', 'r-eu-1.example.com/x:1', 'r-*-1.example.com', true],
    ['a star with a port', 'a.example.com:5000/x:1', '*.example.com:5000', true],
    ['a question mark is one character', 'r1.example.com/x:1', 'r?.example.com', true],
    ['a question mark is not none', 'r.example.com/x:1', 'r?.example.com', false],
    ['upper case in the image', 'R.example.com/x:1', 'r.example.com', true],
  ])('%s', (_, image, key, matches) => {
    expect(userFor(image, { [key]: auth('found') })).toBe(matches ? 'found' : undefined);
  });

  test('the longest path wins, whatever the order', () => {
    const entries = { 'r.example.com': auth('host'), 'r.example.com/team/app': auth('app'), 'r.example.com/team': auth('team') };
    expect(userFor('r.example.com/team/app:1', entries)).toBe('app');
    expect(userFor('r.example.com/team/other:1', entries)).toBe('team');
    expect(userFor('r.example.com/x:1', entries)).toBe('host');
  });

  test('the entries of all secrets are tried as one list, the secrets in order where keys are equal', () => {
    const parsed = parseReference('r.example.com/team/app:1');
    if (!parsed.ok) throw new Error(parsed.problem);
    const secrets = [
      { 'r.example.com': auth('first'), '*.example.com': auth('glob') },
      { 'r.example.com': auth('second'), 'r.example.com/team': auth('team'), 'other.example.com': auth('no') },
      { 'https://r.example.com/v2/': auth('first') },
    ];
    expect(credentialsFor(parsed.reference, secrets.map(config)).map(({ username }) => username)).toEqual([
      'team',
      'first',
      'second',
      'glob',
    ]);
  });

  test('the first secret that has one wins', () => {
    expect(
      userFor(
        'r.example.com/x:1',
        { 'other.example.com': auth('no') },
        { 'r.example.com': auth('first') },
        { 'r.example.com': auth('second') },
      ),
    ).toBe('first');
  });
});

describe('how an entry holds its credential', () => {
  test.each([
    ['user name and password', { username: 'u', password: 'p:q' }, { username: 'u', password: 'p:q' }],
    ['both in auth', { auth: base64('u:p') }, { username: 'u', password: 'p' }],
    ['a password with colons', { auth: base64('_json_key:{"a":"b:c"}') }, { username: '_json_key', password: '{"a":"b:c"}' }],
    ['explicit fields before auth', { username: 'u', password: 'p', auth: base64('x:y') }, { username: 'u', password: 'p' }],
    ['an empty entry', {}, undefined],
    ['broken base64', { auth: '%%%' }, undefined],
    ['base64 without a colon', { auth: base64('nonsense') }, undefined],
    ['base64 without a user', { auth: base64(':p') }, undefined],
    ['numbers', { username: 1, password: 2 }, undefined],
    ['null', null, undefined],
  ])('%s', (_, entry, expected) => {
    expect(config({ 'r.example.com': entry }).entries.map((e) => e.credential)).toEqual(expected === undefined ? [] : [expected]);
  });
});

test('R-23: every shape of a pull secret gives what a kubelet would use, and a broken one is named without its content', () => {
  const [user, key] = ['u', '{"private_key":"a:b:c"}'];
  const shapes: [string, string, unknown, string | undefined][] = [
    ['only user name and password', 'reg.example', { username: user, password: 'p' }, 'p'],
    ['only auth', 'reg.example', { auth: base64(`${user}:p`) }, 'p'],
    ['a key of Google with colons', 'reg.example', { auth: base64(`_json_key:${key}`) }, key],
    ['a scheme and a slash', 'https://reg.example/', { auth: base64(`${user}:p`) }, 'p'],
    ['a port that the image has not', 'reg.example:5000', { auth: base64(`${user}:p`) }, undefined],
    ['a glob', '*.example', { auth: base64(`${user}:p`) }, 'p'],
    ['a path', 'reg.example/team', { auth: base64(`${user}:p`) }, 'p'],
    ['the path of another', 'reg.example/other', { auth: base64(`${user}:p`) }, undefined],
    ['an empty entry', 'reg.example', {}, undefined],
    ['broken base64', 'reg.example', { auth: 'hunter2%%' }, undefined],
    ['the token of docker login at a cloud', 'reg.example', { auth: base64('guid:'), identitytoken: 't' }, 't'],
  ];
  const parsed = parseReference('reg.example/team/app:1');
  if (!parsed.ok) throw new Error(parsed.problem);
  for (const [name, host, entry, expected] of shapes)
    for (const secret of [
      {
        type: 'kubernetes.io/dockerconfigjson',
        data: { '.dockerconfigjson': base64(JSON.stringify({ auths: { [host]: entry } })) },
      },
      { type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64(JSON.stringify({ [host]: entry })) } },
    ]) {
      const keyring = parsePullSecret(secret);
      const found = credentialsFor(parsed.reference, [keyring])[0];
      expect([name, found?.identityToken ?? found?.password]).toEqual([name, expected]);
      expect(keyring.problems.join()).not.toContain('hunter2');
      expect(keyring.problems).toHaveLength(/empty|broken/.test(name) ? 1 : 0);
    }
  // Docker Hub's own key, whose images carry another host.
  expect(userFor('nginx:1', { 'https://index.docker.io/v1/': auth('hub') })).toBe('hub');
});

describe('for any entries', () => {
  const label = fc.constantFrom('a', 'b', 'ab', 'c1');
  const glob = fc.constantFrom('a', 'b', '*', 'a*', '?', '*b', 'c?');
  const port = fc.constantFrom('', ':5000');
  const host = (part: fc.Arbitrary<string>) => fc.tuple(part, part, port).map(([x, y, p]) => `${x}.${y}${p}`);
  const path = fc.array(label, { maxLength: 3 }).map((parts) => parts.join('/'));
  const entry = fc.tuple(host(glob), path).map(([h, p]) => (p === '' ? h : `${h}/${p}`));
  const image = fc.tuple(host(label), fc.array(label, { minLength: 1, maxLength: 3 })).map(([h, p]) => `${h}/${p.join('/')}`);

  /** As the rules read, without care for time: each glob as a regular expression over one label. */
  function model(name: string, keys: readonly string[]): string[] {
    const [registry = '', ...rest] = name.split('/');
    const fits = (key: string): boolean => {
      const [pattern = '', ...prefix] = key.split('/');
      const source = pattern.replace(/[.]/g, '\\.').replace(/[*]/g, '[^.:]*').replace(/[?]/g, '[^.:]');
      return new RegExp(`^${source}$`).test(registry) && rest.join('/').startsWith(prefix.join('/'));
    };
    return [...new Set(keys.filter(fits))].sort().reverse();
  }

  test('those that match are the ones of a simple model, in its order', () => {
    fc.assert(
      fc.property(image, fc.uniqueArray(entry, { maxLength: 8 }), fc.nat(), (name, keys, cut) => {
        const parsed = parseReference(name);
        if (!parsed.ok) throw new Error(parsed.problem);
        const at = cut % (keys.length + 1);
        const secrets = [keys.slice(0, at), keys.slice(at)].map((some) =>
          config(Object.fromEntries(some.map((k) => [k, auth(k.replaceAll(':', '!'))]))),
        );
        const found = credentialsFor(parsed.reference, secrets).map(({ username }) => username.replaceAll('!', ':'));
        expect(found).toEqual(model(name, keys));
      }),
      { numRuns: 300 },
    );
  });

  test('broken input never throws and never shows a part of it', () => {
    const parsed = parseReference('r.example.com/a:1');
    if (!parsed.ok) throw new Error(parsed.problem);
    fc.assert(
      fc.property(fc.oneof(fc.json(), fc.string(), fc.base64String()), fc.boolean(), (text, encoded) => {
        const data = encoded ? base64(text) : text;
        for (const key of ['.dockerconfigjson', '.dockercfg']) {
          const keyring = parsePullSecret({ data: { [key]: data } });
          expect(Array.isArray(credentialsFor(parsed.reference, [keyring]))).toBe(true);
        }
        parseDockerConfig(JSON.stringify({ auths: text }));
      }),
      { numRuns: 300 },
    );
  });
});

describe('kinds of secrets', () => {
  const auths = { 'r.example.com': auth('u') };
  test('dockerconfigjson', () => {
    expect(
      parsePullSecret({
        type: 'kubernetes.io/dockerconfigjson',
        data: { '.dockerconfigjson': base64(JSON.stringify({ auths })) },
      }).entries,
    ).toHaveLength(1);
  });
  test('dockercfg, which has no auths around its entries', () => {
    expect(
      parsePullSecret({ type: 'kubernetes.io/dockercfg', data: { '.dockercfg': base64(JSON.stringify(auths)) } }).entries,
    ).toHaveLength(1);
  });
  test.each([
    ['no data', {}],
    ['another kind', { data: { password: base64('hunter2') } }],
    ['no JSON', { data: { '.dockerconfigjson': base64('hunter2') } }],
    ['no auths', { data: { '.dockerconfigjson': base64('{"credsStore":"hunter2"}') } }],
  ])('%s is a problem told without the content', (_, secret) => {
    const { entries, problems } = parsePullSecret(secret);
    expect(entries).toEqual([]);
    expect(problems).toHaveLength(1);
    expect(problems.join()).not.toContain('hunter2');
  });
});

test.each(['{"credsStore":"desktop","auths":{"r.example.com":{}}}', '{"credHelpers":{"r.example.com":"ecr-login"}}'])(
  'a file that leaves passwords to a helper says so: %s',
  (text) => {
    expect(parseDockerConfig(text)).toEqual({ entries: [], problems: [expect.stringContaining('credsStore, credHelpers')] });
    // The twin: what such a file holds itself is used.
    const auths = { 'other.example.com': { username: 'u', password: 'p' } };
    expect(parseDockerConfig(JSON.stringify({ ...JSON.parse(text), auths })).entries).toHaveLength(1);
  },
);

test('problems never repeat a part of a credential', () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[A-Za-z0-9]{12,20}$/),
      fc.constantFrom('auth', 'password', 'identitytoken'),
      (secret, field) => {
        expect(config({ 'r.example.com': { [field]: secret }, 'bad host': { [field]: secret } }).problems.join()).not.toContain(
          secret,
        );
      },
    ),
  );
});

test('a hostile pattern costs no time', () => {
  const started = performance.now();
  expect(userFor(`${'a'.repeat(60)}.example.com/x:1`, { [`${'*a'.repeat(2000)}b.example.com`]: auth('u') })).toBeUndefined();
  expect(performance.now() - started).toBeLessThan(200);
});
