import { findCondition, isTrue } from '../src/api/conditions.js';
import type { ImagePrewarm } from '../src/api/kinds/index.js';
import { secondsText } from '../src/cli/timeline/model.js';
import type { Raw } from '../test/cluster/client.js';
import { isStarted, pullsDigest } from './gang-times.js';
import type { Seen } from './gang-times.js';
import { checkReadyWithoutQuota, checkState, playLeg } from './legs.js';
import type { MeasuredLeg, Report } from './report.js';
import { HARBINGER_NAMESPACE, megabytes, NAMESPACE, STEP_DEADLINE_MS } from './settings.js';
import { brief, podsOf } from './stage.js';
import type { Stage } from './stage.js';

export interface HarbingerLeg {
  measured: MeasuredLeg;
  prewarm: NonNullable<Report['prewarm']>;
}

/** The leg in which Harbinger works, told step by step. */
export async function playHarbingerLeg(stage: Stage): Promise<HarbingerLeg> {
  const { narrator } = stage;
  let prewarm: Report['prewarm'] = null;
  let resolved = '';
  const measured = await playLeg(stage, {
    leg: 'harbinger',
    prewarm: true,
    blockerHoldsQuota: (blocker) =>
      narrator.step('blocker-holds-quota', `a blocker fills the queue: Workload ${blocker.metadata.name} is Admitted`),
    queued: async (workload, job) => {
      narrator.step(
        'gang-queued',
        `Job ${job} waits: Workload ${workload.metadata.name} has no quota, check ${checkState(workload) ?? ''}`,
      );
      const warm = await warmWhileQueued(stage, job);
      prewarm = warm.prewarm;
      resolved = warm.resolved;
      return { digest: warm.digest };
    },
    blockerEnded: (at) => narrator.step('blocker-ended', 'the quota of the blocker is free', at),
    admitted: (seconds) => narrator.step('gang-admitted', `Job train-harbinger is Admitted ${secondsText(seconds)} after that`),
    running: async (job, { times }) => {
      checkDigest(stage, job, resolved);
      const wait = secondsText((times.lastRunningAt - times.quotaFreeAt) / 1000);
      narrator.step('gang-running', `all ${times.pods} Pods run ${wait} after free quota`, times.lastRunningAt);
      await pullersGone(stage, resolved);
      await show(stage, ['events', '-n', NAMESPACE, '--for', `job/${job}`]);
    },
  });
  if (prewarm === null) throw new Error('the gang started without having been prewarmed');
  return { measured, prewarm };
}

interface Warmed {
  digest: string;
  resolved: string;
  prewarm: NonNullable<Report['prewarm']>;
}

async function warmWhileQueued(stage: Stage, job: string): Promise<Warmed> {
  const { narrator, settings } = stage;
  const startedAt = Date.now();
  const created = await waitForPrewarm(stage, job, { to: 'to exist', timeoutMs: STEP_DEADLINE_MS, check: () => true });
  narrator.step('imageprewarm-created', `Harbinger made ImagePrewarm ${created.metadata.name} for it`);
  const pulling = await waitForPrewarm(stage, job, {
    to: 'to have a recorded digest and pullers on nodes',
    timeoutMs: STEP_DEADLINE_MS,
    check: (p) => pullersOf(stage, recordOf(p)?.digest).some((pod) => pod.spec?.nodeName !== undefined),
  });
  const record = recordOf(pulling);
  if (record === undefined) throw new Error('an ImagePrewarm lost its record of the image');
  const first = pullersOf(stage, record.digest).map((p) => p.spec?.nodeName ?? '');
  const what = record.resolved
    .split('/')
    .slice(1)
    .join('/')
    .replace(/(@sha256:.{12}).*/, '$1…');
  narrator.step('nodes-warming', `a puller on ${first.join(', ')} mounts ${what} as a volume; nothing of the image runs`);
  const progress = followProgress(stage, job);
  let warm: ImagePrewarm;
  try {
    warm = await waitForPrewarm(stage, job, {
      to: 'to be Ready with every desired node warm',
      timeoutMs: settings.pullDeadlineMs,
      check: isWarm,
    });
  } finally {
    await progress.stop();
  }
  const seconds = (Date.now() - startedAt) / 1000;
  const nodes = warm.status?.nodes;
  const started = pullersOf(stage, record.digest).filter(isStarted);
  if (started.length < (nodes?.desired ?? 0))
    throw new Error(`ImagePrewarm ${job} says ${nodes?.warm} nodes are warm, but only ${started.length} pullers run`);
  narrator.step(
    'nodes-warm',
    `${nodes?.warm}/${nodes?.desired} nodes are warm after ${secondsText(seconds)}: a started puller on each, seen by us too`,
  );
  const workload = await checkReadyWithoutQuota(stage, job);
  narrator.step('check-ready-without-quota', `check is Ready and Workload ${workload.metadata.name} still holds no quota`);
  await showPrewarm(stage);
  return {
    ...record,
    prewarm: { nodesDesired: nodes?.desired ?? 0, nodesWarm: nodes?.warm ?? 0, seconds: Number(seconds.toFixed(1)) },
  };
}

/** The check of each Workload: what it says while the gang waits is what users see of Harbinger in Kueue. */
const CHECK_COLUMNS =
  'custom-columns=NAME:.metadata.name,CHECK:.status.admissionChecks[0].state,MESSAGE:.status.admissionChecks[0].message';

