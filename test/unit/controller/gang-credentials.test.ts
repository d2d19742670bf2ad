import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmSpec, PrewarmTarget } from '../../../src/api/kinds/image-prewarm.js';
import type { KubeObject } from '../../../src/api/object.js';
import { harbingerConfig } from '../../../src/config/schema.js';
import { GangCredentials } from '../../../src/controller/gangs/credentials.js';
import { Lookups } from '../../../src/controller/images/lookups.js';
import type { Lookup } from '../../../src/controller/prewarm/snapshot.js';
import type { Reference } from '../../../src/images/reference.js';
import type { LookupOptions, ManifestFact } from '../../../src/images/registry-port.js';
import { RegistryError } from '../../../src/images/registry-port.js';
import { KubeError } from '../../../src/kube/errors.js';
import type { ObjectName } from '../../../src/kube/port.js';
import type { Resource } from '../../../src/kube/resources.js';
import { Metrics } from '../../../src/observe/metrics.js';
import { CachedRegistry } from '../../../src/registry/cache.js';
import { bodyDigest, manifestBody, MemoryRegistry } from '../images/support.js';
import { FakeClock, keepLog } from '../kube/fake-clock.js';
import { prewarm, SOURCE, T0 } from './fixtures.js';

const body = manifestBody({ name: 'train' });
const BY_DIGEST = `reg.example.com/train@${bodyDigest(body)}`;
const PASSWORD = 's3cr3t';
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const secret = (password: string, host = 'reg.example.com'): Record<string, unknown> => ({
  data: { '.dockerconfigjson': base64(JSON.stringify({ auths: { [host]: { auth: base64(`user:${password}`) } } })) },
});
const forbidden = new KubeError(`secrets "pull" is forbidden: ${PASSWORD}`, { status: 403, reason: 'Forbidden' });

/** A registry that shows its image to one password, and to Harbinger's own credential where `own`. */
class Private extends MemoryRegistry {
  own = false;
  override manifest(reference: Reference, options: LookupOptions = {}): Promise<ManifestFact> {
    const shown = options.credential === undefined ? this.own : options.credential.password === PASSWORD;
    if (shown) return super.manifest(reference, options);
    this.options.push(options);
    const message = 'registry reg.example.com denies access (401)';
    return Promise.reject(new RegistryError(message, { outcome: 'auth-denied', host: reference.registry, status: 401 }));
  }
}

interface Setting {
  objects?: Record<string, Record<string, unknown> | Error>;
  config?: Record<string, unknown>;
}
const ALLOWED = { pullers: { workloadNamespaces: 'WhereAllowed' } };

function make({ objects = {}, config = ALLOWED }: Setting) {
  const clock = new FakeClock(T0);
  const { log, lines } = keepLog();
  const registry = new Private().set(SOURCE, body);
  const port = new CachedRegistry(registry, { clock, metrics: new Metrics() });
  const got: string[] = [];
  const client = {
    get: <T extends KubeObject>(resource: Resource, { namespace, name }: ObjectName): Promise<T> => {
      const key = `${resource.plural}/${namespace ?? ''}/${name}`;
      got.push(key);
      const found = objects[key] ?? new KubeError('not found', { status: 404, reason: 'NotFound' });
      return found instanceof Error ? Promise.reject(found) : Promise.resolve(found as unknown as T);
    },
  };
  const parsed = harbingerConfig.parse(config);
  const credentials = new GangCredentials({ client, clock, log, config: () => parsed });
  const facts = {
    registry: () => port,
    policies: () => [],
    namespaceLabels: () => ({}),
    nodeClasses: () => undefined,
    runtimeClass: () => undefined,
    clock,
  };
  const lookups = new Lookups(facts, credentials);
  const look = async (
    target: Partial<PrewarmTarget> = {},
    { source = SOURCE, namespace = 'team' } = {},
  ): Promise<Lookup | undefined> => {
    const spec: Partial<ImagePrewarmSpec> = {
      targets: [{ name: 'main', images: [{ reference: source }], nodes: { selector: {} }, ...target }],
    };
    const object = prewarm({}, spec);
    const asked = { ...object, metadata: { ...object.metadata, namespace } };
    const again = lookups.of(`${namespace}/p`).has(source);
    await lookups.look(`${namespace}/p`, asked, [{ source, fresh: again }], { platforms: [] });
    return lookups.of(`${namespace}/p`).get(source);
  };
  return { look, registry, got, clock, lines, objects };
}

const named = { imagePullSecrets: [{ name: 'pull' }] };
const found = { ok: true, digest: bodyDigest(body), pulledWith: 'Workload', sizeBytes: 2100 };
const TEAM = { 'secrets/team/pull': secret(PASSWORD) };

