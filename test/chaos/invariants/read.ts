import { at, list, record, records, string, stringMap, time } from '../../../src/api/json.js';
import type { Raw } from './history.js';

// What the checkers read of objects. They share no rule with what they check: a defect there must not hide here.

export interface ConditionSeen {
  status: string;
  reason: string;
  message: string;
  /** Epoch ms. */
  since: number;
}

/** A condition of the status; undefined where there is none. */
export function conditionOf(object: Raw, type: string): ConditionSeen | undefined {
  const found = records(at(object, 'status')['conditions']).find((c) => c['type'] === type);
  if (found === undefined) return undefined;
  return {
    status: string(found['status']) ?? '',
    reason: string(found['reason']) ?? '',
    message: string(found['message']) ?? '',
    since: time(found['lastTransitionTime']) ?? 0,
  };
}

export const holds = (object: Raw, type: string): boolean => conditionOf(object, type)?.status === 'True';

export interface RecordedImage {
  target: string;
  source: string;
  resolved: string | undefined;
  digest: string | undefined;
}

/** The record of an ImagePrewarm. */
export function recordOf(prewarm: Raw): RecordedImage[] {
  return records(at(prewarm, 'status')['targets']).flatMap((target) =>
    records(target['images']).map((image) => ({
      target: string(target['name']) ?? '',
      source: string(image['source']) ?? '',
      resolved: string(image['resolved']),
      digest: string(image['digest']),
    })),
  );
}

export interface TargetSeen {
  name: string;
  /** How many of the nodes have to be warm; undefined: all of them. */
  count: number | undefined;
  sources: string[];
  raw: Raw;
}

/** The targets of an ImagePrewarm's spec. */
export function targetsOf(prewarm: Raw): TargetSeen[] {
  return records(at(prewarm, 'spec')['targets']).map((target) => {
    const count = at(target, 'nodes')['count'];
    return {
      name: string(target['name']) ?? '',
      count: typeof count === 'number' ? count : undefined,
      sources: records(target['images']).map((i) => string(i['reference']) ?? ''),
      raw: target as unknown as Raw,
    };
  });
}

/** UID of the job that an ImagePrewarm is for. */
export const gangUidOf = (prewarm: Raw): string | undefined => string(at(prewarm, 'spec', 'gangRef')['uid']);

/** UID of the owner that controls an object. */
export const controllerUidOf = (object: Raw): string | undefined =>
  object.metadata.ownerReferences?.find((o) => o.controller === true)?.uid;

export interface CheckSeen {
  name: string;
  state: string;
  message: string;
}

/** The admission checks on a Workload. */
export function checksOf(workload: Raw): CheckSeen[] {
  return records(at(workload, 'status')['admissionChecks']).map((c) => ({
    name: string(c['name']) ?? '',
    state: string(c['state']) ?? '',
    message: string(c['message']) ?? '',
  }));
}

/** The checks that say something that they did not say before. */
export function turnedTo(workload: Raw, before: Raw, state: string): CheckSeen[] {
  const was = new Map(checksOf(before).map((c) => [c.name, c.state]));
  return checksOf(workload).filter((c) => c.state === state && was.has(c.name) && was.get(c.name) !== state);
}

/** Epoch ms at which quota was reserved; undefined while none is. */
export function reservedAt(workload: Raw): number | undefined {
  const condition = conditionOf(workload, 'QuotaReserved');
  return condition?.status === 'True' ? condition.since : undefined;
}

/** Deadline stamped on a Workload, whatever it is for. */
export const stampOf = (workload: Raw): number | undefined =>
  time(stringMap(workload.metadata.annotations)['harbinger.dev/hold-deadline']);

/** The reservation that a stamp says it is for. */
export const stampedFor = (workload: Raw): number | undefined =>
  time(stringMap(workload.metadata.annotations)['harbinger.dev/hold-since']);

/** The stamp that vouches for the present hold: each reservation needs its own. */
export function voucherOf(workload: Raw): number | undefined {
  const [since, stamp, meant] = [reservedAt(workload), stampOf(workload), stampedFor(workload)];
  if (since === undefined || stamp === undefined || stamp < since) return undefined;
  return meant === undefined || meant === since ? stamp : undefined;
}

export const isActive = (workload: Raw): boolean => at(workload, 'spec')['active'] !== false;

/** Counts of nodes in the status of an ImagePrewarm. */
export function countsOf(prewarm: Raw): { desired: number; warm: number } {
  const { desired, warm } = at(prewarm, 'status', 'nodes');
  return { desired: typeof desired === 'number' ? desired : 0, warm: typeof warm === 'number' ? warm : 0 };
}

/** Images of a Pod's containers. */
export function imagesOf(pod: Raw): string[] {
  return [...(list(at(pod, 'spec')['initContainers']) ?? []), ...(list(at(pod, 'spec')['containers']) ?? [])].flatMap(
    (c) => string(record(c)?.['image']) ?? [],
  );
}

/** The digest that a reference names, if it names one. */
export const digestOf = (reference: string): string | undefined => /@(sha256:[0-9a-f]{64})$/.exec(reference)?.[1];
