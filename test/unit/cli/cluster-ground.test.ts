import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { ClusterGround } from '../../../src/cli/cluster-ground.js';
import type { ClusterOptions } from '../../../src/cli/cluster-ground.js';
import { Explainer } from '../../../src/cli/explain.js';
import { Notes } from '../../../src/cli/ground.js';
import { localConfig, namedRegistries } from '../../../src/cli/registries.js';
import { parseConfig } from '../../../src/config/load.js';
import { parseReference } from '../../../src/images/reference.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { KubePort } from '../../../src/kube/port.js';
import { MemoryRegistry } from '../images/support.js';

type Raw = Record<string, unknown>;

/** Objects by `Kind namespace/name`; a status instead of one is how reading it fails. Absent ones are not found. */
function cluster(objects: Record<string, Raw | number>): { client: Pick<KubePort, 'get' | 'list'>; asked: string[] } {
  const asked: string[] = [];
  const fail = (what: string, status: number): never => {
    throw new KubeError(`${what}: ${status}`, { status, reason: 'Test' });
  };
  const client = {
    get: (resource: { kind: string }, { namespace, name }: { namespace?: string; name: string }) => {
      const key = `${resource.kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
      asked.push(key);
      const found = objects[key] ?? 404;
      return new Promise((resolve) => resolve(typeof found === 'number' ? fail(key, found) : { metadata: { name }, ...found }));
    },
    async *list(resource: { kind: string }) {
      asked.push(`${resource.kind} *`);
      const all = objects[`${resource.kind} *`] ?? {};
      if (typeof all === 'number') fail(resource.kind, all);
      yield await Promise.resolve((all as { items?: Raw[] }).items ?? []);
    },
  };
  return { client: client as unknown as Pick<KubePort, 'get' | 'list'>, asked };
}

const config = (more: object): Raw => ({ data: { 'config.yaml': stringify(more) } });

async function ground(objects: Record<string, Raw | number>, more: Partial<ClusterOptions> = {}) {
  const { client, asked } = cluster(objects);
  const read = await ClusterGround.read({
    client,
    installedIn: 'harbinger-system',
    namespaceLabels: {},
    assumptions: { platforms: [], capable: [] },
    now: () => 0,
    ...more,
  });
  return { read, asked };
}

const CONFIG = 'ConfigMap harbinger-system/harbinger-config';
const POD = { apiVersion: 'v1', kind: 'Pod', metadata: {}, spec: { containers: [{ name: 'a', image: 'r.example.com/a:1' }] } };

describe('a read that fails', () => {
  test.each([
    [404, 'absent'],
    [403, 'you may not read it'],
  ])('with %i is a note with what is assumed', async (status, cause) => {
    const { read } = await ground({ [CONFIG]: status, 'AccelerationPolicy *': status });
    await read.namespace('ns');
    expect(read.configured).toBe(false);
    expect(read.notes.all).toEqual(expect.arrayContaining([expect.stringContaining(`not read: ${CONFIG} (${cause})`)]));
    expect(read.notes.all).toHaveLength(4);
  });

  test.each([401, 500, 0])('with %i is an error: what follows would be an assumption as a whole', async (status) => {
    await expect(ground({ [CONFIG]: status })).rejects.toThrow(KubeError);
  });

  test('is told once, however many Pods need it', async () => {
    const { read } = await ground({});
    await Promise.all([read.namespace('ns'), read.namespace('ns')]);
    await read.namespace('ns');
    expect(read.notes.all.filter((note) => note.includes('Namespace ns'))).toHaveLength(1);
  });

  test('a configuration that no process would take is an error that names the ConfigMap', async () => {
    await expect(ground({ [CONFIG]: config({ modus: 'On' }) })).rejects.toThrow(/harbinger-config.*modus/);
  });

  test('a policy that webhooks ignore is a note', async () => {
    const { read } = await ground({ 'AccelerationPolicy *': { items: [{ metadata: { name: 'bad' }, spec: {} }] } });
    expect(read.policies).toEqual([]);
    expect(read.notes.all).toContainEqual(expect.stringContaining('AccelerationPolicy bad is ignored'));
  });
});

describe('what is read', () => {
  test('of a RuntimeClass is what admission adds to the Pod', async () => {
    const scheduling = { nodeSelector: { pool: 'nydus' }, tolerations: [{ key: 'pool' }] };
    const { read } = await ground({ 'RuntimeClass lazy': { scheduling } });
    const pod = { ...POD, spec: { ...POD.spec, runtimeClassName: 'lazy', nodeSelector: { a: 'b' } } };
    expect((await read.admitted({ namespace: 'ns', pod }))['spec']).toMatchObject({
      nodeSelector: { a: 'b', pool: 'nydus' },
      tolerations: [{ key: 'pool' }],
    });
    expect(await read.admitted({ namespace: 'ns', pod: POD })).toBe(POD);
  });

  const registry = { registries: [{ host: 'r.example.com' }], rewrite: { podSecrets: 'WhereAllowed' } };
  const secret = (password: string): Raw => {
    const auths = { 'r.example.com': { username: 'u', password } };
    return { data: { '.dockerconfigjson': Buffer.from(JSON.stringify({ auths })).toString('base64') } };
  };
  const credentialsOf = async (objects: Record<string, Raw | number>, spec: object = {}) => {
    const { read, asked } = await ground({ [CONFIG]: config(registry), ...objects });
    const parsed = parseReference('r.example.com/a:1');
    if (!parsed.ok) throw new Error(parsed.problem);
    const found = await read.credentials({ namespace: 'ns', pod: { ...POD, spec: { ...POD.spec, ...spec } } });
    return { chain: found.chainFor(parsed.reference), problem: found.problem, asked };
  };

  test('of pull secrets are the credentials that a kubelet would try, and then that of Harbinger', async () => {
    const { chain } = await credentialsOf({ 'Secret ns/s': secret('p') }, { imagePullSecrets: [{ name: 's' }] });
    expect(chain).toEqual([{ username: 'u', password: 'p' }, undefined]);
  });

  test('of a ServiceAccount are the secrets of a Pod that names none', async () => {
    const account = { imagePullSecrets: [{ name: 's' }] };
    const { chain } = await credentialsOf({ 'ServiceAccount ns/default': account, 'Secret ns/s': secret('p') });
    expect(chain).toHaveLength(2);
  });

  test('a secret that may not be read is gone on without, and named', async () => {
    const { chain, problem } = await credentialsOf({ 'Secret ns/s': 403 }, { imagePullSecrets: [{ name: 's' }] });
    expect([chain, problem]).toEqual([[undefined], 'Secret ns/s was not read']);
  });

  test.each([
    ['policies ask no registry', { podSecrets: 'WhereAllowed' }],
    ['the configuration does not want it', { podSecrets: 'Off' }],
  ])('no secret is read where %s', async (_, rewrite) => {
    const { read, asked } = await ground({ [CONFIG]: config({ rewrite }) });
    await new Explainer({ ground: read, port: new MemoryRegistry() }).pod({ namespace: 'ns', pod: POD });
    expect(asked.filter((key) => /Secret|ServiceAccount/.test(key))).toEqual([]);
  });
});

describe('records', () => {
  const prewarm = (name: string, uid: string): Raw => ({
    metadata: { name, namespace: 'ns' },
    spec: { gangRef: { apiGroup: 'batch', kind: 'Job', name: 'train', uid } },
  });
  const objects = { 'ImagePrewarm *': { items: [prewarm('one', 'u1')] } };
  const gang = { apiGroup: 'batch', kind: 'Job', name: 'train' };

  test.each([
    ['the uid of the owner', { metadata: { ownerReferences: [{ controller: true, uid: 'u1' }] } }, undefined, ['ns/one']],
    ['another uid', { metadata: { ownerReferences: [{ controller: true, uid: 'u2' }] } }, undefined, []],
    ['the name of an object that has no uid yet', {}, gang, ['ns/one']],
    ['another name', {}, { ...gang, name: 'other' }, []],
    ['the name of an object that was made anew', {}, { ...gang, uid: 'u2' }, []],
    ['nothing', {}, undefined, []],
  ])('are found by %s', async (_, pod, gangOf, wanted) => {
    const { read } = await ground(objects);
    const found = await read.records({ namespace: 'ns', pod: { ...POD, ...pod }, gang: gangOf });
    expect(found.map((record) => record.prewarm)).toEqual(wanted);
  });
});

describe('registries of a configuration that lies in a cluster', () => {
  const cluster = parseConfig(
    stringify({
      registries: [
        { host: 'a.example.com', caFile: '/etc/ca.pem', credential: { exec: { command: '/bin/plugin' } } },
        { host: 'b.example.com', credential: { dockerConfigFile: '/etc/docker.json', forPods: false } },
        { host: 'c.example.com', allow: false },
      ],
    }),
    'test',
  );

  test('lose files and programs of Pods, which is told', () => {
    const notes = new Notes();
    const { registries } = localConfig(cluster, notes);
    expect(registries.map(({ host, allow, caFile, credential }) => ({ host, allow, caFile, credential }))).toEqual([
      { host: 'a.example.com', allow: true },
      { host: 'b.example.com', allow: true },
      { host: 'c.example.com', allow: false },
    ]);
    expect(notes.all).toHaveLength(3);
  });

  test('get the credentials of whoever asks, used for Pods only where Harbinger would', () => {
    const { registries } = localConfig(cluster, new Notes(), '/home/me/config.json');
    expect(registries.map(({ credential }) => credential)).toEqual([
      { dockerConfigFile: '/home/me/config.json', forPods: true },
      { dockerConfigFile: '/home/me/config.json', forPods: false },
      { dockerConfigFile: '/home/me/config.json', forPods: true },
    ]);
  });

  test('that nobody configured are those of the images', () => {
    expect(namedRegistries(['r.example.com']).registries).toMatchObject([{ host: 'r.example.com', plainHTTP: false }]);
  });
});
