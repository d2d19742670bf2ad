import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Draft, Raw } from '../../cluster/client.js';
import { isTrue } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
import type { Harbinger, HarbingerProcess } from '../../cluster/harbinger.js';
import { notYet, until } from '../../cluster/until.js';
import {
  admitted,
  CHECK,
  checkOf,
  conditionOf,
  gang,
  namespace,
  NS,
  prewarm,
  prewarmOf,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  runningPods,
  SYSTEM,
  workloadOf,
  type Pushed,
} from './ground.js';

const CRD = 'apiextensions.k8s.io/v1/CustomResourceDefinition';

/** Somebody uninstalls half of it while it runs. The tests are one story: our CRDs go and come back, then those of Kueue. */
describe('CustomResourceDefinitions that are removed while Harbinger runs', () => {
  let cluster: Cluster;
  let harbinger: Harbinger;
  let plain: Pushed;
  let pids: number[];

  const all = (): HarbingerProcess[] => [...harbinger.webhooks, ...harbinger.controllers];
  const log = (): string => harbinger.controllers[0]?.logs() ?? '';
  const alive = async (): Promise<void> => {
    for (const { name } of all()) await cluster.supervisor.mustRun(name);
    expect(all().map((p) => p.pid)).toEqual(pids);
  };
  const crdsOf = async (group: string): Promise<Raw[]> =>
    (await cluster.client.list(CRD)).filter((c) => c['spec'].group === group);
  /** Removes CRDs with all objects; what finalizers of a dead controller keep is let go. */
  async function remove(crds: readonly Raw[]): Promise<void> {
    for (const crd of crds) await cluster.client.delete(CRD, crd.metadata.name);
    await until(
      'the CustomResourceDefinitions to be gone',
      async () => {
        for (const crd of crds) await letGo(crd);
        const left = await cluster.client.list(CRD);
        const names = left.map((c) => c.metadata.name).filter((n) => crds.some((c) => c.metadata.name === n));
        return names.length === 0 || notYet(names);
      },
      { timeoutMs: 90_000 },
    );
  }
  async function letGo({ spec }: Raw): Promise<void> {
    const { group, versions, names } = spec as { group: string; versions: { name: string }[]; names: { kind: string } };
    const kind = `${group}/${versions[0]?.name}/${names.kind}`;
    const objects = await cluster.client.list(kind).catch(() => []);
    for (const { metadata } of objects) {
      const key = metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;
      if (metadata['finalizers'] === undefined) continue;
      await cluster.client.patch(kind, key, { metadata: { finalizers: null } }).catch(() => undefined);
    }
  }
  /** One gang that is warmed, let go and pinned: everything works. */
  async function works(name: string): Promise<void> {
    const { image, resolved } = await pushImage(cluster, name);
    await cluster.client.create(gang(name, image, { pods: 2, annotations: prewarm('10m') }));
    // Its quota is free: it is Ready only for as long as its Pods take to start.
    await prewarmOf(cluster, name, (p) => conditionOf(p, 'Released')?.reason === 'WarmVerified', 90_000);
    expect(checkOf(await workloadOf(cluster, name, admitted, 60_000)).state).toBe('Ready');
    const pods = await runningPods(cluster, name, 2);
    expect(pods.map((p) => p['spec'].containers[0].image)).toEqual([resolved, resolved]);
    await removeJob(cluster, name);
  }
  /** Waits until these accounts have listed a kind that came back: each of them looks for it in its own time. */
  const found = (since: number, resource: string, accounts: readonly string[]): Promise<unknown> =>
    until(
      `${resource} to be found again`,
      () => {
        const lists = accounts.map((account) =>
          cluster.audit.query({ user: `${SYSTEM}:${account}`, verb: 'list', resource, code: 200, since }),
        );
        return lists.every((l) => l.length > 0) || notYet(lists.map((l) => l.length));
      },
      { timeoutMs: 90_000 },
    );
  const queue = (): Promise<void> => cluster.kueueQueue({ name: QUEUE, namespace: NS, quota: { cpu: '2' }, checks: [CHECK] });

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-crds-gone', kueue: true, nodes: { fake: 2 }, say: () => undefined });
    await cluster.client.apply(namespace);
    plain = await pushImage(cluster, 'plain');
    harbinger = await cluster.installHarbinger({
      pullerImage: await pushPuller(cluster),
      config: { budgets: { unstampedHoldSeconds: 15 } },
    });
    pids = all().map((p) => p.pid);
    await queue();
    await works('before');
  }, 300_000);
  afterAll(async () => cluster?.stop());

  test('ImagePrewarm: the processes live and name it, a gang is let go in time, and the return is noticed', async () => {
    const [crd] = (await crdsOf('harbinger.dev')).filter((c) => c['spec'].names.kind === 'ImagePrewarm');
    expect(crd).toBeDefined();
    await remove([crd as Raw]);
    await cluster.client.create(gang('meanwhile', plain.image, { pods: 2, annotations: prewarm('5s') }));
    await until('the log to name the missing definition', () => /imageprewarms\.harbinger\.dev/.test(log()));
    // Nothing can be recorded, so nothing vouches for a hold: it ends with the time that it asked for, or the watchdog's.
    const free = await workloadOf(cluster, 'meanwhile', admitted, 60_000);
    expect(checkOf(free).state).toBe('Ready');
    await alive();
    await removeJob(cluster, 'meanwhile');
    const since = Date.now();
    await harbinger.applyCrds();
    await found(since, 'imageprewarms', ['harbinger-controller', 'harbinger-webhook']);
    await works('after-ours');
    await alive();
  }, 400_000);

  test('all of Kueue: the controller lives and says so, prewarms made by hand still work, and the return is noticed', async () => {
    await cluster.kill('kueue');
    await remove(await crdsOf('kueue.x-k8s.io'));
    const byHand: Draft = {
      apiVersion: 'harbinger.dev/v1alpha1',
      kind: 'ImagePrewarm',
      metadata: { name: 'by-hand', namespace: NS },
      spec: { targets: [{ name: 'main', images: [{ reference: plain.image }], nodes: { names: ['fake-1'] } }] },
    };
    await cluster.client.create(byHand);
    await cluster.client.watchUntil('harbinger.dev/v1alpha1/ImagePrewarm', `${NS}/by-hand`, ready, 60_000);
    await until('the log to name Kueue', () => /workloads\.kueue\.x-k8s\.io/.test(log()), { timeoutMs: 90_000 });
    await alive();
    await cluster.client.delete('harbinger.dev/v1alpha1/ImagePrewarm', `${NS}/by-hand`);
    const since = Date.now();
    await cluster.startKueue();
    await queue();
    await found(since, 'workloads', ['harbinger-controller', 'harbinger-webhook']);
    await works('after-kueue');
    expect(isTrue(await cluster.client.get('kueue.x-k8s.io/v1beta2/AdmissionCheck', CHECK), 'Active')).toBe(true);
    await alive();
  }, 400_000);
});
