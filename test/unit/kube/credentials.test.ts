import { mkdtempSync, writeFileSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { KubeClient } from '../../../src/kube/client.js';
import { Credentials } from '../../../src/kube/credentials.js';
import { isUnauthorized } from '../../../src/kube/errors.js';
import { RESOURCE } from '../../../src/kube/resources.js';
import { HttpApi, json, kubeconfig, status } from './http-api.js';

const dir = (): string => mkdtempSync(join(tmpdir(), 'harbinger-credentials-'));

describe('credentials', () => {
  test('a token file is read again after a minute, not sooner, and a missing one keeps the old token', async () => {
    const tokenFile = join(dir(), 'token');
    writeFileSync(tokenFile, 'one\n');
    let now = 0;
    const credentials = await Credentials.load(
      kubeconfig('https://k', { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } }),
      () => now,
    );
    const token = async (): Promise<string | undefined> => (await credentials.current()).headers['authorization'];
    expect(await token()).toBe('Bearer one');
    writeFileSync(tokenFile, 'two');
    now = 59_000;
    expect(await token()).toBe('Bearer one');
    now = 60_000;
    expect(await token()).toBe('Bearer two');
    writeFileSync(tokenFile, '');
    now = 90_000;
    expect(await token()).toBe('Bearer two');
  });

  test('a CA that was replaced changes the fingerprint, the same one does not', async () => {
    const caFile = join(dir(), 'ca.crt');
    writeFileSync(caFile, 'CA 1');
    let now = 0;
    const credentials = await Credentials.load(kubeconfig('https://k', {}, { 'certificate-authority': caFile }), () => now);
    const first = await credentials.current();
    now = 61_000;
    const same = await credentials.current();
    writeFileSync(caFile, 'CA 2');
    now = 122_000;
    const other = await credentials.current();
    expect([first.tls.ca, other.tls.ca]).toEqual(['CA 1', 'CA 2']);
    expect(same.fingerprint).toBe(first.fingerprint);
    expect(other.fingerprint).not.toBe(first.fingerprint);
  });

  test.each([
    ['a token', { token: 'abc' }, { authorization: 'Bearer abc' }],
    ['a password', { username: 'u', password: 'p' }, { authorization: 'Basic dTpw' }],
    ['impersonation', { token: 'abc', as: 'jane' }, { authorization: 'Bearer abc', 'impersonate-user': 'jane' }],
    ['nothing', {}, {}],
  ])('%s becomes headers', async (_what, user, headers) => {
    const credentials = await Credentials.load(kubeconfig('https://k', user));
    expect((await credentials.current()).headers).toEqual(headers);
  });

  test('an exec plugin gives the token', async () => {
    const answer = JSON.stringify({
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'from-plugin' },
    });
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: process.execPath,
      args: ['-e', `console.log(${JSON.stringify(answer)})`],
    };
    const credentials = await Credentials.load(kubeconfig('https://k', { exec }));
    expect((await credentials.current()).headers).toEqual({ authorization: 'Bearer from-plugin' });
  });

  test('a context beside the current one can be asked for by name', async () => {
    const path = kubeconfig('https://current');
    const config = JSON.parse(readFileSync(path, 'utf8')) as Record<'clusters' | 'contexts' | 'users', { name: string }[]>;
    config.clusters.push({ name: 'd', cluster: { server: 'https://other' } } as { name: string });
    const context = { cluster: 'd', user: config.users[0]?.name, namespace: 'research' };
    config.contexts.push({ name: 'other', context } as { name: string });
    writeFileSync(path, JSON.stringify(config));
    expect(await Credentials.load(path, Date.now, 'other')).toMatchObject({ server: 'https://other', namespace: 'research' });
    expect(await Credentials.load(path)).toMatchObject({ server: 'https://current', namespace: undefined });
    await expect(Credentials.load(path, Date.now, 'nope')).rejects.toThrow(/no context "nope"; it has .*other/);
  });

  test.each([
    ['a file that is missing', '/nonexistent/kubeconfig', /cannot read the kubeconfig \/nonexistent\/kubeconfig/],
    ['a context without cluster', 'no-cluster', /names no cluster in its current context/],
  ])('%s is named', async (_what, path, wanted) => {
    if (path === 'no-cluster') {
      path = kubeconfig('https://k');
      writeFileSync(path, readFileSync(path, 'utf8').replace('"cluster":"c"', '"cluster":"missing"'));
    }
    await expect(Credentials.load(path)).rejects.toThrow(wanted);
  });
});

describe('a 401', () => {
  let api: HttpApi;
  beforeEach(async () => (api = await HttpApi.start()));
  afterEach(() => api.stop());

  const onlyWith = (token: string): void =>
    api.answer(({ headers }, response) =>
      headers.authorization === `Bearer ${token}`
        ? json(response, 200, { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' } })
        : json(response, 401, status(401, 'Unauthorized', 'Unauthorized')),
    );

  test('is answered with what the kubeconfig says now', async () => {
    const path = kubeconfig(api.url, { token: 'old' });
    const client = await KubeClient.fromKubeconfig(path, { userAgent: 'test' });
    onlyWith('old');
    await client.get(RESOURCE.nodes, { name: 'n' });
    writeFileSync(path, readFileSync(path, 'utf8').replace('"old"', '"new"'));
    onlyWith('new');
    await client.get(RESOURCE.nodes, { name: 'n' });
    expect(api.seen.map((s) => s.headers.authorization)).toEqual(['Bearer old', 'Bearer old', 'Bearer new']);
    await client.close();
  });

  test('that stays is an error after one more try', async () => {
    const client = await KubeClient.fromKubeconfig(kubeconfig(api.url, { token: 'wrong' }), { userAgent: 'test' });
    onlyWith('right');
    const error: unknown = await client.get(RESOURCE.nodes, { name: 'n' }).catch((e: unknown) => e);
    expect(isUnauthorized(error)).toBe(true);
    expect(api.seen).toHaveLength(2);
    await client.close();
  });
});
