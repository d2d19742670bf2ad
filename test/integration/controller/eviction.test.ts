import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isTrue, type Raw } from '../../cluster/client.js';
import { Cluster } from '../../cluster/cluster.js';
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
  pullersGone,
  pushImage,
  pushPuller,
  QUEUE,
  ready,
  removeJob,
  reserved,
  runningPods,
  WORKLOAD,
  workloadOf,
  type Pushed,
} from './ground.js';

const UNCHECKED = 'unchecked';
const KUEUE = 'kueue.x-k8s.io/v1beta2';

/** What Kueue takes back it gives again: an eviction resets every check, and the retry has to be the gang that it was. */
describe('a gang that does not run through at once', () => {
  let cluster: Cluster;
  let plain: string;

  beforeAll(async () => {
    cluster = await Cluster.start({ name: 'it-eviction', kueue: true, nodes: { fake: 3 }, say: () => undefined });
    await cluster.client.apply(namespace);
    plain = (await pushImage(cluster, 'plain')).image;
    await cluster.installHarbinger({ pullerImage: await pushPuller(cluster), config: { budgets: { tagRecheckSeconds: 1 } } });
    const shared = { namespace: NS, quota: { cpu: '3' }, clusterQueue: { preemption: { withinClusterQueue: 'LowerPriority' } } };
    await cluster.kueueQueue({ ...shared, name: QUEUE, checks: [CHECK] });
    await cluster.kueueQueue({ ...shared, name: UNCHECKED });
    await cluster.client.create({ apiVersion: KUEUE, kind: 'WorkloadPriorityClass', metadata: { name: 'urgent' }, value: 1000 });
  }, 300_000);
  afterAll(async () => cluster?.stop());

  const images = (pods: readonly Raw[]): string[] => pods.map((p) => p['spec'].containers[0].image as string);
  const released = (p: Raw): boolean => conditionOf(p, 'Released')?.status === 'True';
  const wasEvicted = (w: Raw): boolean => isTrue(w, 'Evicted') && !reserved(w);
  const pulled = async (resolved: string): Promise<number> => (await cluster.fakeNodes.bytes()).byImage[resolved] ?? 0;

  /** A gang that runs warm, whose tag has moved since. */
  async function runs(name: string): Promise<Pushed> {
    const image = await pushImage(cluster, name);
    await cluster.client.create(gang(name, image.image, { annotations: prewarm('10m') }));
    expect(images(await runningPods(cluster, name, 3))).toEqual([image.resolved, image.resolved, image.resolved]);
    await prewarmOf(cluster, name, released);
    await pullersGone(cluster, image.resolved);
    const next = await pushImage(cluster, name, { seed: `${name} again` });
    expect(next.digest).not.toBe(image.digest);
    return image;
  }

  /** The second run: the check is Ready once more, the Pods run what the first ones ran, and no byte of it was pulled again. */
  async function runsAgain(
    name: string,
    { resolved }: Pushed,
    { since, bytes }: { since: string; bytes: number },
  ): Promise<void> {
    const again = await workloadOf(cluster, name, (w) => admitted(w) && checkOf(w).state === 'Ready', 60_000);
    // Another Ready than that of the first run: the time of a state is that of its last change.
    expect(Date.parse(checkOf(again).lastTransitionTime)).toBeGreaterThanOrEqual(Date.parse(since));
    expect(images(await runningPods(cluster, name, 3))).toEqual([resolved, resolved, resolved]);
    expect(await pulled(resolved)).toBe(bytes);
    await removeJob(cluster, name);
  }

  test('is deactivated and activated: its check is asserted anew, and the retry runs the recorded digest', async () => {
    const image = await runs('paused');
    const bytes = await pulled(image.resolved);
    expect(bytes).toBeGreaterThan(0);
    const key = `${NS}/${(await workloadOf(cluster, 'paused')).metadata.name}`;
    await cluster.client.patch(WORKLOAD, key, { spec: { active: false } });
    const evicted = await cluster.client.watchUntil(WORKLOAD, key, (w) => wasEvicted(w) && checkOf(w).state === 'Pending');
    await runningPods(cluster, 'paused', 0);
    await cluster.client.patch(WORKLOAD, key, { spec: { active: true } });
    await runsAgain('paused', image, { since: checkOf(evicted).lastTransitionTime, bytes });
  }, 240_000);

  test('is preempted: it waits warm without quota, and comes back with the recorded digest', async () => {
    const image = await runs('preempted');
    const bytes = await pulled(image.resolved);
    const urgent = gang('urgent', plain);
    urgent.metadata['labels'] = { ...(urgent.metadata['labels'] as object), 'kueue.x-k8s.io/priority-class': 'urgent' };
    await cluster.client.create(urgent);
    const evicted = await workloadOf(cluster, 'preempted', (w) => isTrue(w, 'Evicted') && !admitted(w));
    await runningPods(cluster, 'urgent', 3);
    const waiting = await workloadOf(cluster, 'preempted', (w) => !reserved(w) && checkOf(w).state === 'Ready');
    expect(isTrue(waiting, 'Finished')).toBe(false);
    await removeJob(cluster, 'urgent');
    await runsAgain('preempted', image, { since: timeOf(evicted, 'Evicted'), bytes });
  }, 240_000);

  test('is deleted and made again under the same name: it gets a record of its own, with what the tag names now', async () => {
    const image = await runs('twice');
    const first = await prewarmOf(cluster, 'twice');
    await removeJob(cluster, 'twice');
    await cluster.client.create(gang('twice', image.image, { annotations: prewarm('10m') }));
    const second = await prewarmOf(cluster, 'twice', (p) => p.metadata.uid !== first.metadata.uid && released(p));
    expect(conditionOf(second, 'Released')?.reason).toBe('WarmVerified');
    expect(second.metadata.name).not.toBe(first.metadata.name);
    const { resolved } = second['status'].targets[0].images[0] as { resolved: string };
    expect(resolved).not.toBe(image.resolved);
    expect(images(await runningPods(cluster, 'twice', 3))).toEqual([resolved, resolved, resolved]);
    await cluster.client.untilGone(PREWARM, `${NS}/${first.metadata.name}`);
    await removeJob(cluster, 'twice');
  }, 240_000);

  test('waits in a queue without our check: it is warmed and pinned as any other', async () => {
    const { image, resolved } = await pushImage(cluster, 'free');
    await cluster.client.create(gang('blocker', plain, { queue: UNCHECKED }));
    await workloadOf(cluster, 'blocker', admitted);
    await cluster.client.create(gang('free', image, { queue: UNCHECKED, annotations: prewarm('10m') }));
    await prewarmOf(cluster, 'free', ready);
    const queued = await workloadOf(cluster, 'free');
    expect([reserved(queued), checkOf(queued)]).toEqual([false, undefined]);
    await removeJob(cluster, 'blocker');
    expect(images(await runningPods(cluster, 'free', 3))).toEqual([resolved, resolved, resolved]);
    expect(conditionOf(await prewarmOf(cluster, 'free', released), 'Released')?.reason).toBe('WarmVerified');
    await pullersGone(cluster, resolved);
    await removeJob(cluster, 'free');
  }, 240_000);

  test('is cold in a queue without our check: it is never held, whatever hold it asks for; with the check it is', async () => {
    const every = (value: string | null): Promise<void[]> =>
      Promise.all(cluster.fakeNodes.names.map((n) => knob(cluster, n, knobNames.hang, value)));
    await every('true');
    const { image } = await pushImage(cluster, 'cold');
    const twin = await pushImage(cluster, 'twin');
    await cluster.client.create(gang('twin', twin.image, { annotations: prewarm('10m') }));
    await workloadOf(
      cluster,
      'twin',
      (w) => reserved(w) && w.metadata.annotations?.['harbinger.dev/hold-deadline'] !== undefined,
    );
    await cluster.client.create(gang('cold', image, { queue: UNCHECKED, annotations: prewarm('10m') }));
    await workloadOf(cluster, 'cold', admitted);
    expect(ready(await prewarmOf(cluster, 'cold'))).toBe(false);
    expect(admitted(await workloadOf(cluster, 'twin'))).toBe(false);
    await every(null);
    await workloadOf(cluster, 'twin', admitted, 60_000);
    await removeJob(cluster, 'twin');
    await removeJob(cluster, 'cold');
  }, 240_000);
});

const timeOf = (object: Raw, type: string): string =>
  object['status'].conditions.find((c: { type: string }) => c.type === type).lastTransitionTime as string;
