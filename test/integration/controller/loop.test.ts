import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import { knobNames } from '../../doubles/fake-kubelet/index.js';
import { pushPair } from '../webhook/ground.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  knob,
  namespace,
  NS,
  prewarm,
  prewarmOf,
  pullersGone,
  pullersOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  runningPods,
  workloadOf,
} from './ground.js';

/** The whole loop on a real API server, scheduler, Kueue and registry; nodes are fake and keep an image store each. */
describe('a gang that waits in a queue', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let blockerImage: string;

  beforeAll(async () => {
    cluster = await Cluster.start({
      name: 'it-loop',
      // As it came before 0.19: it writes nothing of the Pods of a gang.
      kueue: { waitForPodsReady: false },
      nodes: { fake: 3 },
      say: () => undefined,
    });
    await cluster.client.apply(namespace);
    blockerImage = (await pushImage(cluster, 'blocker')).image;
    harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { budgets: { tagRecheckSeconds: 2 } },
    });
    await cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '3' }, checks: [CHECK] });
  }, 300_000);
  afterAll(async () => {
    if (process.env['SHOW_LOGS']) console.log(harbinger?.controllers[0]?.logs());
    await cluster?.stop();
  });

  // A test that failed must not take the later ones with it.
  afterEach(async () => {
    for (const node of cluster.fakeNodes.names)
      for (const name of Object.values(knobNames)) await knob(cluster, node, name, null);
    for (const job of await cluster.client.list('batch/v1/Job', { namespace: NS })) await removeJob(cluster, job.metadata.name);
  }, 240_000);

  test('is warmed while the queue is full, is Ready without quota, and starts from the warm nodes', async () => {
    const { image, resolved } = await pushImage(cluster, 'train');
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('waiting', image, { annotations: prewarm() }));

    const warm = await prewarmOf(cluster, 'waiting', ready);
    expect(warm['status']).toMatchObject({
      progress: '3/3',
      nodes: { desired: 3, warm: 3, pulling: 0, pending: 0, failed: 0 },
      gang: 'Job/waiting',
      queue: QUEUE,
      placement: 'Candidates',
    });
    expect(warm['status'].targets[0].images[0]).toMatchObject({ source: image, resolved, outcome: 'pinned' });
    const queued = await workloadOf(cluster, 'waiting', (w) => checkOf(w)?.state === 'Ready');
    expect(reserved(queued)).toBe(false);

    await removeJob(cluster, 'blocker');
    await workloadOf(cluster, 'waiting', admitted);
    const pods = await runningPods(cluster, 'waiting', 3);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    const bytes = await cluster.fakeNodes.bytes();
    expect(Object.keys(bytes.byImage).filter((name) => name.includes('/train'))).toEqual([resolved]);
    const released = await prewarmOf(cluster, 'waiting', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('WarmVerified');
    await pullersGone(cluster, resolved);
    await removeJob(cluster, 'waiting');
  }, 240_000);

  test('has its images held until the last of its Pods runs, and no longer', async () => {
    const { image, resolved } = await pushImage(cluster, 'apart');
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    // One Pod to a node, and somebody sits on the third. Of several terms the scheduler would look again only when a Pod of all goes.
    const seated = { 'job-name': 'apart' };
    const apart = { labelSelector: { matchLabels: seated }, topologyKey: 'kubernetes.io/hostname' };
    const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } };
    await cluster.client.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'seat', namespace: NS, labels: seated },
      spec: {
        nodeName: 'fake-3',
        terminationGracePeriodSeconds: 0,
        containers: [{ name: 'c', image: blockerImage, command: ['/pause', 'sleep', '3600'] }],
      },
    });
    await cluster.client.create(gang('apart', image, { annotations: prewarm(), spec: { affinity } }));
    await prewarmOf(cluster, 'apart', ready);
    await removeJob(cluster, 'blocker');
    await workloadOf(cluster, 'apart', admitted);
    await runningPods(cluster, 'apart', 2);
    // Whoever has warmed another image since has planned since.
    await cluster.client.create(gang('since', (await pushImage(cluster, 'since')).image, { annotations: prewarm() }));
    await prewarmOf(cluster, 'since', ready);
    expect(conditionOf(await prewarmOf(cluster, 'apart'), 'Ready')?.reason).toBe('AllNodesWarm');
    expect(await pullersOf(cluster, resolved)).toHaveLength(3);

    await cluster.client.delete('v1/Pod', `${NS}/seat`);
    await runningPods(cluster, 'apart', 3);
    await prewarmOf(cluster, 'apart', (p) => conditionOf(p, 'Ready')?.reason === 'Finished');
    await pullersGone(cluster, resolved);
    // Nobody but the Pods can have told.
    const { status } = await workloadOf(cluster, 'apart');
    expect(status.conditions.map((c: { type: string }) => c.type)).not.toContain('PodsReady');
    await removeJob(cluster, 'apart');
    await removeJob(cluster, 'since');
  }, 240_000);

  test('that did not opt in is let go at first sight and nothing is pulled for it', async () => {
    const { image, resolved } = await pushImage(cluster, 'plain');
    await cluster.client.create(gang('plain', image));
    const workload = await workloadOf(cluster, 'plain', admitted);
    expect(checkOf(workload)).toMatchObject({ state: 'Ready', message: 'not opted in to prewarming' });
    await runningPods(cluster, 'plain', 3);
    expect(await pullersOf(cluster, resolved)).toEqual([]);
    await removeJob(cluster, 'plain');
  }, 240_000);

  test('whose tag moves while it is queued is warmed again and runs the new digest, all the same', async () => {
    const old = await pushImage(cluster, 'moving');
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('moving', old.image, { annotations: prewarm() }));
    await workloadOf(cluster, 'moving', (w) => checkOf(w)?.state === 'Ready');

    const next = await pushImage(cluster, 'moving', { seed: 'moving again' });
    expect(next.digest).not.toBe(old.digest);
    await prewarmOf(cluster, 'moving', (p) => p['status'].targets[0].images[0].digest === next.digest && ready(p), 60_000);
    await workloadOf(cluster, 'moving', (w) => checkOf(w)?.state === 'Ready');
    await removeJob(cluster, 'blocker');
    const pods = await runningPods(cluster, 'moving', 3);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([next.resolved, next.resolved, next.resolved]);

    // Frozen from now on: a retry must run what its siblings run. A Pod of the Job is only tried, as its controller takes its time.
    await pushImage(cluster, 'moving', { seed: 'moving for the third time' });
    const { spec } = gang('moving', old.image) as unknown as { spec: { template: { spec: Record<string, unknown> } } };
    const metadata = { generateName: 'moving-', namespace: NS, ownerReferences: pods[0]?.metadata.ownerReferences };
    const retry = { apiVersion: 'v1', kind: 'Pod', metadata, spec: spec.template.spec };
    const tried = (await cluster.client.request('POST', `/api/v1/namespaces/${NS}/pods?dryRun=All`, retry)) as Raw;
    expect(tried['spec'].containers[0].image).toBe(next.resolved);
    await removeJob(cluster, 'moving');
  }, 300_000);

  test('runs the variant that a policy wants for prewarmed gangs, warmed as such', async () => {
    const { source, variantDigest } = await pushPair(cluster, 'lazy');
    const policy = {
      match: { images: [`${cluster.registry.host}/lazy`] },
      whenPrewarmed: 'Variant',
      variants: [{ format: 'estargz', discover: { tagSuffix: '-esgz' } }],
    };
    await cluster.client.apply({
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'AccelerationPolicy',
      metadata: { name: 'lazy' },
      spec: policy,
    });
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('lazy', source, { annotations: prewarm() }));
    const resolved = `${cluster.registry.host}/lazy@${variantDigest}`;
    const warm = await prewarmOf(cluster, 'lazy', ready);
    expect(warm['status'].targets[0].images[0]).toMatchObject({ source, resolved, outcome: 'accelerated' });
    await removeJob(cluster, 'blocker');
    const pods = await runningPods(cluster, 'lazy', 3);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved, resolved]);
    await removeJob(cluster, 'lazy');
  }, 240_000);

  test('is never held with quota reserved when it names no hold, however cold it is', async () => {
    await slow(async () => {
      const { image } = await pushImage(cluster, 'cold');
      await cluster.client.create(gang('cold', image, { annotations: prewarm() }));
      const workload = await workloadOf(cluster, 'cold', admitted);
      expect(checkOf(workload)).toMatchObject({
        state: 'Ready',
        message: expect.stringContaining('quota is reserved; let go with'),
      });
      const released = await prewarmOf(cluster, 'cold', (p) => conditionOf(p, 'Released')?.status === 'True');
      expect(conditionOf(released, 'Released')?.reason).toBe('QuotaReservedCold');
      await removeJob(cluster, 'cold');
    });
  }, 240_000);

  test('with a hold waits with quota reserved until it is warm, under a deadline that was stamped first', async () => {
    await slow(async (end) => {
      const { image } = await pushImage(cluster, 'held');
      await cluster.client.create(gang('held', image, { annotations: prewarm('10m') }));
      const held = await workloadOf(
        cluster,
        'held',
        (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined,
      );
      expect(checkOf(held).state).toBe('Pending');
      const since = held['status'].conditions.find((c: { type: string }) => c.type === 'QuotaReserved')
        .lastTransitionTime as string;
      expect(Date.parse(held.metadata.annotations?.['harbinger.dev/hold-deadline'] ?? '') - Date.parse(since)).toBe(600_000);
      await workloadOf(cluster, 'held', (w) => /\d\/3 nodes warm.*; held until .*Z at the latest/.test(checkOf(w).message));
      await end();
      await workloadOf(cluster, 'held', admitted, 60_000);
      const released = await prewarmOf(cluster, 'held', (p) => conditionOf(p, 'Released')?.status === 'True');
      expect(conditionOf(released, 'Released')?.reason).toBe('WarmVerified');
      await removeJob(cluster, 'held');
    });
  }, 240_000);

  test('whose hold is over is let go cold', async () => {
    await slow(async () => {
      const { image } = await pushImage(cluster, 'late');
      await cluster.client.create(gang('late', image, { annotations: prewarm('6s') }));
      const workload = await workloadOf(cluster, 'late', admitted, 60_000);
      // The controller says so, not the watchdog, whose releases are an alert.
      expect(checkOf(workload).message).toContain('the hold of 6s is over');
      const released = await prewarmOf(cluster, 'late', (p) => conditionOf(p, 'Released')?.status === 'True');
      expect(conditionOf(released, 'Released')?.reason).toBe('DeadlineExceeded');
      await removeJob(cluster, 'late');
    });
  }, 240_000);

  test('is let go by the watchdog at its deadline while the controller is dead', async () => {
    await slow(async () => {
      const { image } = await pushImage(cluster, 'orphaned');
      await cluster.client.create(gang('orphaned', image, { annotations: prewarm('20s') }));
      await workloadOf(
        cluster,
        'orphaned',
        (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined,
      );
      const controller = harbinger.controllers[0];
      await controller?.kill();
      const workload = await workloadOf(cluster, 'orphaned', admitted, 90_000);
      expect(checkOf(workload).message).toContain('DeadlineExceeded');
      await controller?.start();
      await controller?.untilReady();
      await removeJob(cluster, 'orphaned');
    });
  }, 240_000);

  test('that opts out while it is queued is let go and its pullers leave', async () => {
    const { image, resolved } = await pushImage(cluster, 'regret');
    await cluster.client.create(gang('blocker', blockerImage));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('regret', image, { jobAnnotations: prewarm() }));
    await prewarmOf(cluster, 'regret', ready);
    await cluster.client.patch('batch/v1/Job', `${NS}/regret`, {
      metadata: { annotations: { 'harbinger.dev/prewarm': 'false' } },
    });
    await prewarmOf(cluster, 'regret', (p) => conditionOf(p, 'Ready')?.reason === 'Finished');
    await pullersGone(cluster, resolved);
    await removeJob(cluster, 'blocker');
    await workloadOf(cluster, 'regret', admitted);
    const released = await prewarmOf(cluster, 'regret', (p) => conditionOf(p, 'Released')?.status === 'True');
    expect(conditionOf(released, 'Released')?.reason).toBe('OptedOut');
    await removeJob(cluster, 'regret');
  }, 240_000);

  describe('on nodes that do not keep their word (P4)', () => {
    /** A queued gang whose images cannot all become warm while `fault` holds on fake-2; each has an image of its own. */
    async function queued(name: string, fault: () => Promise<void>): Promise<void> {
      const { image } = await pushImage(cluster, name);
      await cluster.client.create(gang('blocker', blockerImage));
      await workloadOf(cluster, 'blocker', admitted);
      await fault();
      await cluster.client.create(gang(name, image, { annotations: prewarm() }));
    }
    const clear = async (name: string): Promise<void> => {
      await removeJob(cluster, name);
      await removeJob(cluster, 'blocker');
    };

    test('a node that runs the puller without the image is not warm, and is once it stops lying', async () => {
      await queued('lied', () => knob(cluster, 'fake-2', knobNames.lie, 'true'));
      const short = await prewarmOf(cluster, 'lied', (p) => p['status']?.nodes?.warm === 2, 60_000);
      // The positive control: it does claim to run.
      const liar = await until('the puller on fake-2 to run', async () => {
        const pods = await pullersOf(cluster, short['status'].targets[0].images[0].resolved);
        const there = pods.filter((p) => p['spec'].nodeName === 'fake-2');
        return there.find((p) => p['status'].phase === 'Running') ?? notYet(there.map((p) => p['status']));
      });
      expect(ready(await prewarmOf(cluster, 'lied'))).toBe(false);
      expect(checkOf(await workloadOf(cluster, 'lied')).state).toBe('Pending');
      await knob(cluster, 'fake-2', knobNames.lie, null);
      await cluster.client.delete('v1/Pod', `harbinger-system/${liar.metadata.name}`);
      await prewarmOf(cluster, 'lied', ready, 60_000);
      await clear('lied');
    }, 240_000);

    test('a node that is not Ready takes warmth and check back', async () => {
      await queued('flapping', () => Promise.resolve());
      await workloadOf(cluster, 'flapping', (w) => checkOf(w)?.state === 'Ready');
      await knob(cluster, 'fake-3', knobNames.notReady, 'true');
      const lost = await prewarmOf(cluster, 'flapping', (p) => !ready(p), 60_000);
      expect(conditionOf(lost, 'Ready')?.message).toContain('fake-3');
      await workloadOf(cluster, 'flapping', (w) => checkOf(w)?.state === 'Pending');
      await knob(cluster, 'fake-3', knobNames.notReady, null);
      await workloadOf(cluster, 'flapping', (w) => checkOf(w)?.state === 'Ready', 60_000);
      await clear('flapping');
    }, 240_000);

    test('a lost puller takes warmth back until it is proven again', async () => {
      await queued('lost', () => Promise.resolve());
      const warm = await prewarmOf(cluster, 'lost', ready);
      const [victim] = await pullersOf(cluster, warm['status'].targets[0].images[0].resolved);
      // The next one would run within half a second: its kubelet waits until the loss was noticed.
      await cluster.pause('fake-kubelet');
      try {
        await cluster.client.delete('v1/Pod', `harbinger-system/${victim?.metadata.name ?? ''}`, { gracePeriodSeconds: 0 });
        await prewarmOf(cluster, 'lost', (p) => !ready(p));
      } finally {
        await cluster.resume('fake-kubelet');
      }
      await prewarmOf(cluster, 'lost', ready, 60_000);
      await clear('lost');
    }, 240_000);
  });

  test('no call of the controller was forbidden, and nothing was listed in one piece', () => {
    const calls = cluster.audit.query({ user: 'system:serviceaccount:harbinger-system:harbinger-controller' });
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.filter((e) => e.code === 403).map((e) => `${e.verb} ${e.resource}`)).toEqual([]);
    const lists = calls.filter((e) => e.verb === 'list');
    expect(lists.length).toBeGreaterThan(0);
    expect(lists.filter((e) => !e.uri.includes('limit=')).map((e) => e.uri)).toEqual([]);
  });

  /** Runs `body` while no pull ends; `end` lets them end. */
  async function slow(body: (end: () => Promise<void>) => Promise<void>): Promise<void> {
    const all = (value: string | null) =>
      Promise.all(cluster.fakeNodes.names.map((n) => knob(cluster, n, knobNames.hang, value)));
    await all('true');
    try {
      await body(async () => void (await all(null)));
    } finally {
      await all(null);
    }
  }
});
