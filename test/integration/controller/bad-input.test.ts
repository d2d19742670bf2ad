import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { ApiError } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  PULLER,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  SYSTEM,
  workloadOf,
} from './ground.js';

const MISSING = `sha256:${'0'.repeat(64)}`;

/** Whatever is wrong, the object says what and whose turn it is, and the controller goes on with all others. */
describe('bad input', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let good: string;
  let serial = 0;

  beforeAll(async () => {
    const config = {
      manageJobsWithoutQueueName: true,
      managedJobsNamespaceSelector: { matchLabels: { 'kueue-managed': 'here' } },
    };
    cluster = await Cluster.start({
      name: 'it-bad-input',
      kueue: { webhooks: true, frameworks: ['batch/job', 'pod'], config },
      nodes: { fake: 3 },
      say: () => undefined,
    });
    await cluster.client.apply({ ...namespace, metadata: { ...namespace.metadata, labels: { 'kueue-managed': 'here' } } });
    harbinger = await cluster.installHarbinger({ webhookReplicas: 0, pullerImage: await pushPuller(cluster) });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '3' }, checks: [CHECK] });
    good = (await pushImage(cluster, 'good')).image;
  }, 300_000);
  afterAll(async () => cluster?.stop());

  const object = (spec: Record<string, unknown>, name = `p${++serial}`): Draft => ({
    apiVersion: 'harbinger.dev/v1alpha1',
    kind: 'ImagePrewarm',
    metadata: { name, namespace: NS },
    spec,
  });
  const target = (image: string, nodes: Record<string, unknown>, name = 'main') => ({
    name,
    images: [{ reference: image }],
    nodes,
  });
  const everywhere = { selector: { matchLabels: { 'kubernetes.io/os': 'linux' } } };

  /** Creates an ImagePrewarm and waits for its condition Ready to have this reason. */
  async function reasonOf(spec: Record<string, unknown>, reason: string, timeoutMs = 40_000): Promise<Raw> {
    const made = await cluster.client.create(object(spec));
    return cluster.client.watchUntil(
      PREWARM,
      `${NS}/${made.metadata.name}`,
      (p) => conditionOf(p, 'Ready')?.reason === reason,
      timeoutMs,
    );
  }
  /** The positive control after each case: an ordinary one still becomes warm. */
  async function works(): Promise<void> {
    const made = await cluster.client.create(object({ targets: [target(good, { names: ['fake-1'] })] }));
    await cluster.client.watchUntil(PREWARM, `${NS}/${made.metadata.name}`, ready);
    await cluster.client.delete(PREWARM, `${NS}/${made.metadata.name}`);
  }
  afterEach(async () => {
    for (const name of cluster.fakeNodes.names)
      for (const k of ['hang', 'diskFull', 'notReady'] as const) await knob(cluster, name, knobNames[k], null);
    for (const p of await cluster.client.list(PREWARM, { namespace: NS }))
      await cluster.client.delete(PREWARM, `${NS}/${p.metadata.name}`);
  }, 60_000);

  test('nodes that do not exist stand in the sum as failed; the others are warmed', async () => {
    const got = await reasonOf({ targets: [target(good, { names: ['fake-1', 'nowhere'] })] }, 'NodeLost');
    expect(got['status']).toMatchObject({
      placement: 'Assigned',
      progress: '1/2',
      nodes: { desired: 2, warm: 1, failed: 1 },
      failures: [{ node: 'nowhere', reason: 'NodeLost', message: 'there is no node nowhere' }],
    });
    await works();
  }, 180_000);

  const lookups: [string, () => string, string, string][] = [
    [
      'a digest that the registry does not have',
      () => `${cluster.registry.host}/good@${MISSING}`,
      'ImageNotFound',
      'good@sha256:000',
    ],
    ['a tag that the registry does not have', () => `${cluster.registry.host}/good:never`, 'ImageNotFound', 'good:never'],
    ['a name that is no image', () => 'Not An Image', 'Invalid', 'Not An Image'],
    ['a registry that is down', () => '127.0.0.1:1/good:v1', 'RegistryError', '127.0.0.1:1'],
  ];
  test.each(lookups)(
    '%s: nothing is pulled and the status says why',
    async (...[, image, reason, text]) => {
      const got = await reasonOf({ targets: [target(image(), everywhere)] }, reason);
      expect(conditionOf(got, 'Ready')?.message).toContain(text);
      expect(conditionOf(got, 'TargetsResolved')?.status).toBe('False');
      expect(conditionOf(got, 'Failed')?.status).toBe(reason === 'RegistryError' ? 'False' : 'True');
      expect((await cluster.client.list('apps/v1/DaemonSet', { namespace: SYSTEM })).length).toBe(0);
      await works();
    },
    180_000,
  );

  test('two targets of one name are refused by the API server', async () => {
    const twice = object({ targets: [target(good, everywhere), target(good, everywhere)] });
    const error = await cluster.client.create(twice).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(ApiError);
    expect((error as ApiError).message).toContain('Duplicate value');
  });

  test('no node that could take it', async () => {
    const got = await reasonOf({ targets: [target(good, { selector: { matchLabels: { gpu: 'h100' } } })] }, 'NoCandidateNodes');
    expect(got['status'].nodes).toMatchObject({ desired: 0 });
    const cordoned = async (value: boolean): Promise<void> => {
      for (const n of cluster.fakeNodes.names) await cluster.client.patch('v1/Node', n, { spec: { unschedulable: value } });
    };
    await cordoned(true);
    const all = await reasonOf({ targets: [target(good, everywhere)] }, 'NoCandidateNodes');
    expect(conditionOf(all, 'Ready')?.message).toContain('3 nodes: it is cordoned');
    await cordoned(false);
    await cluster.client.watchUntil(PREWARM, `${NS}/${all.metadata.name}`, ready);
  }, 180_000);

  test('a disk that is full fails its node only, with the words of the kubelet', async () => {
    const { image } = await pushImage(cluster, 'big');
    await knob(cluster, 'fake-2', knobNames.diskFull, 'true');
    const got = await reasonOf({ targets: [target(image, everywhere)] }, 'InsufficientDisk');
    expect(got['status']).toMatchObject({
      progress: '2/3',
      failures: [{ node: 'fake-2', reason: 'InsufficientDisk', message: expect.stringContaining('no space left on device') }],
    });
  }, 180_000);

  test('a node that goes in mid-pull is counted out, one that only sleeps is waited for', async () => {
    const { image } = await pushImage(cluster, 'midway');
    await knob(cluster, 'fake-3', knobNames.hang, 'true');
    const got = await reasonOf({ targets: [target(image, everywhere)], pull: { rampUp: 'Immediate' } }, 'PullingImages');
    const key = `${NS}/${got.metadata.name}`;
    await cluster.client.watchUntil(PREWARM, key, (p) => p['status'].nodes.warm === 2 && p['status'].nodes.pulling === 1);
    await knob(cluster, 'fake-3', knobNames.notReady, 'true');
    const lost = await cluster.client.watchUntil(PREWARM, key, (p) => p['status'].nodes.failed === 1);
    expect(lost['status'].failures).toEqual([expect.objectContaining({ node: 'fake-3', reason: 'NodeNotReady' })]);
    await knob(cluster, 'fake-3', knobNames.notReady, null);
    await knob(cluster, 'fake-3', knobNames.hang, null);
    await cluster.client.watchUntil(PREWARM, key, ready, 60_000);
  }, 240_000);

  test('a node that is deleted in mid-pull leaves the sum', async () => {
    const { image } = await pushImage(cluster, 'deleted');
    await knob(cluster, 'fake-3', knobNames.hang, 'true');
    const got = await reasonOf({ targets: [target(image, everywhere)], pull: { rampUp: 'Immediate' } }, 'PullingImages');
    const key = `${NS}/${got.metadata.name}`;
    await cluster.client.watchUntil(PREWARM, key, (p) => p['status'].nodes.warm === 2);
    await cluster.client.patch('v1/Node', 'fake-3', { metadata: { labels: { 'kubernetes.io/os': 'gone' } } });
    await cluster.client.watchUntil(PREWARM, key, (p) => ready(p) && p['status'].progress === '2/2', 60_000);
    await cluster.client.patch('v1/Node', 'fake-3', { metadata: { labels: { 'kubernetes.io/os': 'linux' } } });
    await knob(cluster, 'fake-3', knobNames.hang, null);
    await cluster.client.watchUntil(PREWARM, key, (p) => ready(p) && p['status'].progress === '3/3', 60_000);
    await cluster.client.delete('v1/Node', 'fake-3');
    await cluster.client.watchUntil(PREWARM, key, (p) => p['status'].progress === '2/2', 60_000);
    // A machine of that name with an empty disk: what the old one proved counts for nothing.
    await cluster.client.create({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'fake-3', labels: { 'kubernetes.io/os': 'linux' } },
      spec: {},
    });
    await cluster.untilNodesReady(3);
    await cluster.client.watchUntil(PREWARM, key, (p) => ready(p) && p['status'].progress === '3/3', 60_000);
    expect(await cluster.fakeNodes.images('fake-3')).toContain(got['status'].targets[0].images[0].resolved);
  }, 400_000);

  test('a gang without candidates is let go instead of held', async () => {
    await cluster.client.create(gang('nowhere', good, { annotations: prewarm('10m'), spec: { nodeSelector: { gpu: 'h100' } } }));
    const workload = await workloadOf(cluster, 'nowhere', admitted);
    expect(checkOf(workload).message).toContain('waiting cannot help: no node can take Pods of the gang');
    const p = await prewarmOf(cluster, 'nowhere', (o) => conditionOf(o, 'Released')?.status === 'True');
    expect([conditionOf(p, 'Ready')?.reason, conditionOf(p, 'Released')?.reason]).toEqual(['NoCandidateNodes', 'Hopeless']);
    await removeJob(cluster, 'nowhere');
  }, 180_000);

  test('annotations that make no sense are told on the check and hold nobody', async () => {
    await cluster.client.create(
      gang('typo', good, { annotations: { 'harbinger.dev/prewarm': 'yes', 'harbinger.dev/prewarm-hold': 'a while' } }),
    );
    const workload = await workloadOf(cluster, 'typo', admitted);
    expect(checkOf(workload).message).toContain('annotation harbinger.dev/prewarm of the template is "yes"');
    await removeJob(cluster, 'typo');
  }, 120_000);

  test('a namespace that is being deleted', async () => {
    const name = 'leaving';
    await cluster.client.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    const draft = { ...object({ targets: [target(good, everywhere)] }), metadata: { name: 'p', namespace: name } };
    await cluster.client.create(draft);
    await cluster.client.watchUntil(PREWARM, `${name}/p`, ready);
    await cluster.client.delete('v1/Namespace', name);
    await cluster.client.untilGone('v1/Namespace', name, 90_000);
    await until('its pullers to be gone', async () => {
      const sets = await cluster.client.list('apps/v1/DaemonSet', { namespace: SYSTEM });
      return sets.length === 0 || notYet(sets.map((s) => s.metadata.name));
    });
    await works();
  }, 180_000);

  /** Labels Harbinger's namespace and waits until Kueue has heard of it: a Pod is gated when it is made, or never. */
  async function managed(value: string | null): Promise<void> {
    await cluster.client.patch('v1/Namespace', SYSTEM, { metadata: { labels: { 'kueue-managed': value } } });
    const securityContext = { runAsNonRoot: true, runAsUser: 65_532, seccompProfile: { type: 'RuntimeDefault' } };
    const own = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    const spec = { securityContext, containers: [{ name: 'probe', image: good, securityContext: own }] };
    const probe = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'probe', namespace: SYSTEM }, spec };
    await until('Kueue to know the label', async () => {
      const made = (await cluster.client.request('POST', `/api/v1/namespaces/${SYSTEM}/pods?dryRun=All`, probe)) as Raw;
      return (made['spec'].schedulingGates !== undefined) === (value !== null) || notYet(made['spec'].schedulingGates);
    });
  }

  test('Harbinger’s namespace is managed by Kueue: pullers are gated, and the status says which setting to change', async () => {
    await managed('here');
    const { image } = await pushImage(cluster, 'gated');
    const got = await reasonOf({ targets: [target(image, everywhere)], pull: { rampUp: 'Immediate' } }, 'PullersGated', 60_000);
    expect(conditionOf(got, 'Ready')?.message).toContain('managedJobsNamespaceSelector');
    expect(conditionOf(got, 'Failed')?.status).toBe('True');
    const pods = await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
    expect(pods[0]?.['spec'].schedulingGates).toEqual(expect.arrayContaining([{ name: 'kueue.x-k8s.io/admission' }]));
    await managed(null);
    for (const p of pods) await cluster.client.delete('v1/Pod', `${SYSTEM}/${p.metadata.name}`, { gracePeriodSeconds: 0 });
    await cluster.client.watchUntil(PREWARM, `${NS}/${got.metadata.name}`, ready, 90_000);
  }, 180_000);

  test('mode Off lets everything go and deletes all pullers, mode On takes it up again', async () => {
    const { image } = await pushImage(cluster, 'modes');
    const made = await cluster.client.create(object({ targets: [target(image, everywhere)] }));
    const key = `${NS}/${made.metadata.name}`;
    await cluster.client.watchUntil(PREWARM, key, ready);
    harbinger.writeConfig({ mode: 'Off' });
    await until('all pullers to be gone', async () => {
      const sets = await cluster.client.list('apps/v1/DaemonSet', { namespace: SYSTEM });
      return sets.length === 0 || notYet(sets.map((s) => s.metadata.name));
    });
    await cluster.client.create(gang('off', good, { annotations: prewarm('10m') }));
    expect(checkOf(await workloadOf(cluster, 'off', admitted)).message).toContain('mode Off');
    await removeJob(cluster, 'off');
    harbinger.writeConfig({ mode: 'On' });
    await cluster.client.watchUntil(PREWARM, key, ready, 60_000);
  }, 120_000);
});

describe('without Kueue', () => {
  let cluster: Cluster;
  afterAll(async () => cluster?.stop());

  test('prewarms made by hand work, and the log says what is missing', async () => {
    cluster = await Cluster.start({ name: 'it-no-kueue', nodes: { fake: 1 }, say: () => undefined });
    const harbinger = await cluster.installHarbinger({ webhookReplicas: 0, pullerImage: await pushPuller(cluster) });
    await cluster.client.apply(namespace);
    const { image } = await pushImage(cluster, 'alone');
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'p', namespace: NS },
      spec: { targets: [{ name: 'main', images: [{ reference: image }], nodes: { names: ['fake-1'] } }] },
    });
    await cluster.client.watchUntil(PREWARM, `${NS}/p`, ready);
    await until('the log to name what is missing', () => /workloads.kueue.x-k8s.io/.test(harbinger.controllers[0]?.logs() ?? ''));
  }, 180_000);
});