describe('an image that Harbinger itself may not read', () => {
  test.each<[string, Setting, Partial<PrewarmTarget>, object]>([
    ['is read with the pull secret that the target names', { objects: TEAM }, named, found],
    [
      'is read with the pull secret of the service account where the target names none',
      { objects: { 'serviceaccounts/team/train': { imagePullSecrets: [{ name: 'pull' }] }, ...TEAM } },
      { serviceAccountName: 'train' },
      found,
    ],
    [
      'is read with that of the account named default where the target names neither',
      { objects: { 'serviceaccounts/team/default': { imagePullSecrets: [{ name: 'pull' }] }, ...TEAM } },
      {},
      found,
    ],
    [
      'is not read with secrets of the account where the target names one, as in Pods',
      {
        objects: {
          'serviceaccounts/team/default': { imagePullSecrets: [{ name: 'pull' }] },
          ...TEAM,
          'secrets/team/other': secret('wrong'),
        },
      },
      { imagePullSecrets: [{ name: 'other' }] },
      { ok: false, reason: 'AuthDenied' },
    ],
    [
      'is not read where secrets of gangs are not used, and the message says how to allow it',
      { objects: TEAM, config: {} },
      named,
      {
        ok: false,
        message: expect.stringMatching(
          /set pullers.workloadNamespaces to WhereAllowed and bind ClusterRole harbinger-workload-pullers/,
        ),
      },
    ],
    [
      'is not read where the secret may not be, and the message names the role to bind',
      { objects: { 'secrets/team/pull': forbidden } },
      named,
      {
        ok: false,
        message: expect.stringMatching(
          /Secret team\/pull may not be read by the controller; bind ClusterRole harbinger-workload-pullers in namespace team/,
        ),
      },
    ],
    [
      'is not read where there is no such secret',
      {},
      named,
      { ok: false, message: expect.stringContaining('Secret team/pull does not exist') },
    ],
    [
      'is not read where the secret is for another registry',
      { objects: { 'secrets/team/pull': secret(PASSWORD, 'other.example.com') } },
      named,
      { ok: false, message: expect.stringContaining('no pull secret of the gang (pull) has an entry for reg.example.com/train') },
    ],
    [
      'is not read where the gang names no secret at all',
      { objects: { 'serviceaccounts/team/default': {} } },
      {},
      { ok: false, message: expect.stringContaining('the gang names no pull secret') },
    ],
  ])('%s', async (_title, setting, target, expected) => {
    const { look, lines } = make(setting);
    const answer = await look(target);
    expect(answer).toMatchObject(expected);
    expect(JSON.stringify([answer, lines])).not.toContain(PASSWORD);
  });

  test('the control: what it may read costs no look at any secret', async () => {
    const { look, registry, got } = make({ objects: TEAM });
    registry.own = true;
    const answer = await look(named);
    expect(answer).toMatchObject({ ok: true, digest: bodyDigest(body) });
    expect(answer).not.toHaveProperty('pulledWith');
    expect(got).toEqual([]);
  });

  test('is found once its secret appears, at the next look after a quarter of a minute', async () => {
    const { look, clock, objects } = make({});
    expect(await look(named)).toMatchObject({ ok: false });
    objects['secrets/team/pull'] = secret(PASSWORD);
    await clock.advance(16_000);
    expect(await look(named)).toMatchObject(found);
  });

  test('is found once its secret was put right, though the wrong one is remembered', async () => {
    const { look, clock, objects } = make({ objects: { 'secrets/team/pull': secret('wrong') } });
    expect(await look(named)).toMatchObject({ ok: false });
    objects['secrets/team/pull'] = secret(PASSWORD);
    await clock.advance(16_000);
    await look(named);
    expect(await look(named)).toMatchObject(found);
  });

  test('asks with its own credential once a minute at most, however often gangs ask', async () => {
    const { look, registry } = make({ objects: TEAM });
    for (let i = 0; i < 10; i++) await look(named);
    expect(registry.options.filter((o) => o.credential === undefined)).toHaveLength(1);
  });
});

describe('what the secret of one namespace reads (P6)', () => {
  test.each<[string, Partial<PrewarmTarget>]>([
    ['that names a secret of the same name', named],
    ['that names none', {}],
  ])('is not told to a gang of another namespace %s', async (_title, target) => {
    const { look } = make({ objects: TEAM });
    expect(await look(named)).toMatchObject(found);
    expect(await look(target, { namespace: 'other' })).toMatchObject({ ok: false, reason: 'AuthDenied' });
  });
  test('the control: is told to one that has the same right by a secret of its own', async () => {
    const { look } = make({ objects: { ...TEAM, 'secrets/other/pull': secret(PASSWORD) } });
    expect(await look(named)).toMatchObject(found);
    expect(await look(named, { namespace: 'other' })).toMatchObject(found);
  });
});

describe('an image that nobody shows to the controller, and that nodes may be able to pull', () => {
  const guarded = {
    registries: [{ host: 'reg.example.com', credential: { dockerConfigFile: '/x', forPods: false } }],
  };
  const unread = {
    ok: true,
    digest: bodyDigest(body),
    resolved: BY_DIGEST,
    outcome: 'pinned',
    message: expect.stringMatching(/^size and variants unknown, nodes pull it with their own credentials: .*\(401\)/),
  };
  test.each<[string, Record<string, unknown>, string, object]>([
    ['H-22: is warmed plain where its name has the digest', {}, BY_DIGEST, unread],
    [
      'cannot be pinned where its name has a tag, and the message says what to do',
      {},
      SOURCE,
      { ok: false, reason: 'AuthDenied', message: expect.stringContaining('name the image by digest (repository@sha256:...)') },
    ],
    [
      "is left where pullers have secrets of Harbinger's and its rights may show gangs nothing",
      { ...guarded, pullers: { pullSecrets: ['harbinger-pull'] } },
      BY_DIGEST,
      { ok: false, reason: 'AuthDenied' },
    ],
    ['is warmed where only nodes have credentials, which serve every Pod', guarded, BY_DIGEST, unread],
  ])('%s', async (_title, config, source, expected) => {
    const answer = await make({ config }).look({}, { source });
    expect(answer).toMatchObject(expected);
    expect(answer).not.toHaveProperty('sizeBytes');
  });
});
