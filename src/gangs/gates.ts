import type { Json } from '../api/json.js';
import { at, number, records, string, stringMap, time } from '../api/json.js';
import type { GangRef } from '../api/kinds/image-prewarm.js';
import { ADMISSION_GATED_BY, ANNOTATION, CHECK_CONTROLLER } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import { MAX_HOLD_MS } from './hold.js';

/** RFC 6902 operation on a job or a Workload. */
export type GateOp = { op: 'test' | 'replace'; path: string; value: string } | { op: 'remove'; path: string };

type Annotations = Readonly<Record<string, string>>;

/** What a Workload was made for, in the version by which the Workload names it. */
export type GatedJob = Pick<GangRef, 'apiGroup' | 'kind' | 'name' | 'uid'> & { version: string };

/** A Workload that Kueue does not look at before our name is off its list; no quota is held for it. */
export interface GateView {
  /** UID of the Workload. */
  uid: string;
  /** The list on the Workload, which is what Kueue goes by. */
  list: string;
  /** The job, whose list Kueue mostly copies to the Workload; absent for a Workload that nobody owns yet. */
  job?: GatedJob;
  /** Epoch ms of the Workload's creation. */
  createdAt: number;
  /** Epoch ms of the stamped end, absent if the annotation is absent or is not a time. */
  deadline?: number;
}

/** Whether our name is on the list of those who have to let a job go. */
export function isGated(annotations: Annotations | undefined): boolean {
  return namesOf(annotations?.[ADMISSION_GATED_BY]).includes(CHECK_CONTROLLER);
}

/** Names of the list in order. Rule: Kueue pkg/util/csv, commas with blanks around. */
function namesOf(value = ''): string[] {
  return value
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

/** The list without our name; undefined where nobody else is on it, and the annotation has to go: Kueue refuses empty names. */
export function withoutOurs(value: string): string | undefined {
  const left = namesOf(value).filter((name) => name !== CHECK_CONTROLLER);
  return left.length === 0 ? undefined : left.join(',');
}

/** Projects a raw Workload (kueue.x-k8s.io/v1beta2); undefined where our gate is not on it, or says nothing any more. */
export function gateView(workload: KubeObject & Json): GateView | undefined {
  const { metadata } = workload;
  const annotations = stringMap(metadata.annotations);
  if (!isGated(annotations)) return undefined;
  const holding = records(at(workload, 'status')['conditions']).filter((c) => c['status'] === 'True');
  if (holding.some((c) => c['type'] === 'Finished' || c['type'] === 'QuotaReserved')) return undefined;
  const job = jobOfWorkload(workload);
  const deadline = time(annotations[ANNOTATION.gateDeadline]);
  return {
    uid: metadata.uid ?? '',
    list: annotations[ADMISSION_GATED_BY] ?? '',
    ...(job === undefined ? {} : { job }),
    createdAt: time(metadata.creationTimestamp) ?? 0,
    ...(deadline === undefined ? {} : { deadline }),
  };
}

/** The job that Kueue made a Workload for; undefined for one that nobody owns. */
export function jobOfWorkload({ metadata: { ownerReferences = [] } }: KubeObject): GatedJob | undefined {
  const owner = ownerReferences.find((o) => o.controller === true) ?? ownerReferences[0];
  if (owner === undefined) return undefined;
  const slash = owner.apiVersion.indexOf('/');
  return {
    apiGroup: owner.apiVersion.slice(0, Math.max(0, slash)),
    version: owner.apiVersion.slice(slash + 1),
    kind: owner.kind,
    name: owner.name,
    uid: string(owner.uid) ?? '',
  };
}

/**
 * When a gate has to be gone at the latest, epoch ms, as a function of the Workload alone: the rule of the watchdog, which has to
 * work while the controller is dead (promise P5). A stamp counts as far as MAX_HOLD_MS after the creation, as whoever may edit the
 * Workload may write it.
 * @param gatedMs how long a gate lasts for which nobody stamped an end
 */
export function gateEnd({ createdAt, deadline }: Pick<GateView, 'createdAt' | 'deadline'>, gatedMs: number): number {
  return deadline === undefined ? createdAt + gatedMs : Math.min(deadline, createdAt + MAX_HOLD_MS);
}

/**
 * Takes our name off a job or a Workload, of the very object and the very list that were read: others take theirs off at the same
 * time, and a job of the same name that comes later has a gate of its own. Undefined where our name is not there.
 */
export function ungatePatch({ metadata }: Pick<KubeObject, 'metadata'>, uid: string): GateOp[] | undefined {
  const value = metadata.annotations?.[ADMISSION_GATED_BY];
  if (value === undefined || metadata.uid !== uid || !isGated(metadata.annotations)) return undefined;
  const path = `/metadata/annotations/${ADMISSION_GATED_BY.replace('/', '~1')}`;
  const left = withoutOurs(value);
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path, value },
    left === undefined ? { op: 'remove', path } : { op: 'replace', path, value: left },
  ];
}

/**
 * How many Workloads Kueue makes of a job at least: one for each group of a LeaderWorkerSet (pkg/controller/jobs/leaderworkerset
 * filterWorkloads), one of all others.
 */
export function workloadsOf(job: KubeObject | undefined): number {
  return job?.kind === 'LeaderWorkerSet' ? (number(at(job, 'spec')['replicas']) ?? 1) : 1;
}

/** So long Kueue has to copy the list of a job, ms; it takes milliseconds while it lives, and what we write then is what it would. */
export const COPY_MS = 2_000;

/** What is next to let a gated Workload go. */
export type Ungate =
  | { on: 'job' | 'workload'; ops: GateOp[] }
  /** Our name is off the job, and Kueue may be about to copy that: look again in so many ms. */
  | { on: 'copy'; after: number };

/**
 * Where our name comes off next: first of the job, since Kueue would copy it from there again, and of the Workload where it stays on
 * that alone. Kueue never copies the list of an elastic job or to a prebuilt Workload (pkg/controller/jobframework ensureOneWorkload
 * returns before UpdateAdmissionGatedBy), and one without a job has no other. Undefined where nothing is left, or the job is another.
 * @param job as read just now; undefined where the Workload has none
 * @param offSince since when the job is known to be without our name, by the clock of `now`, ms
 */
export function nextUngate(
  gate: GateView,
  job: KubeObject | undefined,
  offSince: number | undefined,
  now: number,
): Ungate | undefined {
  if (gate.job !== undefined) {
    if (job === undefined || job.metadata.uid !== gate.job.uid) return undefined;
    const ops = ungatePatch(job, gate.job.uid);
    if (ops !== undefined) return { on: 'job', ops };
    const waited = offSince === undefined ? 0 : now - offSince;
    // A clock that went back has waited long enough too.
    if (waited >= 0 && waited < COPY_MS) return { on: 'copy', after: COPY_MS - waited };
  }
  const { uid, list } = gate;
  const ops = ungatePatch({ metadata: { name: '', uid, annotations: { [ADMISSION_GATED_BY]: list } } }, uid);
  return ops === undefined ? undefined : { on: 'workload', ops };
}
