import type { Json } from '../api/json.js';
import { at, list, number, present, record, records, string, time } from '../api/json.js';
import type { KubeObject } from '../api/object.js';
import { keyOf } from '../api/object.js';
import type { JobKind, JobShape, Part } from './kinds.js';
import { kindName } from './kinds.js';
import type { Gang, GangState, PodSet } from './shape.js';

/** Bound of the CRD on targets. */
const MAX_PODSETS = 18;
const MAX_PODS = 100_000;
const MAX_NAME = 63;

/**
 * The gang that a job of a kind in the table stands for where nobody queues it: it waits while it is suspended, and nothing ever holds
 * it. Total: what cannot be read has no Pods. Undefined where the kind has no shape.
 */
export function gangOfJob(kind: JobKind, raw: KubeObject & Json): Gang | undefined {
  if (kind.shape === undefined) return undefined;
  const { metadata } = raw;
  const podSets = podSetsOf(kind.shape, raw);
  return {
    source: 'generic',
    key: genericKey(kind, raw),
    uid: metadata.uid ?? '',
    name: metadata.name,
    namespace: metadata.namespace ?? '',
    ref: { apiGroup: kind.group, kind: kind.kind, name: metadata.name, uid: metadata.uid ?? '' },
    refApiVersion: raw.apiVersion,
    queue: '',
    priority: 0,
    queuedAt: time(metadata.creationTimestamp) ?? 0,
    podSets,
    state: stateOf(kind.shape, raw, podSets),
    annotations: {},
  };
}

/** Key of a gang without a queue; that of a Workload never has a colon. */
export function genericKey(kind: JobKind, object: { metadata: { namespace?: string; name: string } }): string {
  return `${kindName(kind)}:${keyOf(object)}`;
}

function podSetsOf({ parts }: JobShape, raw: Json): PodSet[] {
  const podSets = parts.flatMap((part) => entriesOf(part, raw).map(([name, entry]) => podSetOf(part, name, entry)));
  const found = podSets.filter((p) => p !== undefined).slice(0, MAX_PODSETS);
  // Names are keys of the record; a job may give one twice, in another case say.
  const seen = new Set<string>();
  return found.map((podSet, i) => {
    const name = seen.has(podSet.name) ? `${podSet.name.slice(0, MAX_NAME - 3)}-${i}` : podSet.name;
    seen.add(name);
    return { ...podSet, name };
  });
}

function entriesOf({ each, at: path, name }: Part, raw: Json): [string, Json][] {
  const found = valueAt(raw, path);
  if (each === 'list') return records(found).map((entry, i) => [string(entry[name ?? '']) ?? `part-${i}`, entry]);
  const object = record(found);
  if (object === undefined) return [];
  if (each === 'one') return [[name ?? 'main', object]];
  return Object.entries(object).flatMap(([key, entry]) => {
    const inner = record(entry);
    return inner === undefined ? [] : [[key.toLowerCase(), inner] as [string, Json]];
  });
}

function podSetOf({ template: path, counts = [], most }: Part, name: string, entry: Json): PodSet | undefined {
  const template = record(valueAt(entry, path));
  if (template === undefined) return undefined;
  const last = counts.length - 1;
  const bound = most === undefined ? undefined : number(valueAt(entry, most));
  const factors = counts.map((c, i) => {
    const factor = number(valueAt(entry, c)) ?? 1;
    return i === last && bound !== undefined ? Math.min(factor, bound) : factor;
  });
  const count = factors.reduce((product, factor) => product * Math.max(0, Math.floor(factor)), 1);
  return { name: name.slice(0, MAX_NAME), count: Math.min(count, MAX_PODS), template };
}

function stateOf(shape: JobShape, raw: KubeObject & Json, podSets: readonly PodSet[]): GangState {
  const finished = says(shape.finished, raw);
  const admitted = !finished && valueAt(raw, shape.suspend) !== true;
  return present<GangState>({
    reservedAt: undefined,
    admitted,
    admittedAt: admitted ? startOf(raw) : undefined,
    podsReady: admitted && (says(shape.running, raw) || readyPods(raw) >= podSets.reduce((sum, p) => sum + p.count, 0)),
    finished,
    evicted: false,
    active: raw.metadata.deletionTimestamp === undefined,
    delayedTopology: false,
  });
}

/** When a job that is not suspended began: the API tells it in two ways, and one that never was suspended by its creation alone. */
function startOf(raw: KubeObject & Json): number {
  const resumed = records(at(raw, 'status')['conditions']).find((c) => c['type'] === 'Suspended' && c['status'] === 'False');
  return (
    time(resumed?.['lastTransitionTime']) ?? time(at(raw, 'status')['startTime']) ?? time(raw.metadata.creationTimestamp) ?? 0
  );
}

/** Pods that a Job or a JobSet counts as ready; -1 for kinds that do not count. */
function readyPods(raw: Json): number {
  const status = at(raw, 'status');
  const jobs = list(status['replicatedJobsStatus']);
  if (jobs === undefined) return number(status['ready']) ?? -1;
  // JobSet counts its Jobs only: one that is ready has all of its Pods ready, so all that are wanted have to be.
  const wanted = records(at(raw, 'spec')['replicatedJobs']).reduce((sum, j) => sum + (number(j['replicas']) ?? 1), 0);
  const ready = records(jobs).reduce((sum, j) => sum + (number(j['ready']) ?? 0) + (number(j['succeeded']) ?? 0), 0);
  return ready >= wanted ? Number.POSITIVE_INFINITY : -1;
}

function says(what: JobShape['finished'], raw: Json): boolean {
  if ('path' in what) return what.values.includes(string(valueAt(raw, what.path)) ?? '');
  return records(at(raw, 'status')['conditions']).some((c) => c['status'] === 'True' && what.includes(string(c['type']) ?? ''));
}

function valueAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, key) => record(inner)?.[key], value);
}
