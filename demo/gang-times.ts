import { LABEL } from '../src/api/names.js';
import { isTrue } from '../src/api/conditions.js';
import type { Condition } from '../src/api/conditions.js';
import type { KubeObject } from '../src/api/object.js';
import type { GangTimes, LegName, NodeTimes } from '../src/cli/timeline/model.js';

/** One event of a watch, with the time at which it reached us. */
export interface Observation {
  /** Epoch milliseconds. The API's own timestamps have whole seconds, which is too coarse for a start that takes one. */
  at: number;
  resource: string;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: Seen;
}

/** The fields of Workloads and Pods that are read here. */
export interface Seen extends KubeObject {
  spec?: { nodeName?: string; volumes?: { image?: { reference?: string } }[]; containers?: { name: string; image: string }[] };
  status?: {
    conditions?: Condition[];
    phase?: string;
    containerStatuses?: { started?: boolean; state?: { running?: unknown; waiting?: { reason?: string; message?: string } } }[];
  };
}

export interface LegNames {
  leg: LegName;
  job: string;
  blocker: string;
  pods: number;
  /** Digest that the pullers of this leg hold; absent where nothing is prewarmed. */
  digest?: string;
}

export type GangTimesAnswer = { ok: true; times: GangTimes } | { ok: false; missing: string[] };

/**
 * The times of one leg out of everything that was observed. Every leg is measured by these lines and no others. `missing` names what
 * was not seen; nothing is filled in from what ought to have happened.
 */
export function gangTimes(observations: readonly Observation[], names: LegNames): GangTimesAnswer {
  const mine = observations.filter((o) => o.resource === 'workloads' && ownerOf(o.object) === names.job);
  const queuedAt = mine.find((o) => o.type === 'ADDED')?.at;
  const quotaFreeAt = quotaFree(observations, names.blocker);
  const admittedAt = mine.find((o) => isTrue(o.object.status?.conditions, 'Admitted'))?.at;
  const pods = observations.filter((o) => o.resource === 'pods' && o.type !== 'DELETED' && ownerOf(o.object) === names.job);
  const running = firstByNode(pods.filter((o) => isRunning(o.object)));
  const missing = [
    ...(queuedAt === undefined ? [`Workload of Job ${names.job}`] : []),
    ...(quotaFreeAt === undefined ? [`release of the quota of Job ${names.blocker}`] : []),
    ...(admittedAt === undefined ? [`admission of the Workload of Job ${names.job}`] : []),
    ...(running.size < names.pods
      ? [`${names.pods} running Pods of Job ${names.job} on nodes of their own (seen: ${running.size})`]
      : []),
  ];
  if (queuedAt === undefined || quotaFreeAt === undefined || admittedAt === undefined || missing.length > 0)
    return { ok: false, missing };
  const all = [...running.values()];
  const times = { queuedAt, quotaFreeAt, admittedAt, firstRunningAt: Math.min(...all), lastRunningAt: Math.max(...all) };
  return {
    ok: true,
    times: { leg: names.leg, pods: names.pods, ...times, nodes: nodeTimes(observations, pods, running, names) },
  };
}

/** The blocker's quota is free when its Workload is gone or finished, which is when Kueue takes it out of its books. */
export function quotaFree(observations: readonly Observation[], blocker: string): number | undefined {
  const workload = observations.filter((o) => o.resource === 'workloads' && ownerOf(o.object) === blocker);
  const held = workload.findIndex((o) => isTrue(o.object.status?.conditions, 'QuotaReserved'));
  if (held < 0) return undefined;
  return workload
    .slice(held)
    .find(
      (o) =>
        o.type === 'DELETED' ||
        isTrue(o.object.status?.conditions, 'Finished') ||
        !isTrue(o.object.status?.conditions, 'QuotaReserved'),
    )?.at;
}

function nodeTimes(
  all: readonly Observation[],
  pods: readonly Observation[],
  running: ReadonlyMap<string, number>,
  names: LegNames,
): NodeTimes[] {
  const { digest } = names;
  const pullers =
    digest === undefined ? [] : all.filter((o) => o.resource === 'pods' && o.type !== 'DELETED' && pullsDigest(o.object, digest));
  const from = firstByNode(names.leg === 'cold' ? pods : pullers);
  const to = names.leg === 'cold' ? running : firstByNode(pullers.filter((o) => isStarted(o.object)));
  return [...running.keys()].sort().map((node) => {
    const pullFrom = from.get(node);
    const pullTo = to.get(node);
    return {
      node,
      ...(pullFrom === undefined ? {} : { pullFrom }),
      ...(pullTo === undefined ? {} : { pullTo }),
      runningAt: running.get(node) ?? 0,
    };
  });
}

function firstByNode(observations: readonly Observation[]): Map<string, number> {
  const first = new Map<string, number>();
  for (const { at, object } of observations) {
    const node = object.spec?.nodeName;
    if (node !== undefined && !first.has(node)) first.set(node, at);
  }
  return first;
}

/** Name of the controller of an object, such as the Job of a Pod or of a Workload. */
export function ownerOf(object: KubeObject): string | undefined {
  return object.metadata.ownerReferences?.find((o) => o.controller === true)?.name;
}

export function isRunning(pod: Seen): boolean {
  const statuses = pod.status?.containerStatuses ?? [];
  return pod.status?.phase === 'Running' && statuses.length > 0 && statuses.every((c) => c.state?.running !== undefined);
}

export function isStarted(pod: Seen): boolean {
  return isRunning(pod) && (pod.status?.containerStatuses ?? []).every((c) => c.started === true);
}

export function pullsDigest(pod: Seen, digest: string): boolean {
  return (
    pod.metadata.labels?.[LABEL.puller] !== undefined &&
    (pod.spec?.volumes ?? []).some((v) => v.image?.reference?.endsWith(`@${digest}`) === true)
  );
}
