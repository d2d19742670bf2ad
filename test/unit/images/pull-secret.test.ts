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
