import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { payloadImage, push } from '../../tools/oci-image/index.js';
import type { Draft, Raw } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { ensurePackages } from '../cluster/packages/index.js';
import { notYet, until } from '../cluster/until.js';
import { PrivateRegistry, pullSecret } from '../doubles/private-registry.js';
import { conditionOf, PREWARM, PULLER, pushPuller, ready, SYSTEM } from '../integration/controller/ground.js';

const MIB = 1 << 20;
const SIZE = 8 * MIB;
const SECRET = 'registry';
const LOGIN = { username: 'a', password: 'of-tenant-a' };
/** Port of the host's address at which the private registry listens. */
const PORT = 5443;
/** What kubelets of this test run at most. */
const MAX_PODS = 14;

const waitingOf = (pod: Raw): { reason?: string; message?: string } =>
  pod['status']?.containerStatuses?.[0]?.state?.waiting ?? {};

/** How kubelets and containerd take our pullers: with a tenant's secret, without image volumes, short of Pod slots, and put off. */
describe('pullers on real nodes', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let registry: PrivateRegistry;
  let filler: string;
  let base: Record<string, unknown>;

  beforeAll(async () => {
    const packages = await ensurePackages((line) => console.log(line));
    if (!packages.ok) throw new Error(`real nodes cannot run here: ${packages.why}`);
    cluster = await Cluster.start({
      name: 'nodes-pullers',
      // The fewest pulls a second that a kubelet can be told to begin.
      nodes: { real: { count: 2, tmpfsMiB: 256, kubelet: { maxPods: MAX_PODS, registryPullQPS: 1, registryBurst: 1 } } },
      hostRegistryPorts: [PORT],
      say: () => undefined,
    });
    const address = cluster.network?.hostAddress ?? '';
    registry = await PrivateRegistry.start(cluster.registry.host, [LOGIN], { address, port: PORT });
    for (const name of ['a', 'b']) await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    await cluster.client.apply({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'pullers', namespace: 'a' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'harbinger-workload-pullers' },
      subjects: [{ kind: 'ServiceAccount', name: 'harbinger-controller', namespace: SYSTEM }],
    });
    await cluster.client.create(pullSecret('a', SECRET, registry.host, LOGIN));
    filler = await image('filler', { bare: false, bytes: 1000 });
    const registries = [cluster.registry.host, registry.host].map((host) => ({
      host,
      plainHTTP: true,
      allowLocalAddresses: true,
    }));
    base = { registries };
    harbinger = await cluster.installHarbinger({
      webhookReplicas: 0,
      pullerImage: await pushPuller(cluster),
      config: { ...base, pullers: { workloadNamespaces: 'WhereAllowed' } },
    });
  }, 900_000);
  afterAll(async () => {
    await cluster?.stop();
    await registry?.stop();
  }, 60_000);

  /** Pushes an image and returns its reference by tag. */
  async function image(repository: string, options: Partial<Parameters<typeof payloadImage>[0]> = {}): Promise<string> {
    const made = await payloadImage({ seed: repository, bytes: SIZE, files: 1, bare: true, ...options });
    await push(made, { host: cluster.registry.host, repository, tags: ['v1'] });
    return `${cluster.registry.host}/${repository}:v1`;
  }
  const prewarm = (namespace: string, name: string, reference: string, target: Record<string, unknown> = {}): Draft => ({
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace },
    spec: {
      pull: { rampUp: 'Immediate' },
      targets: [{ name: 'main', images: [{ reference }], nodes: { names: ['node-1', 'node-2'] }, ...target }],
    },
  });
  const status = (namespace: string, name: string, check: (p: Raw) => boolean, timeoutMs = 90_000): Promise<Raw> =>
    cluster.client.watchUntil(PREWARM, `${namespace}/${name}`, check, timeoutMs);
  const pod = (namespace: string, name: string, spec: Record<string, unknown>): Draft => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { nodeName: 'node-1', terminationGracePeriodSeconds: 0, ...spec },
  });
  /** Nodes whose containerd has the image by the digest that was recorded. */
  const havers = async (of: Raw): Promise<number> => {
    const { resolved } = of['status'].targets[0].images[0] as { resolved: string };
    const all = await Promise.all(cluster.realNodes.map((n) => n.images()));
    return all.filter((names) => names.includes(resolved)).length;
  };

  /** Each test has the nodes to itself. */
  afterEach(async () => {
    const { client } = cluster;
    const mine = [...(await client.list(PREWARM)), ...(await client.list('v1/Pod'))].filter(
      (o) => !(PULLER in (o.metadata.labels ?? {})),
    );
    for (const { apiVersion, kind, metadata } of mine)
      await client.delete(`${apiVersion}/${kind}`, `${metadata.namespace ?? ''}/${metadata.name}`);
    await until(
      'all Pods to go',
      async () => {
        const left = await client.list('v1/Pod', {});
        return left.length === 0 || notYet(left.map((p) => p.metadata.name));
      },
      { timeoutMs: 90_000 },
    );
  }, 150_000);

  test('an image that only one tenant may read is warmed with its secret, and is still refused to the other (P6)', async () => {
    await image('private', { bare: false });
    const reference = `${registry.host}/private:v1`;
    await cluster.client.create(prewarm('a', 'private', reference, { imagePullSecrets: [{ name: SECRET }] }));
    const warm = await status('a', 'private', ready);
    expect(warm['status'].targets[0].images[0].pulledWith).toBe('Workload');
    expect(await havers(warm)).toBe(2);
    expect(JSON.stringify(warm)).not.toContain(LOGIN.password);

    const { resolved } = warm['status'].targets[0].images[0] as { resolved: string };
    const container = { name: 'main', image: resolved, imagePullPolicy: 'IfNotPresent', command: ['sleep', '3600'] };
    const before = await cluster.realNodes[0]?.bytesReceived();
    await cluster.client.create(pod('a', 'with', { imagePullSecrets: [{ name: SECRET }], containers: [container] }));
    await cluster.client.create(pod('b', 'without', { containers: [container] }));
    await cluster.client.watchUntil('v1/Pod', 'a/with', (p) => p['status']?.phase === 'Running', 60_000);
    const refused = await cluster.client.watchUntil('v1/Pod', 'b/without', (p) => /Pull/.test(waitingOf(p).reason ?? ''), 60_000);
    expect(waitingOf(refused).message).toMatch(/401|authorization|credentials|denied|not (found|present)/i);
    expect(refused['status'].phase).toBe('Pending');
    expect(((await cluster.realNodes[0]?.bytesReceived()) ?? 0) - (before ?? 0)).toBeLessThan(SIZE / 2);
    // Nor does the other tenant learn of it by a prewarm of its own.
    await cluster.client.create(prewarm('b', 'private', reference));
    const denied = await status('b', 'private', (p) => conditionOf(p, 'Ready')?.reason === 'AuthDenied');
    expect(JSON.stringify(denied['status'])).not.toContain(resolved.slice(-64));
  }, 300_000);

  test.each([
    ['ImageVolume', ' (H-25)'],
    ['Container', ''],
  ])(
    'by method %s images are warm once they are there, whatever they would run: nothing of them is run%s',
    async (method) => {
      const changes = (): number => harbinger.controllers[0]?.logs().split('configuration changed').length ?? 0;
      const before = changes();
      harbinger.writeConfig({ ...base, pullers: { method } });
      await until('the new configuration', () => changes() > before || notYet(before));
      const suffix = method.toLowerCase();
      const rows = {
        [`scratch-${suffix}`]: { cmd: [] },
        [`lost-${suffix}`]: { entrypoint: ['/no/such/program'], cmd: [] },
        [`fails-${suffix}`]: { bare: false, entrypoint: ['/bin/false'], cmd: [], user: '0:0', workingDir: '/no/such/folder' },
      };
      for (const [name, options] of Object.entries(rows))
        await cluster.client.create(prewarm('b', name, await image(name, options), { nodes: { names: ['node-1'] } }));
      for (const name of Object.keys(rows)) {
        const warm = await status('b', name, ready);
        expect({ name, havers: await havers(warm) }).toEqual({ name, havers: 1 });
        const { resolved } = warm['status'].targets[0].images[0] as { resolved: string };
        const [puller] = (await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER })).filter((p) =>
          JSON.stringify(p['spec']).includes(resolved),
        );
        expect(puller?.['spec'].volumes.some((v: { image?: unknown }) => v.image !== undefined)).toBe(method === 'ImageVolume');
        expect(puller?.['status'].containerStatuses).toEqual([expect.objectContaining({ started: true, restartCount: 0 })]);
      }
    },
    240_000,
  );

  test('"pull QPS exceeded" of a kubelet is a pull that is put off, not one that failed (H-31)', async () => {
    // The image and the puller program are two pulls in one second then.
    for (const node of cluster.realNodes) await node.wipe();
    const reference = await image('put-off', { bytes: 1000 });
    const said: string[] = [];
    const watching = new AbortController();
    const watch = (async () => {
      for await (const { object } of cluster.client.watch('v1/Pod', { namespace: SYSTEM, signal: watching.signal }))
        said.push(waitingOf(object).message ?? '');
    })().catch(() => undefined);
    const failures: unknown[] = [];
    await cluster.client.create(prewarm('b', 'put-off', reference));
    await status(
      'b',
      'put-off',
      (p) => {
        failures.push(...(p['status']?.failures ?? []));
        return ready(p);
      },
      150_000,
    );
    watching.abort();
    await watch;
    expect(said.filter((message) => /pull QPS exceeded/.test(message))).not.toEqual([]);
    expect(failures).toEqual([]);
  }, 300_000);

  test('a node without a free Pod slot has "no room", and the others are warmed; it follows once there is one (H-26)', async () => {
    const present = await cluster.client.list('v1/Pod', { fieldSelector: 'spec.nodeName=node-2' });
    const fillers = Array.from({ length: MAX_PODS - present.length }, (_, i) => `filler-${i}`);
    const container = { name: 'main', image: filler, command: ['sleep', '3600'] };
    for (const name of fillers) await cluster.client.create(pod('b', name, { nodeName: 'node-2', containers: [container] }));
    await Promise.all(
      fillers.map((name) => cluster.client.watchUntil('v1/Pod', `b/${name}`, (p) => p['status']?.phase === 'Running', 120_000)),
    );
    await cluster.client.create(prewarm('b', 'room', await image('room')));
    const short = await status('b', 'room', (p) => p['status']?.nodes?.warm === 1 && p['status'].nodes.failed === 1);
    expect(short['status'].failures).toEqual([
      expect.objectContaining({ node: 'node-2', reason: 'NoRoom', message: expect.stringMatching(/too many pods/i) }),
    ]);
    expect(await havers(short)).toBe(1);
    await cluster.client.delete('v1/Pod', 'b/filler-0');
    expect(await havers(await status('b', 'room', ready))).toBe(2);
  }, 300_000);
});
