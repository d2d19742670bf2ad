import { describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../../src/api/object.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { ObjectName } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { PodCredentials } from '../../../src/webhook/pod-credentials.js';
import { FakeClock, keepLog, settle } from '../kube/fake-clock.js';
import { makePod, mustView } from '../rewrite/builders.js';

const SECOND = 1_000;
const image = { registry: 'r.example', repository: 'team/app', tag: 'v1' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const dockerConfig = (password: string, host = 'r.example'): Record<string, string> => ({
  '.dockerconfigjson': base64(JSON.stringify({ auths: { [host]: { auth: base64(`user:${password}`) } } })),
});
const legacy = (password: string): Record<string, string> => ({
  '.dockercfg': base64(JSON.stringify({ 'r.example': { username: 'user', password } })),
});
const refusal = (status: number, reason: string): KubeError =>
  new KubeError(`secrets "pull" ${reason}: s3cr3t`, { status, reason });

type Objects = Record<string, Record<string, unknown> | Error | Promise<never>>;

function make(objects: Objects) {
  const clock = new FakeClock();
  const { log, lines } = keepLog();
  const got: string[] = [];
  const client = {
    get: async <T extends KubeObject>(resource: Resource, { namespace, name }: ObjectName): Promise<T> => {
      const key = `${resource.plural}/${namespace ?? ''}/${name}`;
      got.push(key);
      const found = (await objects[key]) ?? refusal(404, 'NotFound');
      if (found instanceof Error) throw found;
      return found as unknown as T;
    },
  };
  const credentials = new PodCredentials({ client, clock, log });
  const pod = (...secrets: string[]) =>
    mustView(makePod({ app: 'x' }, {}, { imagePullSecrets: secrets.map((name) => ({ name })) }));
  const passwords = async (view = pod('pull')): Promise<(string | undefined)[]> =>
    (await credentials.of('team', view, 500)).chainFor(image).map((c) => c?.password);
  return { clock, lines, got, credentials, pod, passwords, objects };
}

describe('PodCredentials', () => {
  test.each<[string, Objects, (string | undefined)[]]>([
    ['a docker config', { 'secrets/team/pull': { data: dockerConfig('one') } }, ['one', undefined]],
    ['the older form', { 'secrets/team/pull': { data: legacy('two') } }, ['two', undefined]],
    ['an entry for another registry', { 'secrets/team/pull': { data: dockerConfig('x', 'other.example') } }, [undefined]],
    ['no such secret', {}, [undefined]],
    ['the same name in another namespace', { 'secrets/other/pull': { data: dockerConfig('x') } }, [undefined]],
    ['a secret of another kind', { 'secrets/team/pull': { data: { token: base64('x') } } }, [undefined]],
    ['data that is no map', { 'secrets/team/pull': { data: 'x' } }, [undefined]],
  ])('%s; its own credential comes last', async (_, objects, want) => {
    expect(await make(objects).passwords()).toEqual(want);
  });

  test('several secrets serve in their order, at most three credentials', async () => {
    const objects = Object.fromEntries(['a', 'b', 'c', 'd'].map((n) => [`secrets/team/${n}`, { data: dockerConfig(n) }]));
    const { passwords, pod } = make(objects);
    expect(await passwords(pod('b', 'a'))).toEqual(['b', 'a', undefined]);
    expect(await passwords(pod('a', 'b', 'c', 'd'))).toEqual(['a', 'b', 'c', undefined]);
  });

  test('those of the ServiceAccount count only where the Pod names none', async () => {
    const objects = {
      'serviceaccounts/team/default': { imagePullSecrets: [{ name: 'account' }] },
      'serviceaccounts/team/builder': {},
      'secrets/team/account': { data: dockerConfig('account') },
      'secrets/team/pull': { data: dockerConfig('own') },
    };
    const { passwords, pod, got } = make(objects);
    expect(await passwords(pod('pull'))).toEqual(['own', undefined]);
    expect(got).toEqual(['secrets/team/pull']);
    expect(await passwords(pod())).toEqual(['account', undefined]);
    expect(await passwords(mustView(makePod({ app: 'x' }, {}, { serviceAccountName: 'builder' })))).toEqual([undefined]);
  });

  test('a thousand Pods at once read a secret once', async () => {
    const { passwords, got } = make({ 'secrets/team/pull': { data: dockerConfig('one') } });
    const all = await Promise.all(Array.from({ length: 1_000 }, () => passwords()));
    expect([got.length, new Set(all.map((p) => p[0]))]).toEqual([1, new Set(['one'])]);
  });

  test('a rotated secret is seen after a minute, or soon after a denial', async () => {
    const { passwords, pod, clock, credentials, objects } = make({ 'secrets/team/pull': { data: dockerConfig('old') } });
    await passwords();
    objects['secrets/team/pull'] = { data: dockerConfig('new') };
    await clock.advance(59 * SECOND);
    expect(await passwords()).toEqual(['old', undefined]);
    (await credentials.of('team', pod('pull'), 500)).doubt();
    expect(await passwords()).toEqual(['new', undefined]);
    objects['secrets/team/pull'] = { data: dockerConfig('newest') };
    // A denial right after reading says nothing about the secret's age.
    (await credentials.of('team', pod('pull'), 500)).doubt();
    expect(await passwords()).toEqual(['new', undefined]);
    await clock.advance(61 * SECOND);
    expect(await passwords()).toEqual(['newest', undefined]);
  });

  test.each<[string, KubeError | undefined, RegExp]>([
    [
      'may not be read',
      refusal(403, 'Forbidden'),
      /Secret team\/pull may not be read.*bind ClusterRole harbinger-pull-secrets in namespace team/,
    ],
    ['is not there', undefined, /Secret team\/pull does not exist/],
    ['cannot be read', refusal(500, 'InternalError'), /Secret team\/pull could not be read/],
  ])('a secret that %s is told once, without a word of the API server, and tried again soon', async (_, error, want) => {
    const { credentials, pod, lines, clock, got } = make(error === undefined ? {} : { 'secrets/team/pull': error });
    const tell = async (): Promise<string | undefined> => (await credentials.of('team', pod('pull'), 500)).problem;
    expect(await tell()).toMatch(want);
    await tell();
    expect([lines.length, got.length]).toEqual([1, 1]);
    await clock.advance(16 * SECOND);
    expect(await tell()).toMatch(want);
    expect([lines.length, got.length]).toEqual([1, 2]);
    expect(JSON.stringify(lines)).not.toContain('s3cr3t');
  });

  test('an API server that says nothing costs the time that there is, and no more', async () => {
    const { credentials, pod, clock } = make({ 'secrets/team/pull': new Promise<never>(() => undefined) });
    const found = credentials.of('team', pod('pull'), 500);
    let done = false;
    void found.then(() => (done = true));
    await clock.advance(499);
    expect(done).toBe(false);
    await clock.advance(2);
    await settle();
    expect((await found).problem).toMatch(/was not read in time/);
    expect((await found).chainFor(image)).toEqual([undefined]);
  });

  test('a secret with a thousand registries is not looked through', async () => {
    const auths = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`r${i}.example`, { auth: base64('u:p') }]));
    const data = { '.dockerconfigjson': base64(JSON.stringify({ auths })) };
    const { credentials, pod } = make({ 'secrets/team/pull': { data } });
    expect((await credentials.of('team', pod('pull'), 500)).problem).toMatch(/more than 500 registries/);
  });

  test('nothing of a bad secret is logged', async () => {
    const data = { '.dockerconfigjson': base64('{"auths":{"r.example":{"auth":"aHVudGVyMg"}}') };
    const { passwords, lines } = make({ 'secrets/team/pull': { data } });
    expect(await passwords()).toEqual([undefined]);
    expect(lines).toHaveLength(1);
    for (const part of ['hunter2', 'aHVudGVyMg']) expect(JSON.stringify(lines)).not.toContain(part);
  });
});
