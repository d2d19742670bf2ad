import type { Json } from '../api/json.js';
import { at, records, string, stringMap, time } from '../api/json.js';
import type { GangRef } from '../api/kinds/image-prewarm.js';
import { ADMISSION_GATED_BY, ANNOTATION, CHECK_CONTROLLER } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import { MAX_HOLD_MS } from './hold.js';

/** RFC 6902 operation on a job. */
export type GateOp = { op: 'test' | 'replace'; path: string; value: string } | { op: 'remove'; path: string };

type Annotations = Readonly<Record<string, string>>;

/** A Workload that Kueue does not look at before we take our name off its job; no quota is held for it. */
export interface GateView {
  /** The job, which carries the list; Kueue copies it to the Workload. */
  job: Pick<GangRef, 'apiGroup' | 'kind' | 'name' | 'uid'> & { version: string };
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
  if (job === undefined) return undefined;
  const deadline = time(annotations[ANNOTATION.gateDeadline]);
  return { job, createdAt: time(metadata.creationTimestamp) ?? 0, ...(deadline === undefined ? {} : { deadline }) };
}

/** The job that Kueue made a Workload for; undefined for one that nobody owns. */
export function jobOfWorkload({ metadata: { ownerReferences = [] } }: KubeObject): GateView['job'] | undefined {
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
 * Takes our name off a job, of the very job and the very list that were read: others take theirs off at the same time, and a job of
 * the same name that comes later has a gate of its own. Undefined where our name is not there.
 */
export function ungatePatch(job: KubeObject, uid: string): GateOp[] | undefined {
  const value = job.metadata.annotations?.[ADMISSION_GATED_BY];
  if (value === undefined || job.metadata.uid !== uid || !isGated(job.metadata.annotations)) return undefined;
  const path = `/metadata/annotations/${ADMISSION_GATED_BY.replace('/', '~1')}`;
  const left = withoutOurs(value);
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path, value },
    left === undefined ? { op: 'remove', path } : { op: 'replace', path, value: left },
  ];
}
