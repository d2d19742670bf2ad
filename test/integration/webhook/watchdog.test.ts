import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { metric } from './ground.js';

const WORKLOAD = 'kueue.x-k8s.io/v1beta2/Workload';
const CHECK = 'images';
const FOREIGN = 'not-ours';
/** Longer than a busy machine takes between a reservation and the look at it. */
const UNSTAMPED_SECONDS = 15;

const job = (name: string, queue: string): Draft => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace: 'default', labels: { 'kueue.x-k8s.io/queue-name': queue } },
  spec: {
    suspend: true,
    template: {
      spec: {
        restartPolicy: 'Never',
        containers: [{ name: 'main', image: 'example.com/main:1', resources: { requests: { cpu: '1' } } }],
      },
    },
  },
});

/** No controller runs here at all: what is released is released by the watchdog (promise P5). */
describe('the watchdog, with the controller dead', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-watchdog', kueue: true, registry: false, say: () => undefined });
    const check = {
      apiVersion: 'kueue.x-k8s.io/v1beta2',
      kind: 'AdmissionCheck',
      metadata: { name: FOREIGN },
      spec: { controllerName: 'example.com/other' },
    };
    await cluster.client.apply(check);
    await cluster.kueueQueue({ name: 'ours', quota: { cpu: '100' }, checks: [CHECK] });
    await cluster.kueueQueue({
      name: 'theirs',
      quota: { cpu: '100' },
      clusterQueue: { admissionChecksStrategy: { admissionChecks: [{ name: FOREIGN }] } },
      checks: ['unused'],
    });
    for (const name of [CHECK, FOREIGN]) await activate(name);
    harbinger = await cluster.installHarbinger({
      webhookReplicas: 2,
      controllers: 0,
      config: { budgets: { unstampedHoldSeconds: UNSTAMPED_SECONDS, eventLoopLagMs: 2_000 } },
    });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  // The check's own controller has to say that it lives; nobody does that here.
  async function activate(name: string): Promise<void> {
    const condition = {
      type: 'Active',
      status: 'True',
      reason: 'Active',
      message: 'by the test',
      lastTransitionTime: new Date().toISOString(),
    };
    await cluster.client.patch(
      'kueue.x-k8s.io/v1beta2/AdmissionCheck',
      name,
      { status: { conditions: [condition] } },
      { subresource: 'status' },
    );
  }

  async function reserved(name: string): Promise<Raw> {
    return until(`quota to be reserved for ${name}`, async () => {
      const all = await cluster.client.list(WORKLOAD, { namespace: 'default' });
      const mine = all.find((w) => w.metadata.ownerReferences?.some((o) => o.name === name));
      // Kueue writes the checks after the reservation.
      const complete = mine !== undefined && isTrue(mine, 'QuotaReserved') && mine['status'].admissionChecks !== undefined;
      return complete ? mine : notYet(mine?.['status'] ?? 'no Workload');
    });
  }

  const stateOf = (workload: Raw): { state: string; message: string } => workload['status'].admissionChecks[0];
  const started = (name: string, timeoutMs: number): Promise<Raw> =>
    cluster.client.watchUntil('batch/v1/Job', `default/${name}`, (j) => j['spec'].suspend === false, timeoutMs);
  const released = async (reason: string): Promise<number> => {
    const counts = await Promise.all(
      harbinger.webhooks.map((w) => metric(w, 'harbinger_watchdog_releases_total', `{reason="${reason}"}`)),
    );
    return counts.reduce((a, b) => a + b, 0);
  };

  test('a hold for which nobody vouches ends soon, and the Job starts', async () => {
    await cluster.client.create(job('unstamped', 'ours'));
    const workload = await reserved('unstamped');
    expect(stateOf(workload).state).toBe('Pending');
    await started('unstamped', (UNSTAMPED_SECONDS + 45) * 1000);
    const after = await cluster.client.get(WORKLOAD, `default/${workload.metadata.name}`);
    expect(stateOf(after)).toMatchObject({ state: 'Ready', message: expect.stringContaining('Unstamped') });
    expect(await released('Unstamped')).toBe(1);
    await until('an Event about the Workload', async () => {
      const events = await cluster.client.list('events.k8s.io/v1/Event', { namespace: 'default' });
      return (
        events.some((e) => e['regarding'].uid === workload.metadata.uid && e['reason'] === 'Unstamped') ||
        notYet(events.map((e) => e['reason']))
      );
    });
  }, 150_000);

  test('a stamped hold lasts until its deadline, and not longer', async () => {
    await cluster.client.create(job('stamped', 'ours'));
    const workload = await reserved('stamped');
    const deadline = Date.now() + (UNSTAMPED_SECONDS + 7) * 1000;
    const annotations = { 'harbinger.dev/hold-deadline': new Date(deadline).toISOString() };
    await cluster.client.patch(WORKLOAD, `default/${workload.metadata.name}`, { metadata: { annotations } });
    await started('stamped', 90_000);
    const after = await cluster.client.get(WORKLOAD, `default/${workload.metadata.name}`);
    expect(Date.parse(after['status'].admissionChecks[0].lastTransitionTime)).toBeGreaterThanOrEqual(
      Math.floor(deadline / 1000) * 1000,
    );
    expect(stateOf(after)).toMatchObject({ state: 'Ready', message: expect.stringContaining('DeadlineExceeded') });
    expect(await released('DeadlineExceeded')).toBe(1);
  }, 150_000);

  test("another controller's check is never touched", async () => {
    await cluster.client.create(job('foreign', 'theirs'));
    await cluster.client.create(job('control', 'ours'));
    const workload = await reserved('foreign');
    // Positive control: one of ours, as old as the foreign one, is released meanwhile.
    await started('control', 90_000);
    const after = await cluster.client.get(WORKLOAD, `default/${workload.metadata.name}`);
    expect(after['status'].admissionChecks).toMatchObject([{ name: FOREIGN, state: 'Pending' }]);
  }, 150_000);

  test('the replica that watches dies: the other one takes over', async () => {
    const lease = await cluster.client.get('coordination.k8s.io/v1/Lease', 'harbinger-system/harbinger-watchdog');
    const holder = harbinger.webhooks.find((w) => lease['spec'].holderIdentity === w.name) as HarbingerProcess;
    expect(harbinger.webhooks).toContain(holder);
    await holder.kill();
    await cluster.client.create(job('taken-over', 'ours'));
    await started('taken-over', 90_000);
    await holder.start();
    await holder.untilReady();
  }, 240_000);

  test('no call was forbidden, and nothing but the status of Workloads was written', () => {
    const user = 'harbinger-system:harbinger-webhook';
    expect(cluster.audit.query({ user, code: 403 })).toEqual([]);
    const writes = cluster.audit.query({ user, resource: 'workloads' }).filter((e) => !['list', 'watch', 'get'].includes(e.verb));
    expect(writes.length).toBeGreaterThan(0);
    expect(writes.every((e) => e.verb === 'patch' && e.subresource === 'status')).toBe(true);
  });

  // The way out that the runbook gives; it must need nothing of ours.
  test('with all replicas dead a Workload waits with its quota, until its check is written or taken out of the queue', async () => {
    await Promise.all(harbinger.webhooks.map((w) => w.kill()));
    for (const name of ['dead-1', 'dead-2']) await cluster.client.create(job(name, 'ours'));
    const [first, second] = [await reserved('dead-1'), await reserved('dead-2')];
    const ready = [{ op: 'replace', path: '/status/admissionChecks/0/state', value: 'Ready' }];
    await cluster.client.patch(WORKLOAD, `default/${first.metadata.name}`, ready, { type: 'json', subresource: 'status' });
    await started('dead-1', 60_000);
    const waiting = await cluster.client.get(WORKLOAD, `default/${second.metadata.name}`);
    expect([isTrue(waiting, 'Admitted'), stateOf(waiting).state]).toEqual([false, 'Pending']);
    const queue = 'kueue.x-k8s.io/v1beta2/ClusterQueue';
    await cluster.client.patch(queue, 'ours', { spec: { admissionChecksStrategy: null } });
    await started('dead-2', 60_000);
  }, 240_000);
});
