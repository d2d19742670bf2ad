import { findCondition, isTrue } from '../src/api/conditions.js';
import type { Raw } from '../test/cluster/client.js';
import { sleep } from '../test/cluster/until.js';
import type { LegName } from '../src/cli/timeline/model.js';
import { gangTimes, isRunning, quotaFree } from './gang-times.js';
import type { LegNames } from './gang-times.js';
import { gangJob } from './objects.js';
import type { MeasuredLeg } from './report.js';
import { CHECK, NAMESPACE, STEP_DEADLINE_MS } from './settings.js';
import { brief, podsOf, removeJob, workloadOf } from './stage.js';
import type { Stage } from './stage.js';

/**
 * Pause in every leg before its blocker ends: a start of two seconds is not measured in the wake of what the leg did before it
 * (a pull that has just been unpacked, a Job that is being removed, kubectl).
 */
const QUIET_MS = 3000;

/** What a leg does beside being measured; each is called when the API has shown the moment. */
export interface LegScript {
  leg: LegName;
  prewarm: boolean;
  blockerHoldsQuota?: (blocker: Raw) => void;
  /** The gang waits behind the blocker. Resolves when it is ready to go; the digest is what its nodes were made warm with. */
  queued?: (workload: Raw, job: string) => Promise<{ digest: string }>;
  blockerEnded?: (at: number) => void;
  admitted?: (secondsAfter: number) => void;
  running?: (job: string, measured: MeasuredLeg) => Promise<void>;
}

/**
 * One leg: a blocker fills the queue, the gang waits behind it with its check Ready, the blocker ends, and the clock runs from the release
 * of its quota to the last Pod of the gang running. The same for every leg; only `script` differs.
 */
export async function playLeg(stage: Stage, script: LegScript): Promise<MeasuredLeg> {
  const { observer, client, settings, narrator, images } = stage;
  const names: LegNames = {
    leg: script.leg,
    job: `train-${script.leg}`,
    blocker: `blocker-${script.leg}`,
    pods: settings.nodeCount,
  };
  await client.create(gangJob({ name: names.blocker, image: images.blocker, pods: names.pods }));
  const blocker = await allRunning(stage, names.blocker, STEP_DEADLINE_MS);
  script.blockerHoldsQuota?.(blocker);

  const bytesBefore = await stage.linkBytes();
  const image = images.legs[script.leg];
  await client.create(gangJob({ name: names.job, image, pods: names.pods, prewarm: script.prewarm }));
  const workload = await observer.wait({
    what: `Workload of Job ${names.job} in the queue, asking check ${CHECK}`,
    probe: () => [workloadOf(stage, names.job)].find((w) => checkState(w) !== undefined),
    timeoutMs: STEP_DEADLINE_MS,
    last: () => observer.list('workloads').map(brief),
  });
  const warmed = await script.queued?.(workload, names.job);
  await checkReadyWithoutQuota(stage, names.job);

  await sleep(QUIET_MS);
  narrator.doing('the blocker ends');
  await client.delete('batch/v1/Job', `${NAMESPACE}/${names.blocker}`, { propagationPolicy: 'Background' });
  await untilAdmitted(stage, names, script);
  await allRunning(stage, names.job, settings.pullDeadlineMs);
  const bytes = (await stage.linkBytes()) - bytesBefore;
  const rewritten = podsOf(stage, names.job).filter((p) => p.spec?.containers?.some((c) => c.image !== image)).length;
  const measured = { times: timesOf(stage, { ...names, ...warmed }), rewritten, bytes };
  await script.running?.(names.job, measured);
  await removeJob(stage, names.job, STEP_DEADLINE_MS);
  return measured;
}

/** Tells of free quota and admission when they are seen; the measure itself is taken from the record afterwards. */
async function untilAdmitted(stage: Stage, names: LegNames, script: LegScript): Promise<void> {
  const { observer } = stage;
  const quotaFreeAt = await observer.wait({
    what: `the quota of Job ${names.blocker} to be free`,
    probe: () => quotaFree(observer.observations, names.blocker),
    timeoutMs: STEP_DEADLINE_MS,
    last: () => brief(workloadOf(stage, names.blocker)),
  });
  script.blockerEnded?.(quotaFreeAt);
  await observer.wait({
    what: `Job ${names.job} to be admitted`,
    probe: () => isTrue(workloadOf(stage, names.job)?.['status']?.conditions, 'Admitted'),
    timeoutMs: STEP_DEADLINE_MS,
    last: () => brief(workloadOf(stage, names.job)),
  });
  script.admitted?.((Date.now() - quotaFreeAt) / 1000);
}

function timesOf(stage: Stage, names: LegNames): MeasuredLeg['times'] {
  const answer = gangTimes(stage.observer.observations, names);
  if (!answer.ok) throw new Error(`leg ${names.leg} cannot be measured; not observed: ${answer.missing.join('; ')}`);
  return answer.times;
}

/** Waits until the Job is admitted and each of its Pods runs on a node of its own; returns its Workload. */
async function allRunning(stage: Stage, job: string, timeoutMs: number): Promise<Raw> {
  return stage.observer.wait({
    what: `Job ${job}: ${stage.settings.nodeCount} Pods running`,
    probe: () => {
      const workload = workloadOf(stage, job);
      const running = podsOf(stage, job).filter(isRunning);
      return isTrue(workload?.['status']?.conditions, 'Admitted') && running.length === stage.settings.nodeCount
        ? workload
        : undefined;
    },
    timeoutMs,
    last: () => ({ workload: brief(workloadOf(stage, job)), pods: podsOf(stage, job).map(brief) }),
  });
}

/** Waits for the state in which a gang costs nothing and can go at once: check Ready, no quota reserved. */
export async function checkReadyWithoutQuota(stage: Stage, job: string): Promise<Raw> {
  return stage.observer.wait({
    what: `check ${CHECK} of Job ${job} Ready while no quota is reserved`,
    probe: () => {
      const workload = workloadOf(stage, job);
      if (findCondition(workload?.['status']?.conditions, 'QuotaReserved')?.status === 'True') {
        throw new Error(`Job ${job} got quota while the blocker ran: the demo's queue is larger than one gang`);
      }
      return checkState(workload) === 'Ready' ? workload : undefined;
    },
    timeoutMs: STEP_DEADLINE_MS,
    last: () => brief(workloadOf(stage, job)),
  });
}

export function checkState(workload: Raw | undefined): string | undefined {
  const checks = (workload?.['status']?.admissionChecks ?? []) as { name: string; state: string }[];
  return checks.find((c) => c.name === CHECK)?.state;
}
