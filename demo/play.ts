import type { Cluster } from '../test/cluster/cluster.js';
import type { LegName } from '../src/cli/timeline/model.js';
import { LEGS, secondsText } from '../src/cli/timeline/model.js';
import { playHarbingerLeg } from './harbinger-leg.js';
import { pushImages } from './images.js';
import { Kubectl } from './kubectl.js';
import { playLeg } from './legs.js';
import type { Narrator } from './narrator.js';
import { gangJob, namespaceObject, queueObjects } from './objects.js';
import { Observer } from './observer.js';
import type { MeasuredLeg, Report } from './report.js';
import { CHECK, megabytes, QUEUE, STEP_DEADLINE_MS } from './settings.js';
import type { Settings } from './settings.js';
import { showWebhook } from './showcase.js';
import { brief, podsOf, removeJob } from './stage.js';
import type { Stage } from './stage.js';
import { isRunning } from './gang-times.js';
import { isTrue } from '../src/api/conditions.js';

/** One run of the demo: what it is told, and what it has measured so far, so that a failed run still reports what it saw. */
export interface Run {
  settings: Settings;
  narrator: Narrator;
  signal: AbortSignal;
  /** Makes the bytes of this run's images its own. */
  id: string;
  /** A random integer below n; decides the order of the legs. */
  shuffle: (n: number) => number;
  legs: MeasuredLeg[];
  prewarm: Report['prewarm'];
}

/** Plays all acts on a running cluster. Throws at the first step that is not observed in time. */
export async function play(run: Run, cluster: Cluster): Promise<void> {
  const stage = await setUp(run, cluster);
  const order = shuffled(LEGS, run.shuffle);
  run.narrator.heading(`Three gangs, one after the other, in random order: ${order.join(', ')}`);
  for (const leg of order) run.legs.push(await ACTS[leg](stage, run));
  run.narrator.heading('Pods that nobody prewarmed');
  await showWebhook(stage);
}

const ACTS: Record<LegName, (stage: Stage, run: Run) => Promise<MeasuredLeg>> = {
  cold: async (stage) => {
    stage.narrator.heading('Cold: the gang did not opt in and pulls when it has quota');
    const measured = await playLeg(stage, { leg: 'cold', prewarm: false });
    if (measured.rewritten > 0)
      throw new Error(`${measured.rewritten} Pods of the cold leg had their image rewritten; the leg would not be cold`);
    stage.narrator.step(
      'cold-leg-measured',
      `all Pods run ${wait(measured)} after free quota; ${megabytes(measured.bytes)} came over the link`,
    );
    return measured;
  },
  harbinger: async (stage, run) => {
    stage.narrator.heading('Harbinger: the gang opted in and its image is pulled while it waits');
    const { measured, prewarm } = await playHarbingerLeg(stage);
    run.prewarm = prewarm;
    return measured;
  },
  warm: async (stage) => {
    stage.narrator.heading('Warm control: the image is on every node before the gang exists');
    await seed(stage);
    const measured = await playLeg(stage, { leg: 'warm', prewarm: false });
    stage.narrator.step('warm-leg-measured', `all Pods run ${wait(measured)} after free quota: no start can be faster here`);
    return measured;
  },
};

/** Puts the warm control's image on every node the plain way: a Job outside of the queue runs there once. */
async function seed(stage: Stage): Promise<void> {
  const { client, images, settings, observer, narrator } = stage;
  const name = 'seed-warm';
  narrator.doing('a Job outside of the queue runs its image once on every node');
  await client.create(gangJob({ name, image: images.legs.warm, pods: settings.nodeCount, unqueued: true }));
  await observer.wait({
    what: `${settings.nodeCount} Pods of Job ${name} running`,
    probe: () => podsOf(stage, name).filter(isRunning).length === settings.nodeCount,
    timeoutMs: settings.pullDeadlineMs,
    last: () => podsOf(stage, name).map(brief),
  });
  await removeJob(stage, name, STEP_DEADLINE_MS);
}

async function setUp(run: Run, cluster: Cluster): Promise<Stage> {
  const { settings, narrator, signal } = run;
  const { client } = cluster;
  const observer = new Observer(client, signal);
  for (const [resource, kind] of Object.entries(FOLLOWED)) await observer.follow(resource, kind);
  narrator.step('cluster-ready', `${observer.list('nodes').length} ${settings.nodes} nodes are Ready, Kueue runs`);

  narrator.doing('building and pushing images, each of bytes that no compressor shortens');
  const images = await pushImages(cluster.registry.host, settings, run.id);
  narrator.step(
    'images-pushed',
    `one image of ${megabytes(settings.imageBytes)} per gang in ${cluster.registry.host}, link ${settings.linkMbit} Mbit/s`,
  );

  await cluster.installHarbinger({ pullerImage: images.puller });
  await observer.follow('imageprewarms', 'harbinger.dev/v1alpha1/ImagePrewarm');
  narrator.step('harbinger-ready', 'webhook and controller run as processes with service accounts of their own');

  await client.apply([namespaceObject(), ...queueObjects(settings.nodeCount)]);
  await observer.wait({
    what: `ClusterQueue ${QUEUE} and AdmissionCheck ${CHECK} Active`,
    probe: () =>
      ['clusterqueues', 'admissionchecks'].every((r) => observer.list(r).some((o) => isTrue(o['status']?.conditions, 'Active'))),
    timeoutMs: STEP_DEADLINE_MS,
    last: () => [...observer.list('clusterqueues'), ...observer.list('admissionchecks')].map(brief),
  });
  narrator.step('queue-active', `ClusterQueue ${QUEUE} has room for one gang and asks Harbinger's check ${CHECK}`);

  const kubectl = new Kubectl(cluster.tools['kubectl'] ?? 'kubectl', cluster.kubeconfig, `${settings.out}/outputs`);
  const linkBytes =
    settings.nodes === 'real' ? () => cluster.registry.bytesSent() : async () => (await cluster.fakeNodes.bytes()).total;
  return { settings, client, observer, narrator, images, kubectl, linkBytes };
}

const FOLLOWED = {
  nodes: 'v1/Node',
  pods: 'v1/Pod',
  workloads: 'kueue.x-k8s.io/v1beta2/Workload',
  clusterqueues: 'kueue.x-k8s.io/v1beta2/ClusterQueue',
  admissionchecks: 'kueue.x-k8s.io/v1beta2/AdmissionCheck',
};

function wait({ times }: MeasuredLeg): string {
  return secondsText((times.lastRunningAt - times.quotaFreeAt) / 1000);
}

/** Fisher and Yates. */
function shuffled<T>(items: readonly T[], below: (n: number) => number): T[] {
  const left = [...items];
  const out: T[] = [];
  while (left.length > 0) out.push(...left.splice(below(left.length), 1));
  return out;
}