/** Moves a bar with the bytes that the link has carried, since the API has no progress below a whole image; kubectl is shown halfway. */
function followProgress(stage: Stage, job: string): { stop: () => Promise<void> } {
  const expected = stage.settings.imageBytes * stage.settings.nodeCount;
  let ended = false;
  const loop = async (): Promise<void> => {
    const before = await stage.linkBytes();
    let shown = false;
    while (!ended) {
      const bytes = (await stage.linkBytes()) - before;
      const share = Math.min(1, bytes / expected);
      const warm = prewarmOf(stage, job)?.status?.progress ?? '0/?';
      if (!shown && share > 0.4) {
        shown = true;
        await show(stage, ['get', 'ipw', '-n', NAMESPACE, '-o', 'wide']);
        await show(stage, ['get', 'workloads', '-n', NAMESPACE, '-o', CHECK_COLUMNS]);
      }
      stage.narrator.progress(share, `${megabytes(bytes)} over the link, nodes warm ${warm}`);
      await new Promise((next) => setTimeout(next, 250));
    }
  };
  const done = loop();
  // The loop only decorates: should it fail, the wait beside it tells why.
  done.catch(() => undefined);
  return {
    stop: async () => {
      ended = true;
      await done;
    },
  };
}

async function showPrewarm(stage: Stage): Promise<void> {
  await show(stage, ['get', 'ipw', '-n', NAMESPACE]);
  await show(stage, ['wait', '--for=condition=Ready', 'ipw', '--all', '-n', NAMESPACE, '--timeout=5s']);
  const { command, output } = await stage.kubectl.show(['describe', 'ipw', '-n', NAMESPACE]);
  // Metadata and spec are long and say what the story has said.
  stage.narrator.output(command, `...\n${output.slice(Math.max(0, output.search(/^Status:/m)))}`);
  // Long and the same in each run: kept for the docs, not shown here.
  await stage.kubectl.show(['explain', 'imageprewarm.spec.targets']);
  await stage.kubectl.show(['get', 'pods', '-n', HARBINGER_NAMESPACE, '-o', 'wide']);
}

async function show(stage: Stage, args: string[]): Promise<void> {
  const { command, output } = await stage.kubectl.show(args);
  stage.narrator.output(command, output);
}

function checkDigest(stage: Stage, job: string, resolved: string): void {
  const pods = podsOf(stage, job);
  const other = pods.map((p) => p.spec?.containers?.[0]?.image).find((image) => image !== resolved);
  if (other !== undefined) throw new Error(`a Pod of Job ${job} has image ${other}; recorded for the gang is ${resolved}`);
  const firstSeen = pods.map(
    (pod) => stage.observer.observations.find((o) => o.object.metadata.uid === pod.metadata.uid)?.at ?? Date.now(),
  );
  const evidence = `all ${pods.length} Pods carry the recorded ${resolved.slice(-12)}, though the Job names a tag`;
  stage.narrator.step('pods-carry-recorded-digest', evidence, Math.max(...firstSeen));
}

async function pullersGone(stage: Stage, resolved: string): Promise<void> {
  const digest = resolved.split('@')[1];
  await stage.observer.wait({
    what: 'the pullers of the gang to be removed after its start',
    probe: () => pullersOf(stage, digest).length === 0,
    timeoutMs: STEP_DEADLINE_MS,
    last: () => pullersOf(stage, digest).map(brief),
  });
  stage.narrator.step('pullers-removed', 'the pullers are gone: the running gang itself keeps the image now');
}

interface Expected {
  to: string;
  timeoutMs: number;
  check: (prewarm: ImagePrewarm) => boolean;
}

async function waitForPrewarm(stage: Stage, job: string, { to, timeoutMs, check }: Expected): Promise<ImagePrewarm> {
  return stage.observer.wait({
    what: `the ImagePrewarm of Job ${job} ${to}`,
    probe: () => {
      const prewarm = prewarmOf(stage, job);
      return prewarm !== undefined && check(prewarm) ? prewarm : undefined;
    },
    timeoutMs,
    last: () => ({ prewarms: stage.observer.list('imageprewarms').map(brief), pullers: allPullers(stage) }),
  });
}

function prewarmOf(stage: Stage, job: string): ImagePrewarm | undefined {
  return (stage.observer.list('imageprewarms') as (Raw & ImagePrewarm)[]).find((p) => p.spec.gangRef?.name === job);
}

function isWarm(prewarm: ImagePrewarm): boolean {
  const { nodes, conditions } = prewarm.status ?? {};
  return (
    isTrue(conditions, 'Ready') &&
    findCondition(conditions, 'Ready')?.reason === 'AllNodesWarm' &&
    nodes !== undefined &&
    nodes.desired > 0 &&
    nodes.warm === nodes.desired
  );
}

function recordOf(prewarm: ImagePrewarm): { resolved: string; digest: string } | undefined {
  const resolved = prewarm.status?.targets?.[0]?.images[0]?.resolved;
  const digest = resolved?.split('@')[1];
  return resolved === undefined || digest === undefined ? undefined : { resolved, digest };
}

function pullersOf(stage: Stage, digest: string | undefined): Seen[] {
  return digest === undefined ? [] : (stage.observer.list('pods') as Seen[]).filter((p) => pullsDigest(p, digest));
}

/** For the story of a failure: whatever runs in Harbinger's namespace. */
function allPullers(stage: Stage): unknown[] {
  return stage.observer
    .list('pods')
    .filter((p) => p.metadata.namespace === HARBINGER_NAMESPACE)
    .map(brief);
}
