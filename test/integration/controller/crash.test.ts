import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { ACTION_TYPES } from '../../../src/controller/actions.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import { repoRoot } from '../../cluster/paths.js';
import { notYet, until } from '../../cluster/until.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import {
  admitted,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  PREWARM,
  prewarm,
  prewarmOf,
  pullersGone,
  pushImage,
  pushPuller,
  removeJob,
  runningPods,
  SYSTEM,
  workloadOf,
} from './ground.js';

const ADMISSION_CHECK = 'kueue.x-k8s.io/v1beta2/AdmissionCheck';
const POLICY = 'harbinger.dev/v1alpha1/AccelerationPolicy';
const NODES = 2;
const GATES = 'kueue.x-k8s.io/admission-gated-by';
const GATE = 'harbinger.dev/image-prewarm';
const gateOf = (id: string): string => `${id}-gate`;

/** A row before and one after everything that the controller can do; a new action brings its rows with it. */
const ROWS = ACTION_TYPES.flatMap((type) => [`before:${type}`, `after:${type}`]);

describe('a controller that is killed (P7)', () => {
  let cluster: Cluster;
  let puller: string;
  let kubeconfig: string;
  let config: string;
  let started = 0;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-crash',
      kueue: true,
      nodes: { fake: { count: NODES, linkMbit: 40 } },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    puller = await pushPuller(cluster);
    // The next controller has to be there before the watchdog ends a hold that the last one could not stamp.
    const budgets = { unstampedHoldSeconds: 120 };
    // Manifests, webhook and configuration; controllers are started here, with their points of failure.
    await cluster.installHarbinger({ controllers: 0, pullerImage: puller, config: { holds: { gatedJobs: 'On' }, budgets } });
    await cluster.client.apply({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'gated-jobs' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'harbinger-gated-jobs' },
      subjects: [{ kind: 'ServiceAccount', name: 'harbinger-controller', namespace: SYSTEM }],
    });
    kubeconfig = await cluster.kubeconfigFor('harbinger-controller', SYSTEM);
    config = join(cluster.runDir, 'harbinger.yaml');
  }, 300_000);
  afterAll(async () => cluster?.stop());

  /** Starts a controller under the name of the one before, so that it need not wait for the Lease of a dead one. */
  async function controller(env: Record<string, string> = {}, identity = 'c'): Promise<string> {
    const name = `controller-${++started}`;
    const [port = 0] = await cluster.leasePorts(1);
    const flags = { kubeconfig, namespace: SYSTEM, config, 'health-port': port, 'puller-image': puller, identity };
    const args = [join(repoRoot(), '.out/harbinger.mjs'), 'controller', ...Object.entries(flags).map(([k, v]) => `--${k}=${v}`)];
    await cluster.spawn({ name, command: process.execPath, args, env });
    return name;
  }

  /** A queue with a check of its own, a held gang and a prewarm made by hand whose time is over when it is warm: together they need every action. */
  async function scenario(id: string): Promise<{ resolved: string }> {
    const { image, resolved } = await pushImage(cluster, id, { bytes: 1_500_000 });
    const byHand = await pushImage(cluster, `${id}-by-hand`);
    await cluster.kueueQueue({ name: id, namespace: NS, quota: { cpu: String(NODES) }, checks: [id] });
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: `by-hand-${id}`, namespace: NS },
      spec: {
        targets: [{ name: 'main', images: [{ reference: byHand.image }], nodes: { names: ['fake-1'] } }],
        ttlSecondsAfterFinished: 0,
      },
    });
    await cluster.client.create({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'AccelerationPolicy',
      metadata: { name: id },
      spec: { match: { images: ['none.invalid/**'] }, variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }] },
    });
    await cluster.client.create(gang(id, image, { pods: NODES, queue: id, jobAnnotations: prewarm('10m') }));
    // A queue of nowhere: only its gate is of interest, and it comes off since the job did not opt in.
    await cluster.client.create(gang(gateOf(id), byHand.image, { queue: 'none', jobAnnotations: { [GATES]: GATE } }));
    return { resolved };
  }

  /** What has to have come of the scenario, whoever died on the way. */
  async function finished(id: string, resolved: string): Promise<void> {
    await cluster.client.watchUntil(ADMISSION_CHECK, id, (c) => isTrue(c, 'Active'), 60_000);
    await cluster.client.watchUntil(POLICY, id, (p) => isTrue(p, 'Ready'), 60_000);
    const workload = await workloadOf(cluster, id, admitted, 60_000);
    expect(checkOf(workload).state).toBe('Ready');
    expect(workload.metadata.annotations?.['harbinger.dev/hold-deadline']).toBeDefined();
    const pods = await runningPods(cluster, id, NODES, 60_000);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual(pods.map(() => resolved));
    const record = await prewarmOf(cluster, id, (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(record, 'Released')?.reason).toBe('WarmVerified');
    await pullersGone(cluster, resolved);
    await cluster.client.untilGone(PREWARM, `${NS}/by-hand-${id}`);
    await cluster.client.watchUntil('batch/v1/Job', `${NS}/${gateOf(id)}`, (j) => j.metadata.annotations?.[GATES] === undefined);
    await removeJob(cluster, gateOf(id));
    // Each node pulled the image once, however many controllers it took.
    const { byImage } = await cluster.fakeNodes.bytes();
    expect(byImage[resolved] ?? 0).toBeGreaterThan(1_500_000 * NODES * 0.9);
    expect(byImage[resolved] ?? 0).toBeLessThan(1_500_000 * NODES * 1.1);
    await removeJob(cluster, id);
  }

  test('the control: without a crash every action is done once at least', async () => {
    const name = await controller();
    const { resolved } = await scenario('control');
    await finished('control', resolved);
    await cluster.supervisor.kill(name);
    const user = `${SYSTEM}:harbinger-controller`;
    const writes = cluster.audit
      .query({ user })
      .filter((e) => !['get', 'list', 'watch'].includes(e.verb) && e.resource !== 'leases' && e.resource !== 'events');
    const kinds = new Set(writes.map((e) => `${e.verb} ${e.resource}${e.subresource === '' ? '' : `/${e.subresource}`}`));
    expect([...kinds].sort()).toEqual([
      'delete daemonsets',
      'delete imageprewarms',
      'patch accelerationpolicies/status',
      'patch admissionchecks/status',
      'patch configmaps',
      'patch daemonsets',
      'patch imageprewarms',
      'patch imageprewarms/status',
      'patch jobs',
      'patch workloads',
      'patch workloads/status',
    ]);
  }, 240_000);

  test.each(ROWS)(
    '%s: the next one finishes the work',
    async (point) => {
      const id = point.replace(':', '-');
      const first = await controller({ HARBINGER_ENABLE_FAILPOINTS: '1', HARBINGER_FAILPOINT: point });
      const { resolved } = await scenario(id);
      expect(await within(cluster.supervisor.exited(first), 60_000)).toBe('SIGKILL');
      const second = await controller();
      await finished(id, resolved);
      await cluster.supervisor.kill(second);
    },
    300_000,
  );

  test('a failpoint is ignored unless failpoints are enabled', async () => {
    const name = await controller({ HARBINGER_FAILPOINT: 'before:write-check' });
    const { resolved } = await scenario('disabled');
    await finished('disabled', resolved);
    await cluster.supervisor.kill(name);
  }, 240_000);

  test('two controllers: the other takes over when the leader freezes in mid-pull, nothing is pulled twice, and the frozen one gives up', async () => {
    const a = await controller({}, 'a');
    await until(
      'the first to lead',
      async () => {
        const lease = await cluster.client.find('coordination.k8s.io/v1/Lease', `${SYSTEM}/harbinger-controller`);
        return lease?.['spec'].holderIdentity === 'a' || notYet(lease?.['spec']);
      },
      { timeoutMs: 60_000 },
    );
    const b = await controller({}, 'b');
    // The pulls alone would be over within a second.
    const hang = (value: string | null): Promise<unknown> =>
      Promise.all(cluster.fakeNodes.names.map((n) => knob(cluster, n, knobNames.hang, value)));
    await hang('true');
    const { resolved } = await scenario('two');
    await prewarmOf(cluster, 'two', (p) => (p['status']?.nodes?.pulling ?? 0) > 0);
    await cluster.pause(a);
    await hang(null);
    await finished('two', resolved);
    const lease = await cluster.client.get('coordination.k8s.io/v1/Lease', `${SYSTEM}/harbinger-controller`);
    expect(lease['spec'].holderIdentity).toBe('b');
    await cluster.resume(a);
    expect(await within(cluster.supervisor.exited(a), 60_000)).toBe(1);
    await cluster.supervisor.kill(b);
  }, 300_000);
});

async function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>(
    (_, reject) => (timer = setTimeout(() => reject(new Error(`the controller has not ended within ${ms / 1000} s`)), ms)),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
