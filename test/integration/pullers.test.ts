import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { pullerManifest } from '../../src/preheat/backends/daemonset/manifest.js';
import { projectPullerSet } from '../../src/preheat/backends/daemonset/project.js';
import { pullerOf } from '../../src/preheat/puller.js';
import type { ApiError, Draft, Raw } from '../cluster/client.js';
import { ClusterClient } from '../cluster/client.js';
import { Cluster } from '../cluster/cluster.js';
import type { Harbinger } from '../cluster/harbinger.js';
import { notYet, until } from '../cluster/until.js';
import { knobNames } from '../doubles/fake-kubelet/index.js';
import { PrivateRegistry, pullSecret } from '../doubles/private-registry.js';
import { conditionOf, knob, PREWARM, PULLER, pushImage, pushPuller, ready, SYSTEM } from './controller/ground.js';
import type { Spec } from './pullers-ground.js';
import { bind, FORBIDDEN, nodesOf, quota, SECRET, SPARE, TENANTS } from './pullers-ground.js';

const LOGIN = { username: 'tenant', password: 'of-the-tenant-only' };
const DS = 'apps/v1/DaemonSet';
const POLICY = "Harbinger's controller may make pullers only";

/** Pullers in namespaces of tenants, for an image that only their secret may read, on the real API server and DaemonSet controller. */
describe('pullers', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let registry: PrivateRegistry;
  let program: string;
  let resolved: string;
  let reference: string;

  const prewarm = (namespace: string, name: string, target: Record<string, unknown> = {}): Draft => ({
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace },
    spec: {
      targets: [
        {
          name: 'main',
          images: [{ reference }],
          nodes: { names: nodesOf(namespace) },
          imagePullSecrets: [{ name: SECRET }],
          ...target,
        },
      ],
    },
  });

  beforeAll(async () => {
    const config = {
      manageJobsWithoutQueueName: true,
      managedJobsNamespaceSelector: { matchLabels: { 'kueue-managed': 'here' } },
    };
    cluster = await Cluster.start({
      name: 'it-pullers',
      kueue: { webhooks: true, frameworks: ['batch/job', 'pod'], config },
      nodes: { fake: SPARE + 3 },
      say: () => undefined,
    });
    registry = await PrivateRegistry.start(cluster.registry.host, [LOGIN]);
    const image = await pushImage(cluster, 'private');
    reference = `${registry.host}/private:v1`;
    resolved = `${registry.host}/private@${image.digest}`;
    program = await pushPuller(cluster);
    const registries = [cluster.registry.host, registry.host].map((host) => ({
      host,
      plainHTTP: true,
      allowLocalAddresses: true,
    }));
    harbinger = await cluster.installHarbinger({
      webhookReplicas: 0,
      pullerImage: program,
      config: { registries, pullers: { workloadNamespaces: 'WhereAllowed' } },
    });
    await Promise.all(
      Object.entries(TENANTS).map(
        async ([name, { labels = {}, role = 'harbinger-workload-pullers', secret = true, objects = [] }]) => {
          await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
          await cluster.client.apply([
            bind(name, role),
            ...objects,
            ...(secret ? [pullSecret(name, SECRET, registry.host, LOGIN)] : []),
          ]);
          // What a tenant made under the name of the puller is there before it.
          if (name === 'taken') await cluster.client.create(strangers());
          await cluster.client.create(prewarm(name, 'job'));
        },
      ),
    );
    begin();
  }, 300_000);
  afterAll(async () => {
    await cluster?.stop();
    await registry?.stop();
  });

  const setOf = (namespace: string, image = resolved): string => {
    const puller = pullerOf(image, { tenant: { namespace, secrets: [SECRET] } });
    return `puller-${puller?.hash ?? ''}`;
  };
  const strangers = (): Draft => ({
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: setOf('taken'), namespace: 'taken', labels: { app: 'own' } },
    spec: {
      selector: { matchLabels: { app: 'own' } },
      template: {
        metadata: { labels: { app: 'own' } },
        spec: { nodeSelector: { no: 'node' }, containers: [{ name: 'own', image: 'own' }] },
      },
    },
  });
  const status = (namespace: string, check: (p: Raw) => boolean, name = 'job', timeoutMs = 60_000): Promise<Raw> =>
    cluster.client.watchUntil(PREWARM, `${namespace}/${name}`, check, timeoutMs);
  const failing = (namespace: string, reason: string, name = 'job'): Promise<Raw> =>
    status(namespace, (p) => p['status']?.failures?.some((f: { reason: string }) => f.reason === reason) === true, name);
  const podsOf = (namespace: string): Promise<Raw[]> => cluster.client.list('v1/Pod', { namespace, labelSelector: PULLER });

  /** What is waited for goes on for all tenants at once; each test looks at the end of its own. */
  const stories = new Map<string, Promise<void>>();
  const story = (tenant: string, body: () => Promise<void>): void => {
    const told = body();
    told.catch(() => undefined);
    stories.set(tenant, told);
  };
  const told = (tenant: string): Promise<void> => stories.get(tenant) ?? Promise.reject(new Error(`no story of ${tenant}`));

  /** Begins what has to wait for back-offs of others. */
  function begin(): void {
    story('unbound', async () => {
      const refused = await failing('unbound', 'Rejected');
      expect(refused['status'].failures[0].message).toContain(
        'bind ClusterRole harbinger-workload-pullers to service account harbinger-system/harbinger-controller in namespace unbound',
      );
      await cluster.client.apply(bind('unbound', 'harbinger-workload-pullers'));
      await status('unbound', ready, 'job', 120_000);
    });
    story('no-quota', async () => {
      const refused = await failing('no-quota', 'QuotaExceeded');
      expect(refused['status'].failures[0].message).toMatch(/exceeded quota: pods.*raise the quota/);
      expect(conditionOf(refused, 'Ready')?.reason).toBe('PullersRejected');
      await cluster.client.apply(quota('no-quota', 10));
      await status('no-quota', ready, 'job', 120_000);
    });
    story('minimum', async () => {
      const refused = await failing('minimum', 'Rejected');
      expect(refused['status'].failures[0].message).toMatch(
        /minimum cpu usage per Container is 100m.*the LimitRange does not allow that/,
      );
      await cluster.client.delete('v1/LimitRange', 'minimum/containers');
      await status('minimum', ready, 'job', 120_000);
    });
    story('late', async () => {
      const denied = await status('late', (p) => conditionOf(p, 'Ready')?.reason === 'AuthDenied');
      expect(conditionOf(denied, 'Ready')?.message).toContain(SECRET);
      expect(await cluster.client.list(DS, { namespace: 'late' })).toEqual([]);
      await cluster.client.create(pullSecret('late', SECRET, registry.host, LOGIN));
      await status('late', ready, 'job', 150_000);
    });
    story('runtime', async () => {
      const { image } = await pushImage(cluster, 'runtime');
      const nodes = { names: [`fake-${SPARE}`] };
      await cluster.client.create(
        prewarm('plain', 'runtime', { images: [{ reference: image }], runtimeClassName: 'kata', nodes }),
      );
      const refused = await failing('plain', 'Rejected', 'runtime');
      expect(refused['status'].failures[0].message).toMatch(/RuntimeClass "kata" not found; create the RuntimeClass/);
      await cluster.client.create({
        apiVersion: 'node.k8s.io/v1',
        kind: 'RuntimeClass',
        metadata: { name: 'kata' },
        handler: 'kata',
      });
      await status('plain', ready, 'runtime', 120_000);
    });
    story('taken', async () => {
      const refused = await failing('taken', 'Rejected');
      expect(refused['status'].failures[0].message).toContain('was not made by Harbinger');
      const theirs = await cluster.client.get(DS, `taken/${setOf('taken')}`);
      expect(theirs['spec'].template.spec.containers).toEqual([expect.objectContaining({ name: 'own', image: 'own' })]);
      await cluster.client.delete(DS, `taken/${setOf('taken')}`);
      await status('taken', ready, 'job', 120_000);
    });
  }

  describe('of a tenant', () => {
    test(
      'are not made where the role is not bound: the reason names it, and binding it is all it takes',
      () => told('unbound'),
      240_000,
    );

    test('that a quota of no Pods keeps out say so, and come once there is room', () => told('no-quota'), 240_000);

    test('for which a quota has room on some nodes only warm those, and name the others', async () => {
      // Which of the two is known first is between the kubelet of one node and the DaemonSet controller.
      const part = await status('tight-quota', (p) => {
        const { nodes, failures } = p['status'] ?? {};
        return nodes?.warm === 1 && nodes.failed === 1 && failures?.[0]?.reason === 'QuotaExceeded';
      });
      expect(part['status'].nodes.desired).toBe(2);
      expect(part['status'].failures).toHaveLength(1);
    }, 240_000);

    test('ask for nothing where a LimitRange gives requests to whoever names none', async () => {
      await status('inflated', ready);
      const pods = await podsOf('inflated');
      expect(pods).toHaveLength(2);
      for (const pod of pods)
        expect(pod['spec'].containers[0].resources.requests).toEqual({ cpu: '0', memory: '0', 'ephemeral-storage': '0' });
      // The twin: a Pod that names none is given them.
      const twin = await cluster.client.create({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'twin', namespace: 'inflated' },
        spec: { nodeSelector: { no: 'node' }, containers: [{ name: 'main', image: 'twin' }] },
      });
      expect(twin['spec'].containers[0].resources.requests).toEqual({ cpu: '2', memory: '1Gi' });
    }, 240_000);

    test('that a LimitRange refuses for asking for nothing say so', () => told('minimum'), 240_000);

    test('fit the restricted level of Pod security, where a Pod as people write it is refused (H-28), and opt out of meshes (H-27)', async () => {
      await status('strict', ready);
      const error = await cluster.client
        .create({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: 'twin', namespace: 'strict' },
          spec: { containers: [{ name: 'main', image: 'twin' }] },
        })
        .catch((e: unknown) => e as ApiError);
      expect((error as ApiError).message).toContain('violates PodSecurity "restricted');
      for (const { metadata } of await podsOf('strict')) {
        expect(metadata.labels).toMatchObject({ 'sidecar.istio.io/inject': 'false' });
        expect(metadata.annotations).toMatchObject({ 'linkerd.io/inject': 'disabled' });
      }
    }, 240_000);

    test('wait for a secret that is missing, and pull once it appears', () => told('late'), 240_000);

    test('never take over what a tenant made under their name', () => told('taken'), 240_000);

    test('are told as gated where Kueue takes every Pod of the namespace, with what to change (H-39)', async () => {
      const gated = await failing('gated', 'Gated');
      expect(conditionOf(gated, 'Ready')?.reason).toBe('PullersGated');
      expect(gated['status'].failures[0].message).toMatch(
        /kueue\.x-k8s\.io\/admission.*namespace gated out of managedJobsNamespaceSelector/,
      );
      expect((await podsOf('gated'))[0]?.['spec'].schedulingGates).toContainEqual({ name: 'kueue.x-k8s.io/admission' });
      // Those in Harbinger's own namespace are out of Kueue's way.
      const image = await pushImage(cluster, 'public');
      await cluster.client.create(prewarm('gated', 'central', { images: [{ reference: image.image }] }));
      await status('gated', ready, 'central');
    }, 240_000);

    test('stand in its namespace, with the names of its secrets and no rights, and go with the last who wants them', async () => {
      await status('plain', ready);
      const set = await cluster.client.get(DS, `plain/${setOf('plain')}`);
      const owner = await cluster.client.get(PREWARM, 'plain/job');
      expect(set.metadata.ownerReferences).toEqual([
        { apiVersion: 'harbinger.dev/v1alpha1', kind: 'ImagePrewarm', name: 'job', uid: owner.metadata.uid },
      ]);
      expect(set['spec'].template.spec).toMatchObject({
        serviceAccountName: 'default',
        automountServiceAccountToken: false,
        imagePullSecrets: [{ name: SECRET }],
      });
      for (const pod of await podsOf('plain')) expect(JSON.stringify(pod)).not.toContain('kube-api-access');
      // Nothing of the kind in Harbinger's own namespace, whose pullers have no such secret.
      expect((await cluster.client.list(DS, { namespace: SYSTEM })).map((d) => d.metadata.name)).not.toContain(setOf('plain'));

      await cluster.client.create(prewarm('plain', 'second'));
      await status('plain', ready, 'second');
      await until('the second owner', async () => {
        const { metadata } = await cluster.client.get(DS, `plain/${setOf('plain')}`);
        return metadata.ownerReferences?.length === 2 || notYet(metadata.ownerReferences);
      });
      // Without Harbinger, too, nothing is left behind.
      for (const controller of harbinger.controllers) await controller.kill();
      await cluster.client.delete(PREWARM, 'plain/job');
      await until('the reference of the first to go', async () => {
        const { metadata } = await cluster.client.get(DS, `plain/${setOf('plain')}`);
        return metadata.ownerReferences?.length === 1 || notYet(metadata.ownerReferences);
      });
      await cluster.client.delete(PREWARM, 'plain/second');
      await cluster.client.untilGone(DS, `plain/${setOf('plain')}`, 60_000);
      for (const controller of harbinger.controllers) await controller.start();
      await Promise.all(harbinger.controllers.map((c) => c.untilReady()));
    }, 400_000);
  });

  test('of a RuntimeClass that is not there say so, and come once it is', () => told('runtime'), 240_000);

  test('of tenants are switched off live, with a reason, and on again', async () => {
    const registries = [cluster.registry.host, registry.host].map((host) => ({
      host,
      plainHTTP: true,
      allowLocalAddresses: true,
    }));
    await status('strict', ready);
    const changes = (): number => harbinger.controllers[0]?.logs().split('configuration changed').length ?? 0;
    const before = changes();
    harbinger.writeConfig({ registries });
    await until('the new configuration', () => changes() > before || notYet(before));
    await cluster.client.create(prewarm('strict', 'off', { nodes: { names: [`fake-${SPARE + 3}`] } }));
    const off = await status('strict', (p) => conditionOf(p, 'Ready')?.reason === 'AuthDenied', 'off');
    expect(conditionOf(off, 'Ready')?.message).toContain('pullers.workloadNamespaces');
    harbinger.writeConfig({ registries, pullers: { workloadNamespaces: 'WhereAllowed' } });
    await status('strict', ready, 'off', 120_000);
  }, 240_000);

  test('are nothing that a tenant can make by a label: neither counted nor deleted', async () => {
    await status('strict', ready);
    const LIAR = `fake-${SPARE + 1}`;
    const image = await pushImage(cluster, 'forged');
    const puller = pullerOf(image.resolved);
    if (puller === undefined) throw new Error('no puller');
    // A DaemonSet and a Pod that claim to be the central puller of an image which no node has; the Pod even names its owner.
    const forged = pullerManifest(puller, [`fake-${SPARE}`], { namespace: 'plain', program });
    const { uid } = await cluster.client.create(forged as unknown as Draft).then((d) => d.metadata);
    const template = forged.spec.template;
    await cluster.client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        ...template.metadata,
        name: 'liar',
        namespace: 'plain',
        ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: forged.metadata.name, uid, controller: true }],
      },
      spec: { ...template.spec, nodeName: LIAR, serviceAccountName: 'default' },
    });
    await cluster.client.patch(DS, `plain/${forged.metadata.name}`, {
      spec: { template: { spec: { serviceAccountName: 'default' } } },
    });
    await knob(cluster, LIAR, knobNames.hang, 'true');
    await cluster.client.create(prewarm('plain', 'honest', { images: [{ reference: image.image }], nodes: { names: [LIAR] } }));
    const pulling = await status('plain', (p) => p['status']?.nodes?.pulling === 1, 'honest');
    expect(pulling['status'].nodes).toMatchObject({ desired: 1, warm: 0 });
    await knob(cluster, LIAR, knobNames.hang, null);
    await status('plain', ready, 'honest');
    expect(await cluster.client.find(DS, `plain/${forged.metadata.name}`)).toBeDefined();
    await cluster.client.delete(PREWARM, 'plain/honest');
    await cluster.client.untilGone(DS, `${SYSTEM}/${forged.metadata.name}`);
    expect(await cluster.client.find(DS, `plain/${forged.metadata.name}`)).toBeDefined();
  }, 240_000);

  test('that a tenant makes to the letter, with no prewarm and no room for a Pod, keep no node from others', async () => {
    const image = await pushImage(cluster, 'letter');
    const puller = pullerOf(image.resolved, { tenant: { namespace: 'letter', secrets: [SECRET] } });
    if (puller === undefined) throw new Error('no puller');
    await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'letter' } });
    await cluster.client.apply(quota('letter', 0));
    const names = [1, 2, 3].map((i) => `fake-${SPARE + i}`);
    const made = pullerManifest(puller, names, { namespace: SYSTEM, program });
    await cluster.client.create(made as unknown as Draft);
    await until('the DaemonSet controller to want Pods', async () => {
      const { status: seen } = await cluster.client.get(DS, `letter/${made.metadata.name}`);
      return seen?.desiredNumberScheduled === 3 || notYet(seen);
    });
    const other = await pushImage(cluster, 'beside');
    const target = { images: [{ reference: other.image }], nodes: { names } };
    await cluster.client.create(prewarm('plain', 'beside', target));
    await status('plain', ready, 'beside');
    // Nobody has given Harbinger rights there, and it does not miss them.
    expect(await cluster.client.find(DS, `letter/${made.metadata.name}`)).toBeDefined();
    await cluster.client.delete(PREWARM, 'plain/beside');
    await cluster.client.delete('v1/Namespace', 'letter');
  }, 240_000);

  test('that somebody edits by hand are put right in all that they say, without a Pod or a set lost', async () => {
    const image = await pushImage(cluster, 'edited');
    const nodes = { names: [`fake-${SPARE + 1}`] };
    await cluster.client.create(prewarm('plain', 'edited', { images: [{ reference: image.image }], nodes }));
    await status('plain', ready, 'edited');
    const key = `${SYSTEM}/puller-${pullerOf(image.resolved)?.hash ?? ''}`;
    const before = await cluster.client.get(DS, key);
    const resources = { requests: { cpu: '4' } };
    const container = { ...before['spec'].template.spec.containers[0], resources };
    await cluster.client.patch(DS, key, { spec: { template: { spec: { tolerations: null, containers: [container] } } } });
    await until('what was sent', async () => {
      const { spec } = (await cluster.client.get(DS, key))['spec'].template;
      const { requests } = spec.containers[0].resources;
      return (spec.tolerations?.length === 1 && requests.cpu === '0') || notYet(requests);
    });
    const after = await cluster.client.get(DS, key);
    expect(after.metadata.uid).toBe(before.metadata.uid);
    expect(projectPullerSet(after as never).print).toBe(projectPullerSet(before as never).print);
    await cluster.client.delete(PREWARM, 'plain/edited');
    await cluster.client.untilGone(DS, key);
  }, 240_000);

  test('whose ImagePrewarm is deleted in mid-pull go on to their end, and another one of the image counts them once (H-30)', async () => {
    const names = [1, 2, 3].map((i) => `fake-${SPARE + i}`);
    const image = await pushImage(cluster, 'deleted');
    const target = { images: [{ reference: image.image }], nodes: { names } };
    const wanted = (name: string): Draft => {
      const draft = prewarm('plain', name, target);
      return { ...draft, spec: { ...(draft['spec'] as object), pull: { rampUp: 'Immediate' } } };
    };
    const pods = async (): Promise<string[]> => {
      const all = await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
      return all
        .filter((p) => JSON.stringify(p['spec']).includes(image.resolved))
        .map((p) => p.metadata.uid)
        .sort();
    };
    await Promise.all(names.map((n) => knob(cluster, n, knobNames.hang, 'true')));
    await cluster.client.create(wanted('first'));
    await status('plain', (p) => p['status']?.nodes?.pulling === 3, 'first');
    const pulling = await until('three pullers to be there', async () => {
      const found = await pods();
      return found.length === 3 && found;
    });
    await cluster.client.delete(PREWARM, 'plain/first');
    // Their pulls do not end before they are told to: whatever waited for them would wait for ever.
    await cluster.client.untilGone(PREWARM, 'plain/first');
    await cluster.client.create(wanted('second'));
    await status('plain', (p) => p['status']?.nodes?.pulling === 3, 'second');
    expect(await pods()).toEqual(pulling);
    await Promise.all(names.map((n) => knob(cluster, n, knobNames.hang, null)));
    const done = await status('plain', ready, 'second');
    expect(done['status'].nodes).toMatchObject({ desired: 3, warm: 3 });
    expect(await pods()).toEqual(pulling);
    await cluster.client.delete(PREWARM, 'plain/second');
    await until('the pullers to leave', async () => (await pods()).length === 0);
  }, 240_000);

  test('whose node is removed in mid-pull are dropped, and another node takes its place; the image is not blamed (H-33)', async () => {
    const PAIR = [`fake-${SPARE + 1}`, `fake-${SPARE + 2}`];
    const image = await pushImage(cluster, 'removed');
    const nodes = {
      selector: { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: PAIR }] },
      count: 1,
    };
    await Promise.all(PAIR.map((n) => knob(cluster, n, knobNames.hang, 'true')));
    await cluster.client.create(prewarm('plain', 'removed', { images: [{ reference: image.image }], nodes }));
    await status('plain', (p) => p['status']?.nodes?.pulling === 1, 'removed');
    const [pod] = (await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER })).filter((p) =>
      JSON.stringify(p['spec']).includes(image.resolved),
    );
    const lost = String(pod?.['spec'].nodeName);
    const other = PAIR.find((n) => n !== lost) ?? '';
    expect(pod?.metadata.annotations).toMatchObject({ 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' });
    await knob(cluster, other, knobNames.hang, null);
    await cluster.client.delete('v1/Node', lost);
    const done = await status('plain', ready, 'removed');
    expect(done['status'].failures ?? []).toEqual([]);
    expect(done['status'].nodes).toMatchObject({ desired: 1, warm: 1, failed: 0 });
  }, 240_000);

  describe('are all that the account of the controller may make', () => {
    let client: ClusterClient;
    beforeAll(async () => {
      // They take these for pullers of their own that nobody wants, and delete them.
      await Promise.all(harbinger.controllers.map((c) => c.kill()));
      client = new ClusterClient(await cluster.kubeconfigFor('harbinger-controller', SYSTEM));
    });
    afterAll(() => client.close());

    const fitting = (method: 'ImageVolume' | 'Container' = 'ImageVolume'): Draft => {
      const puller = pullerOf(`reg.example.com/x@sha256:${'c'.repeat(64)}`, {
        tenant: { namespace: 'plain', secrets: [SECRET] },
      });
      if (puller === undefined) throw new Error('no puller');
      return pullerManifest(puller, ['fake-9'], { namespace: SYSTEM, program, method }) as unknown as Draft;
    };
    const specOf = (draft: Draft): Spec => (draft['spec'] as { template: { spec: Spec } }).template.spec;

    test.each(['ImageVolume', 'Container'] as const)('a puller of method %s is taken', async (method) => {
      const sent = fitting(method);
      const made = await client.create(sent);
      // What is stored says to the controller what it sent, with all that the API server adds, so that nothing is put right.
      expect(projectPullerSet(made as never).print).toBe(projectPullerSet(sent as never).print);
      await client.patch(DS, `plain/${made.metadata.name}`, { metadata: { annotations: { changed: 'yes' } } });
      await client.delete(DS, `plain/${made.metadata.name}`);
      await cluster.client.untilGone(DS, `plain/${made.metadata.name}`);
    });
    test('what a tenant made is neither changed into a puller nor deleted, nor is what only bears a name or a label of one', async () => {
      const rows: [string, Record<string, string>][] = [
        ['puller-own', { app: 'own' }],
        ['own', { [PULLER]: 'x' }],
      ];
      for (const [name, labels] of rows) {
        await cluster.client.create({ ...fitting(), metadata: { name, namespace: 'plain', labels } });
        const patch = { metadata: { annotations: { changed: 'yes' } } };
        await expect(client.patch(DS, `plain/${name}`, patch)).rejects.toThrow(POLICY);
        await expect(client.delete(DS, `plain/${name}`)).rejects.toThrow(`${POLICY}: what is there is none`);
        await cluster.client.delete(DS, `plain/${name}`);
      }
    });
    test.each(FORBIDDEN)('with %s it is refused, and an administrator may have it', async (_, change) => {
      const draft = fitting();
      change(specOf(draft));
      const error = await client.create(draft).catch((e: unknown) => e as ApiError);
      expect(error).toMatchObject({ message: expect.stringContaining(POLICY) });
      const made = await cluster.client.create({ ...draft, metadata: { ...draft.metadata, name: 'of-an-administrator' } });
      await cluster.client.delete(DS, `plain/${made.metadata.name}`);
      await cluster.client.untilGone(DS, `plain/${made.metadata.name}`);
    });
  });
});
