import { createServer as createHttp, request as httpRequest, type Server as HttpServer } from 'node:http';
import { createServer as createHttps, type Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { Pki } from '../../cluster/pki.js';
import { notYet, until } from '../../cluster/until.js';
import type { Images } from './ground.js';
import {
  ACCELERATED,
  NS,
  POLICY,
  decisionsOf,
  imageOf,
  metric,
  namespace,
  pod,
  policy,
  pushPair,
  pushPlain,
  untilOutcome,
  verdictOf,
} from './ground.js';

const TENANT = { name: 'tenant-a', user: 'puller', password: 'correct-horse-battery-staple' };
const OTHER_TENANT = 'tenant-b';
/** Annotation of Pods that the other webhook opts out. */
const OPT_OUT = 'example.com/opt-out';

/** The registry of the cluster behind a door that asks for a user name and a password. */
async function privateDoor(registry: string): Promise<{ host: string; server: HttpServer }> {
  const key = `Basic ${Buffer.from(`${TENANT.user}:${TENANT.password}`).toString('base64')}`;
  const server = createHttp((incoming, outgoing) => {
    if (incoming.headers.authorization !== key) {
      outgoing.writeHead(401, { 'www-authenticate': 'Basic realm="private"' }).end('{}');
      return;
    }
    const [hostname = '', port = ''] = registry.split(':');
    const { authorization: _, host: __, ...headers } = incoming.headers;
    const onward = httpRequest({ hostname, port, path: incoming.url, method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

/**
 * Another mutating webhook, which adds a container to Pods labelled for it, as meshes do, and opts those out that ask for it. It comes after
 * ours by its name.
 */
async function injector(image: string): Promise<{ configuration: Draft; server: HttpsServer }> {
  const pki = await Pki.create('injector');
  const pair = pki.issue({ commonName: 'injector', addresses: ['127.0.0.1'] });
  const server = createHttps({ cert: pair.cert, key: pair.key }, (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const { request } = JSON.parse(Buffer.concat(chunks).toString()) as { request: { uid: string; object: Raw } };
      const there = (request.object['spec'].containers as { name: string }[]).some((c) => c.name === 'injected');
      const wish = request.object.metadata.annotations?.[OPT_OUT];
      const optOut = { op: 'add', path: '/metadata/annotations/harbinger.dev~1accelerate', value: 'false' };
      const ops = [
        { op: 'add', path: '/spec/containers/-', value: { name: 'injected', image } },
        ...(wish === undefined ? [] : [optOut]),
      ];
      const patch = there ? {} : { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(ops)).toString('base64') };
      const response = { uid: request.uid, allowed: true, ...patch };
      outgoing.writeHead(200, { 'content-type': 'application/json' });
      outgoing.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const webhook = {
    name: 'injector.example.com',
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    reinvocationPolicy: 'Never',
    clientConfig: { url, caBundle: Buffer.from(pki.caCert).toString('base64') },
    rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
    objectSelector: { matchLabels: { inject: 'true' } },
  };
  const configuration = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: 'zz-injector' },
    webhooks: [webhook],
  };
  return { configuration, server };
}

describe('details of admission', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let host: string;
  let door: { host: string; server: HttpServer };
  let mesh: { configuration: Draft; server: HttpsServer };
  let app: Images;
  let side: Images;
  let secret: Images;
  const create = (image: string, parts: Parameters<typeof pod>[1] = {}): Promise<Raw> => cluster.client.create(pod(image, parts));
  const variantOf = (images: Images): string => images.source.replace(/:v1$/, `@${images.variantDigest}`);
  const config = (rewrite: Record<string, unknown> = {}): Record<string, unknown> => ({
    registries: [host, door.host].map((h) => ({ host: h, plainHTTP: true, allowLocalAddresses: true })),
    // What a busy machine does to admissions is not what these tests are about.
    budgets: { admissionMs: 2_500, eventLoopLagMs: 5_000 },
    rewrite: { podSecrets: 'WhereAllowed', imageVolumes: true, ephemeralContainers: true, ...rewrite },
  });

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-details', say: () => undefined });
    host = cluster.registry.host;
    door = await privateDoor(host);
    [app, side, secret] = [
      await pushPair(cluster, 'team/app'),
      await pushPair(cluster, 'team/side'),
      await pushPair(cluster, 'private/model'),
    ];
    mesh = await injector(side.source);
    await cluster.client.apply([namespace(), namespace(TENANT.name), namespace(OTHER_TENANT), mesh.configuration]);
    harbinger = await cluster.installHarbinger({ controllers: 0, config: config() });
    await cluster.client.apply(policy('all', { match: { images: [`${host}/**`, `${door.host}/**`] } }));
    await untilOutcome(cluster, app.source, 'accelerated');
  }, 300_000);
  afterAll(async () => {
    door?.server.close();
    mesh?.server.close();
    await cluster?.stop();
  });

  test('init containers and sidecars are decided one by one', async () => {
    const plain = `${host}/team/plain:v1`;
    await pushPlain(cluster, 'team/plain', 'v1');
    const admitted = await create(app.source, {
      spec: {
        initContainers: [
          { name: 'first', image: app.source },
          { name: 'sidecar', image: plain, restartPolicy: 'Always' },
          { name: 'third', image: side.source },
        ],
        containers: [
          { name: 'main', image: plain },
          { name: 'last', image: side.source },
        ],
      },
    });
    const images = ['initContainers', 'containers'].map((f) => (admitted['spec'][f] as { image: string }[]).map((c) => c.image));
    expect(images).toEqual([
      [variantOf(app), plain, variantOf(side)],
      [plain, variantOf(side)],
    ]);
    expect(decisionsOf(admitted).map((d) => [d.container, d.outcome])).toEqual([
      ['first', 'accelerated'],
      ['sidecar', 'variant-missing'],
      ['third', 'accelerated'],
      ['main', 'variant-missing'],
      ['last', 'accelerated'],
    ]);
    const sidecar = await create(app.source, {
      spec: { initContainers: [{ name: 'sidecar', image: side.source, restartPolicy: 'Always' }] },
    });
    expect(sidecar['spec'].initContainers[0]).toMatchObject({ image: variantOf(side), restartPolicy: 'Always' });
  });

  test('a container that another webhook injects after us gets its variant, and what was decided before stays', async () => {
    const admitted = await create(app.source, { metadata: { labels: { inject: 'true' } } });
    expect((admitted['spec'].containers as { name: string; image: string }[]).map((c) => [c.name, c.image])).toEqual([
      ['app', variantOf(app)],
      ['injected', variantOf(side)],
    ]);
    expect(decisionsOf(admitted)).toMatchObject([
      { container: 'app', source: app.source, outcome: 'accelerated' },
      { container: 'injected', source: side.source, outcome: 'accelerated' },
    ]);
    // The control: without the label nothing is injected, and the same image is decided alike.
    const alone = await create(app.source);
    expect(decisionsOf(alone)).toEqual(decisionsOf(admitted).slice(0, 1));
  });

  test('a Pod that another webhook opts out after us gets its own image back, and nothing of ours stays', async () => {
    const metadata = { labels: { inject: 'true' }, annotations: { [OPT_OUT]: 'please' } };
    const admitted = await create(app.source, { metadata });
    expect((admitted['spec'].containers as { image: string }[]).map((c) => c.image)).toEqual([app.source, side.source]);
    expect(admitted.metadata.annotations).toMatchObject({ 'harbinger.dev/accelerate': 'false' });
    expect(decisionsOf(admitted)).toEqual([]);
    expect(admitted.metadata.labels).toEqual({ inject: 'true' });
    // The control: our first call had changed it, as the API server noted.
    expect(await verdictOf(cluster, admitted.metadata.name)).toBe('mutated');
  });

  test('image volumes get portable variants where the configuration says so', async () => {
    const volumes = [{ name: 'model', image: { reference: side.source, pullPolicy: 'IfNotPresent' } }];
    const admitted = await create(app.source, { spec: { volumes } });
    expect(admitted['spec'].volumes[0].image).toEqual({ reference: variantOf(side), pullPolicy: 'IfNotPresent' });
    expect(decisionsOf(admitted)).toMatchObject([{ container: 'app' }, { container: 'volume/model', outcome: 'accelerated' }]);
    harbinger.writeConfig(config({ imageVolumes: false }));
    await until('image volumes to be left', async () => {
      const left = await create(app.source, { spec: { volumes } });
      return left['spec'].volumes[0].image.reference === side.source || notYet(left['spec'].volumes[0]);
    });
    harbinger.writeConfig(config());
  });

  test('what kubectl debug adds gets a variant, and the Pod keeps all else', async () => {
    const before = await create(app.source);
    const { name } = before.metadata;
    const debug = (container: string, image: string): Promise<Raw> =>
      cluster.client.patch(
        'v1/Pod',
        `${NS}/${name}`,
        { spec: { ephemeralContainers: [{ name: container, image }] } },
        { type: 'strategic', subresource: 'ephemeralcontainers' },
      );
    const once = await until('the configuration to be in force', async () => {
      const probe = await debug(`probe-${Date.now()}`, side.source);
      const added = probe['spec'].ephemeralContainers as { image: string }[];
      return added.some((c) => c.image === variantOf(side)) ? probe : notYet(added);
    });
    expect(once.metadata.annotations).toEqual(before.metadata.annotations);
    const twice = await debug('again', app.source);
    const debuggers = twice['spec'].ephemeralContainers as { name: string; image: string }[];
    expect(debuggers.filter((c) => c.name === 'again').map((c) => c.image)).toEqual([variantOf(app)]);
    expect(debuggers.filter((c) => c.name !== 'again')).toEqual(once['spec'].ephemeralContainers);
    expect(imageOf(twice)).toBe(imageOf(before));
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['of an operator that nobody vouched for', { apiVersion: 'postgresql.example.io/v1', kind: 'Cluster' }, 'skipped-owner'],
    ['of a Job', { apiVersion: 'batch/v1', kind: 'Job' }, 'accelerated'],
  ])('a Pod %s', async (_, owner, outcome) => {
    const ownerReferences = [{ ...owner, name: 'o', uid: '6f8b7f8e-0000-4000-8000-000000000001', controller: true }];
    const admitted = await create(app.source, { metadata: { ownerReferences } });
    expect(decisionsOf(admitted)).toMatchObject([{ outcome, image: imageOf(admitted) }]);
    expect(imageOf(admitted) === app.source).toBe(outcome === 'skipped-owner');
  });

  test('a bare Pod that Argo CD keeps equal to a repository is left, its label and image unchanged', async () => {
    const annotations = { 'argocd.argoproj.io/tracking-id': 'app:/Pod:team/x' };
    const admitted = await create(app.source, { metadata: { annotations } });
    expect([imageOf(admitted), decisionsOf(admitted)[0]?.outcome]).toEqual([app.source, 'skipped-gitops']);
    expect(admitted.metadata.labels ?? {}).not.toHaveProperty(ACCELERATED);
  });

  describe('pull secrets of tenants', () => {
    const source = (): string => `${door.host}/private/model:v1`;
    const bind = (ns: string): Draft => ({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'harbinger', namespace: ns },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'harbinger-pull-secrets' },
      subjects: [{ kind: 'ServiceAccount', name: 'harbinger-webhook', namespace: 'harbinger-system' }],
    });
    const pullSecret = (password: string, name = 'pull'): Draft => {
      const auths = { [door.host]: { auth: Buffer.from(`${TENANT.user}:${password}`).toString('base64') } };
      const data = { '.dockerconfigjson': Buffer.from(JSON.stringify({ auths })).toString('base64') };
      return {
        apiVersion: 'v1',
        kind: 'Secret',
        type: 'kubernetes.io/dockerconfigjson',
        metadata: { name, namespace: TENANT.name },
        data,
      };
    };
    const inTenant = (ns: string, name = 'pull'): Parameters<typeof pod>[1] => ({
      namespace: ns,
      spec: { imagePullSecrets: [{ name }] },
    });

    test("one's secret gives it the variant; another without it is denied and told no digest", async () => {
      await cluster.client.apply([bind(TENANT.name), bind(OTHER_TENANT), pullSecret(TENANT.password)]);
      const served = await until('the secret to serve', async () => {
        const admitted = await create(source(), inTenant(TENANT.name));
        return decisionsOf(admitted)[0]?.outcome === 'accelerated' ? admitted : notYet(decisionsOf(admitted));
      });
      expect(imageOf(served)).toBe(`${door.host}/private/model@${secret.variantDigest}`);
      for (const parts of [inTenant(OTHER_TENANT), { namespace: OTHER_TENANT }]) {
        const denied = await create(source(), parts);
        expect([imageOf(denied), decisionsOf(denied)[0]?.outcome]).toEqual([source(), 'auth-denied']);
        const text = JSON.stringify(denied);
        expect([text.includes(secret.variantDigest), text.includes(secret.sourceDigest)]).toEqual([false, false]);
      }
      const named = await create(source(), inTenant(OTHER_TENANT));
      expect(decisionsOf(named)[0]?.message).toContain(`Secret ${OTHER_TENANT}/pull does not exist`);
    });

    test('no secret gets into a log, a metric or a Pod', async () => {
      const [webhook] = harbinger.webhooks;
      const text = `${webhook?.logs()}${await webhook?.metrics()}`;
      // The control: the Pod of the tenant is in the log.
      expect(text).toContain(secret.variantDigest);
      const both = `${TENANT.user}:${TENANT.password}`;
      for (const part of [TENANT.password, Buffer.from(both).toString('base64'), Buffer.from(TENANT.password).toString('base64')])
        expect(text.includes(part)).toBe(false);
    });

    test('a secret that is replaced after a denial serves long before it would be read again anyway', async () => {
      const { source: image } = await pushPair(cluster, 'private/rotated');
      const parts = inTenant(TENANT.name, 'rotated');
      await cluster.client.apply(pullSecret('wrong', 'rotated'));
      const outcome = async (): Promise<string | undefined> =>
        decisionsOf(await create(image.replace(host, door.host), parts))[0]?.outcome;
      expect(await outcome()).toBe('auth-denied');
      await cluster.client.apply(pullSecret(TENANT.password, 'rotated'));
      await until('the new password to serve', async () => (await outcome()) === 'accelerated' || notYet('not yet'));
    }, 120_000);

    test('a namespace that lets nobody read its secrets is looked up without, and says how to allow it', async () => {
      await cluster.client.delete('rbac.authorization.k8s.io/v1/RoleBinding', `${OTHER_TENANT}/harbinger`);
      await until('the right to be gone', async () => {
        const [decision] = decisionsOf(await create(source(), inTenant(OTHER_TENANT)));
        return decision?.message?.includes('bind ClusterRole harbinger-pull-secrets in namespace tenant-b') || notYet(decision);
      });
    });
  });

  test('the status of the policy counts, and tells the last problem; a dry run is not counted', async () => {
    await cluster.client.apply(policy('counted', { priority: 50, match: { images: [`${host}/team/**`] } }));
    await untilOutcome(cluster, app.source, 'accelerated');
    const [webhook] = harbinger.webhooks;
    if (webhook === undefined) throw new Error('no webhook');
    const admitted = await until('the new policy to decide', async () => {
      const made = await create(app.source);
      return (decisionsOf(made)[0] as { policy?: string } | undefined)?.policy === 'counted' ? made : notYet('another outcome');
    });
    expect(await verdictOf(cluster, admitted.metadata.name)).toBe('mutated');
    const missing = `${host}/team/nowhere:v1`;
    await create(missing);
    const status = await until('the counts', async () => {
      const { status } = await cluster.client.get(POLICY, 'counted');
      return status?.lastProblem ? (status as Record<string, unknown>) : notYet(status);
    });
    expect(status['decisions']).toEqual({ accelerated: 1, left: 1 });
    expect(status['lastProblem']).toMatchObject({
      image: missing,
      outcome: expect.stringMatching(/^(registry-error|variant-missing)$/),
    });
    expect(
      await metric(webhook, 'harbinger_admission_decisions_total', '{outcome="accelerated",format="estargz",policy="counted"}'),
    ).toBeGreaterThan(0);
  });

  test('the webhook was refused nothing but secrets that it was not given', () => {
    const refused = cluster.audit.query({ user: 'harbinger-system:harbinger-webhook', code: 403 });
    expect(refused.filter((e) => !['secrets', 'serviceaccounts'].includes(e.resource)).map((e) => `${e.verb} ${e.uri}`)).toEqual(
      [],
    );
    // Positive control: namespaces without the binding were among these tests.
    expect([...new Set(refused.map((e) => e.verb))]).toEqual(['get']);
  });
});
