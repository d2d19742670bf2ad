import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { AuditEvent } from '../../cluster/audit.js';
import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import { notYet, until } from '../../cluster/until.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
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
  pullersGone,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  runningPods,
  SYSTEM,
  WORKLOAD,
  workloadOf,
} from './ground.js';

const KUEUE = 'kueue.x-k8s.io/v1beta2';
const NODES = 3;
const REQUEUES = 100;
const ACCOUNT = `${SYSTEM}:harbinger-controller`;

/** Gangs that no user means to submit, and that somebody does: each is served or let go, costs a bounded number of writes, and leaves nothing. */
describe('gangs that are out of the ordinary', () => {
  let cluster: Cluster;
  let puller: string;
  let plain: string;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-bad-gangs',
      kueue: { webhooks: true },
      nodes: { fake: NODES },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    plain = (await pushImage(cluster, 'plain')).image;
    puller = await pushPuller(cluster);
    await cluster.installHarbinger({ pullerImage: puller });
    await cluster.kueueQueue({
      name: QUEUE,
      namespace: NS,
      quota: { cpu: String(NODES) },
      checks: [CHECK],
      clusterQueue: { preemption: { withinClusterQueue: 'LowerPriority' } },
    });
    await cluster.client.create({ apiVersion: KUEUE, kind: 'WorkloadPriorityClass', metadata: { name: 'urgent' }, value: 1000 });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  /** What the controller has written since a time, without its Lease and its events. */
  const writes = (since: number, resource?: string): AuditEvent[] =>
    cluster.audit
      .query({ user: ACCOUNT, since, ...(resource === undefined ? {} : { resource }) })
      .filter((e) => ['create', 'patch', 'update', 'delete'].includes(e.verb) && !['leases', 'events'].includes(e.resource));

  /** A Workload without a job, as an integration of one's own makes it. */
  const workload = (name: string, podSets: readonly Record<string, unknown>[], hold?: string): Draft => ({
    apiVersion: KUEUE,
    kind: 'Workload',
    metadata: { name, namespace: NS, annotations: prewarm(hold) },
    spec: { queueName: QUEUE, podSets },
  });
  const podSet = (image: string | undefined, count: number, name = 'main'): Record<string, unknown> => ({
    name,
    count,
    template: {
      spec: {
        restartPolicy: 'Never',
        // Without requests it would need no quota and would not wait.
        containers: [{ name: 'train', ...(image === undefined ? {} : { image }), resources: { requests: { cpu: '1' } } }],
      },
    },
  });
  const seenOf = (name: string, check: (w: Raw) => boolean): Promise<Raw> =>
    cluster.client.watchUntil(WORKLOAD, `${NS}/${name}`, check, 40_000);
  const remove = async (name: string): Promise<void> => {
    await cluster.client.delete(WORKLOAD, `${NS}/${name}`);
    await cluster.client.untilGone(WORKLOAD, `${NS}/${name}`);
  };
  /** Fills the queue, so that what comes next waits without quota. */
  async function blocked<T>(run: () => Promise<T>): Promise<T> {
    await cluster.client.create(gang('blocker', plain));
    await runningPods(cluster, 'blocker', NODES);
    try {
      return await run();
    } finally {
      await removeJob(cluster, 'blocker');
    }
  }
  /** Its check is answered while it has no quota, and with quota it is admitted. */
  async function letGoWhileQueued(name: string, podSets: readonly Record<string, unknown>[]): Promise<Raw> {
    const free = await blocked(async () => {
      await cluster.client.create(workload(name, podSets, '10m'));
      return seenOf(name, (w) => checkOf(w)?.state === 'Ready');
    });
    await seenOf(name, admitted);
    await remove(name);
    return free;
  }
  const nothingLeft = (): Promise<unknown> =>
    until('no ImagePrewarm and no puller to be left', async () => {
      const prewarms = await cluster.client.list(PREWARM, { namespace: NS });
      const sets = await cluster.client.list('apps/v1/DaemonSet', { namespace: SYSTEM });
      const pods = await cluster.client.list('v1/Pod', { namespace: SYSTEM, labelSelector: PULLER });
      const left = [...prewarms, ...sets, ...pods].map((o) => `${o.kind} ${o.metadata.name}`);
      return left.length === 0 || notYet(left);
    });

  test('one that changes its image while it is queued is warmed with the new one, and the old one is let go', async () => {
    const [before, after] = [await pushImage(cluster, 'before'), await pushImage(cluster, 'after')];
    await blocked(async () => {
      await cluster.client.create(workload('changing', [podSet(before.image, NODES)]));
      const first = await prewarmOf(cluster, 'changing', ready);
      await cluster.client.patch(WORKLOAD, `${NS}/changing`, { spec: { podSets: [podSet(after.image, NODES)] } });
      const second = await prewarmOf(
        cluster,
        'changing',
        (p) => ready(p) && p['status'].targets[0].images[0].resolved === after.resolved,
      );
      expect(second.metadata.uid).toBe(first.metadata.uid);
      await seenOf('changing', (w) => checkOf(w).state === 'Ready' && !reserved(w));
      await pullersGone(cluster, before.resolved);
      expect(await pullersOf(cluster, after.resolved)).toHaveLength(NODES);
      await remove('changing');
    });
    await nothingLeft();
  }, 240_000);

  test('one with a podSet of no Pods is let go, its other podSet is warmed', async () => {
    const { image, resolved } = await pushImage(cluster, 'counted');
    await blocked(async () => {
      await cluster.client.create(workload('partly', [podSet(image, 2, 'some'), podSet(plain, 0, 'none')]));
      const partly = await prewarmOf(cluster, 'partly', ready);
      expect(partly['status']).toMatchObject({ nodes: { desired: 2, warm: 2 } });
      expect(await pullersOf(cluster, resolved)).toHaveLength(2);
      await remove('partly');
    });
    await letGoWhileQueued('nobody', [podSet(image, 0)]);
    await nothingLeft();
  }, 240_000);

  test('one whose podSets have no container that pulls is let go at once', async () => {
    const free = await letGoWhileQueued('empty', [podSet(undefined, 2)]);
    expect(checkOf(free).message).toContain('no container of the gang pulls an image');
    await nothingLeft();
  }, 180_000);

  test('one that waits while all nodes are cordoned is told so, and is warmed once they are not; with quota it is let go', async () => {
    const { image } = await pushImage(cluster, 'cordoned');
    const cordon = async (unschedulable: boolean): Promise<void> => {
      for (const n of cluster.fakeNodes.names) await cluster.client.patch('v1/Node', n, { spec: { unschedulable } });
    };
    await blocked(async () => {
      await cordon(true);
      await cluster.client.create(gang('cordoned', image, { annotations: prewarm('10m') }));
      const none = await prewarmOf(cluster, 'cordoned', (p) => conditionOf(p, 'Ready')?.reason === 'NoCandidateNodes');
      expect(conditionOf(none, 'Ready')?.message).toContain('cordoned');
      await cordon(false);
      await prewarmOf(cluster, 'cordoned', ready);
      await removeJob(cluster, 'cordoned');
      await cordon(true);
    });
    await cluster.client.create(gang('stuck', image, { annotations: prewarm('10m') }));
    const free = await workloadOf(cluster, 'stuck', admitted);
    expect(checkOf(free).message).toContain('waiting cannot help');
    await removeJob(cluster, 'stuck');
    await cordon(false);
    await nothingLeft();
  }, 240_000);

  test('one that is requeued a hundred times costs a bounded number of writes and leaves one object', async () => {
    const { image, resolved } = await pushImage(cluster, 'requeued');
    await blocked(async () => {
      await cluster.client.create(gang('requeued', image, { annotations: prewarm('10m') }));
      const record = await prewarmOf(cluster, 'requeued', ready);
      const key = `${NS}/${(await workloadOf(cluster, 'requeued', (w) => checkOf(w).state === 'Ready')).metadata.name}`;
      const before = await cluster.fakeNodes.bytes();
      const since = Date.now();
      for (let i = 0; i < REQUEUES; i++)
        for (const active of [false, true]) await cluster.client.patch(WORKLOAD, key, { spec: { active } });
      await cluster.client.watchUntil(WORKLOAD, key, (w) => w['spec'].active && checkOf(w).state === 'Ready' && !reserved(w));
      const after = await prewarmOf(cluster, 'requeued', ready);
      expect(after.metadata.uid).toBe(record.metadata.uid);
      // A check for each requeue and what is said on the record; not more, whatever happens how often.
      expect(writes(since).length).toBeLessThan(4 * REQUEUES);
      expect(writes(since, 'daemonsets').length).toBeLessThan(10);
      expect((await cluster.fakeNodes.bytes()).byImage[resolved]).toBe(before.byImage[resolved]);
      expect((await cluster.client.list(PREWARM, { namespace: NS })).length).toBe(1);
      expect(JSON.stringify(after).length).toBeLessThan(20_000);
      await removeJob(cluster, 'requeued');
    });
    await nothingLeft();
  }, 400_000);

  test('one that is submitted and deleted again and again leaves nothing', async () => {
    const { image } = await pushImage(cluster, 'fleeting');
    const since = Date.now();
    for (let i = 0; i < 20; i++) {
      await cluster.client.create(gang('fleeting', image, { annotations: prewarm('10m') }));
      if (i % 2 === 0) await workloadOf(cluster, 'fleeting');
      await cluster.client.delete('batch/v1/Job', `${NS}/fleeting`);
      await cluster.client.untilGone('batch/v1/Job', `${NS}/fleeting`);
    }
    await nothingLeft();
    expect(writes(since).length).toBeLessThan(20 * 12);
  }, 240_000);

  test('one whose tenant preempts it again and again keeps its record and its check', async () => {
    const { image, resolved } = await pushImage(cluster, 'tossed');
    await cluster.client.create(gang('tossed', image, { annotations: prewarm('10m') }));
    await runningPods(cluster, 'tossed', NODES);
    for (let i = 0; i < 4; i++) {
      const urgent = gang(`urgent-${i}`, plain);
      Object.assign(urgent.metadata['labels'] as object, { 'kueue.x-k8s.io/priority-class': 'urgent' });
      await cluster.client.create(urgent);
      await runningPods(cluster, `urgent-${i}`, NODES);
      await workloadOf(cluster, 'tossed', (w) => isTrue(w, 'Evicted') && !reserved(w) && checkOf(w).state === 'Ready');
      await removeJob(cluster, `urgent-${i}`);
      const pods = await runningPods(cluster, 'tossed', NODES);
      expect(pods.map((p) => p['spec'].containers[0].image)).toEqual(pods.map(() => resolved));
    }
    expect((await cluster.client.list(PREWARM, { namespace: NS })).length).toBe(1);
    await removeJob(cluster, 'tossed');
    await nothingLeft();
  }, 240_000);

  test('one of whole-node Pods that Kueue places by topology gets in while pullers run on every node', async () => {
    await cluster.client.apply([
      {
        apiVersion: KUEUE,
        kind: 'Topology',
        metadata: { name: 'hosts' },
        spec: { levels: [{ nodeLabel: 'kubernetes.io/hostname' }] },
      },
      {
        apiVersion: KUEUE,
        kind: 'ResourceFlavor',
        metadata: { name: 'whole' },
        spec: { nodeLabels: { 'kubernetes.io/os': 'linux' }, topologyName: 'hosts' },
      },
      {
        apiVersion: KUEUE,
        kind: 'ClusterQueue',
        metadata: { name: 'whole' },
        spec: {
          namespaceSelector: {},
          resourceGroups: [
            { coveredResources: ['cpu'], flavors: [{ name: 'whole', resources: [{ name: 'cpu', nominalQuota: '24' }] }] },
          ],
          admissionChecksStrategy: { admissionChecks: [{ name: CHECK }] },
        },
      },
      { apiVersion: KUEUE, kind: 'LocalQueue', metadata: { name: 'whole', namespace: NS }, spec: { clusterQueue: 'whole' } },
    ]);
    const { image, resolved } = await pushImage(cluster, 'whole');
    // Pullers of somebody else's image stand on all nodes the whole time, and those of its own until it runs.
    const other = await pushImage(cluster, 'resident');
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'resident', namespace: NS },
      spec: {
        targets: [{ name: 'main', images: [{ reference: other.image }], nodes: { selector: {} } }],
        retain: 'Always',
      },
    });
    await cluster.client.watchUntil(PREWARM, `${NS}/resident`, ready);
    const anyTopology = { 'kueue.x-k8s.io/podset-unconstrained-topology': 'true' };
    await cluster.client.create(
      gang('whole', image, { queue: 'whole', cpu: '8', annotations: { ...prewarm('10m'), ...anyTopology } }),
    );
    const placed = await workloadOf(cluster, 'whole', admitted);
    expect(placed['status'].admission.podSetAssignments[0].topologyAssignment).toBeDefined();
    const pods = await runningPods(cluster, 'whole', NODES);
    expect(new Set(pods.map((p) => p['spec'].nodeName)).size).toBe(NODES);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual(pods.map(() => resolved));
    // The control: they stood there, and they ask for nothing.
    const pullers = await pullersOf(cluster, other.resolved);
    expect(pullers.filter((p) => p['status'].phase === 'Running')).toHaveLength(NODES);
    // Zeros are written out, so that no LimitRange gives them more.
    for (const p of pullers)
      for (const c of p['spec'].containers) expect(new Set(Object.values(c.resources?.requests ?? {}))).toEqual(new Set(['0']));
    await removeJob(cluster, 'whole');
    await cluster.client.delete(PREWARM, `${NS}/resident`);
    await nothingLeft();
  }, 240_000);

  test('two controllers that both lead pull nothing twice and come to rest', async () => {
    const second = 'second-controller';
    const [port = 0] = await cluster.leasePorts(1);
    const flags = {
      kubeconfig: cluster.kubeconfigForUser(second, ['system:masters']),
      namespace: SYSTEM,
      config: `${cluster.runDir}/harbinger.yaml`,
      'health-port': port,
      'puller-image': puller,
      identity: second,
      'lease-name': 'another-lease',
    };
    const args = ['.out/harbinger.mjs', 'controller', ...Object.entries(flags).map(([k, v]) => `--${k}=${v}`)];
    await cluster.supervisor.spawn({ name: second, command: process.execPath, args, cwd: process.cwd() });
    await until('the second to lead as well', async () => {
      const lease = await cluster.client.find('coordination.k8s.io/v1/Lease', `${SYSTEM}/another-lease`);
      return lease?.['spec'].holderIdentity === second || notYet(lease?.['spec']);
    });
    const { image, resolved } = await pushImage(cluster, 'both', { bytes: 2_000_000 });
    for (const n of cluster.fakeNodes.names) await knob(cluster, n, knobNames.hang, 'true');
    await cluster.client.create(gang('both', image, { annotations: prewarm('10m') }));
    await workloadOf(
      cluster,
      'both',
      (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined,
    );
    for (const n of cluster.fakeNodes.names) await knob(cluster, n, knobNames.hang, null);
    const pods = await runningPods(cluster, 'both', NODES);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual(pods.map(() => resolved));
    const { byImage } = await cluster.fakeNodes.bytes();
    expect(byImage[resolved] ?? 0).toBeGreaterThan(2_000_000 * NODES * 0.9);
    expect(byImage[resolved] ?? 0).toBeLessThan(2_000_000 * NODES * 1.1);
    await pullersGone(cluster, resolved);
    // Both have said all they have to say: neither takes back what the other wrote.
    await until(
      'both to be quiet for five seconds',
      () => {
        const recent = Date.now() - 5_000;
        const loud = [ACCOUNT, second].flatMap((user) =>
          cluster.audit
            .query({ user, since: recent })
            .filter((e) => ['create', 'patch', 'update', 'delete'].includes(e.verb) && !['leases', 'events'].includes(e.resource))
            .map((e) => `${user} ${e.verb} ${e.resource}/${e.subresource} ${e.name} ${e.code}`),
        );
        return loud.length === 0 || notYet(loud);
      },
      { timeoutMs: 60_000, everyMs: 500 },
    );
    const own = (user: string): number =>
      cluster.audit.query({ user, resource: 'imageprewarms' }).filter((e) => e.verb === 'patch').length;
    expect(own(second)).toBeGreaterThan(0);
    await removeJob(cluster, 'both');
    await nothingLeft();
    await cluster.supervisor.kill(second);
  }, 180_000);
});
