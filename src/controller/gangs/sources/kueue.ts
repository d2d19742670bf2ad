import type { Json } from '../../../api/json.js';
import { at, number, present, record, records, string, stringMap, time } from '../../../api/json.js';
import { ADMISSION_GATED_BY } from '../../../api/names.js';
import type { KubeObject } from '../../../api/object.js';
import { keyOf } from '../../../api/object.js';
import type { GateView } from '../../../gangs/gates.js';
import { gateView, isGated } from '../../../gangs/gates.js';
import type { HoldView } from '../../../gangs/hold.js';
import { holdView } from '../../../gangs/hold.js';
import type { Gang, GangState, Headcount, PodSet } from '../../../gangs/shape.js';
import { nodeAssignment } from '../../../gangs/topology.js';
import type { AffinityTerm } from '../../../placement/filters/node-affinity.js';
import type { TolerationLike } from '../../../placement/filters/taints.js';
import type { Taint } from '../../../placement/node-facts.js';

/** What is kept of a Kueue Workload (v1beta2): the gang in the shape of all queues, and what its checks say. */
export interface WorkloadView {
  key: string;
  resourceVersion: string;
  gang: Gang;
  hold: HoldView;
  /** What keeps Kueue from looking at it, if that is ours. */
  gate?: GateView | undefined;
  /** Whether the object carries annotations at all: a JSON patch has to add the map first. */
  hasAnnotations: boolean;
}

/** What is kept of a ResourceFlavor. */
export interface FlavorView {
  name: string;
  nodeLabels: Readonly<Record<string, string>>;
  taints: Taint[];
  tolerations: TolerationLike[];
}

/** What is kept of a LocalQueue. */
export interface LocalQueueView {
  key: string;
  clusterQueue: string;
  /** Whether Kueue leaves its Workloads out of the line (pkg/controller/core LocalQueueReconciler, spec.stopPolicy). */
  stopped: boolean;
}

const JOB_FALLBACK = { apiVersion: 'kueue.x-k8s.io/v1beta2', kind: 'Workload' };

/** More owners than this are not asked what they say: a group of Pods has one for each of them. */
const MAX_OWNERS = 64;

/** A podSet with what the status says of it. */
interface PodSetFacts {
  podSet: Json;
  name: string;
  assigned: Json | undefined;
  /** Pods that there are to be without those that are done for good. */
  rest: number;
  /** Pods that the gang has or gets: what is assigned is without those that were done by then (workload_types.go, PodSetAssignment.count). */
  count: number;
}

function factsOf(spec: Json, status: Json): PodSetFacts[] {
  const assignments = records(at(status, 'admission')['podSetAssignments']);
  const reclaimable = records(status['reclaimablePods']);
  return records(spec['podSets']).map((podSet) => {
    const name = string(podSet['name']) ?? 'main';
    const assigned = assignments.find((a) => a['name'] === name);
    const done = number(reclaimable.find((r) => r['name'] === name)?.['count']) ?? 0;
    const rest = Math.max(0, (number(podSet['count']) ?? 0) - done);
    return { podSet, name, assigned, rest, count: number(assigned?.['count']) ?? rest };
  });
}

function podSets(facts: readonly PodSetFacts[]): PodSet[] {
  return facts.map(({ podSet, name, assigned, count }) => {
    return present<PodSet>({
      name,
      count,
      minCount: number(podSet['minCount']),
      template: at(podSet, 'template'),
      flavors: assigned === undefined ? undefined : stringMap(assigned['flavors']),
      assignment: nodeAssignment(assigned?.['topologyAssignment']),
    });
  });
}

/** Kueue's own rule for what a gang still needs (pkg/workload totalRequestsFromAdmission): of one admitted with fewer, those at most. */
function headcount(facts: readonly PodSetFacts[], evicted: boolean): Headcount {
  const sum = (of: (f: PodSetFacts) => number): number => facts.reduce((all, f) => all + of(f), 0);
  return { admitted: sum((f) => f.count), left: sum((f) => Math.min(f.count, f.rest)), again: evicted };
}

/**
 * Why Kueue keeps an active Workload out of its queues, for as long as somebody does nothing about it: a StatefulSet was scaled to zero,
 * or a group lacks Pods. Rule: Kueue pkg/workload IsAdmissible. With quota a group may lack Pods too; then its others go on.
 */
function parked(conditions: readonly Json[], { reservedAt }: HoldView): GangState['parked'] {
  if (reservedAt !== undefined) return undefined;
  const has = (type: string, field: string, value: string): boolean =>
    conditions.some((c) => c['type'] === type && c[field] === value);
  if (has('QuotaReserved', 'reason', 'OnHold')) return 'OnHold';
  return has('WaitingForReplacementPods', 'status', 'True') ? 'WaitingForReplacementPods' : undefined;
}

/**
 * Whether Kueue gives others quota first, wherever this one stands: it is gated by somebody else (pkg/workload HasAdmissionGate; our
 * own gate goes when the images are there), or it backs off (pkg/cache/queue backoffWaitingTimeExpired). Kueue takes the time away
 * when it is over, so its being there is enough.
 */
function isPassedOver(raw: KubeObject & Json, { reservedAt }: HoldView): boolean {
  if (reservedAt !== undefined) return false;
  const [annotations, status] = [stringMap(raw.metadata.annotations), at(raw, 'status')];
  const gated = (annotations[ADMISSION_GATED_BY] ?? '') !== '' && !isGated(annotations);
  const backsOff = records(status['conditions']).some((c) => c['type'] === 'Requeued' && c['status'] === 'False');
  return gated || backsOff || time(at(status, 'requeueState')['requeueAt']) !== undefined;
}

function gangState(raw: KubeObject & Json, hold: HoldView, facts: readonly PodSetFacts[]): GangState {
  const status = at(raw, 'status');
  const conditions = records(status['conditions']);
  const why = parked(conditions, hold);
  const sinceTrue = (type: string): number | undefined => {
    const condition = conditions.find((c) => c['type'] === type && c['status'] === 'True');
    return condition === undefined ? undefined : (time(condition['lastTransitionTime']) ?? 0);
  };
  const assignments = records(at(status, 'admission')['podSetAssignments']);
  return present<GangState>({
    reservedAt: hold.reservedAt,
    admitted: hold.admitted,
    admittedAt: sinceTrue('Admitted'),
    // Written, be it as 0, with the end of an admission (pkg/workload SyncAdmittedCondition). That Admitted is there as False tells
    // nothing: with feature gate UnadmittedWorkloadsObservability it is from the start.
    ran: hold.admitted || number(status['accumulatedPastExecutionTimeSeconds']) !== undefined,
    // Written only with waitForPodsReady (pkg/controller/jobframework/reconciler.go), which was off by default before Kueue 0.19.
    podsReady: sinceTrue('PodsReady') !== undefined,
    // As False it stays after an eviction (pkg/workload SetQuotaReservation).
    headcount: headcount(
      facts,
      conditions.some((c) => c['type'] === 'Evicted'),
    ),
    finished: hold.finished,
    evicted: hold.evicted,
    active: hold.active && why === undefined,
    parked: why,
    passedOver: isPassedOver(raw, hold) ? true : undefined,
    delayedTopology: assignments.some((a) => a['delayedTopologyRequest'] === 'Pending'),
  });
}

/**
 * The time by which Kueue orders equals: creation, or the eviction after which it sends a Workload to the back.
 * Rule: Kueue pkg/workload Ordering.GetQueueOrderTimestamp, default configuration.
 */
function queuedAt(workload: KubeObject, status: Json): number {
  const evicted = records(status['conditions']).find((c) => c['type'] === 'Evicted' && c['status'] === 'True');
  const toTheBack = evicted?.['reason'] === 'PodsReadyTimeout' || evicted?.['reason'] === 'AdmissionCheck';
  return (toTheBack ? time(evicted['lastTransitionTime']) : undefined) ?? time(workload.metadata.creationTimestamp) ?? 0;
}

/** Projects a raw Workload. Total: a malformed one becomes a gang without podSets, for which there is nothing to do. */
export function projectWorkload(raw: KubeObject & Json): WorkloadView {
  const { metadata } = raw;
  const [spec, status] = [at(raw, 'spec'), at(raw, 'status')];
  const hold = holdView(raw);
  const facts = factsOf(spec, status);
  const owners = records(metadata.ownerReferences).map(ownerOf);
  const controller = owners.find((o) => o.controller);
  const owner = controller ?? { ...JOB_FALLBACK, name: metadata.name, uid: metadata.uid ?? '' };
  const annotations = stringMap(metadata.annotations);
  const gang = present<Gang>({
    source: 'kueue',
    key: keyOf(raw),
    uid: metadata.uid ?? '',
    name: metadata.name,
    namespace: metadata.namespace ?? '',
    ref: refOf(owner),
    refApiVersion: owner.apiVersion,
    owners: controller === undefined ? owners.slice(0, MAX_OWNERS).map(refOf) : undefined,
    replaces: annotations[SLICE_REPLACES],
    queue: string(spec['queueName']) ?? '',
    clusterQueue: string(at(status, 'admission')['clusterQueue']),
    priority: number(spec['priority']) ?? 0,
    queuedAt: queuedAt(raw, status),
    podSets: podSets(facts),
    state: gangState(raw, hold, facts),
    annotations,
  });
  return {
    key: gang.key,
    resourceVersion: metadata.resourceVersion ?? '',
    gang,
    hold,
    gate: gateView(raw),
    hasAnnotations: record(metadata.annotations) !== undefined,
  };
}

/** On a Workload that takes the place of one that runs (Kueue pkg/workloadslicing): `namespace/name`. */
const SLICE_REPLACES = 'kueue.x-k8s.io/workload-slice-replacement-for';

interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

function ownerOf(raw: Json): Owner {
  const text = (field: string): string => string(raw[field]) ?? '';
  return {
    apiVersion: text('apiVersion'),
    kind: text('kind'),
    name: text('name'),
    uid: text('uid'),
    controller: raw['controller'] === true,
  };
}

function refOf({ apiVersion, kind, name, uid }: Owner): Gang['ref'] {
  return { apiGroup: groupOf(apiVersion), kind, name, uid };
}

function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash < 0 ? '' : apiVersion.slice(0, slash);
}

/** Projects a raw ResourceFlavor. */
export function projectFlavor(raw: KubeObject & Json): FlavorView {
  const spec = at(raw, 'spec');
  const words = (entry: Json, ...keys: string[]): Record<string, string> =>
    Object.fromEntries(keys.map((k) => [k, string(entry[k]) ?? '']));
  return {
    name: raw.metadata.name,
    nodeLabels: stringMap(spec['nodeLabels']),
    taints: records(spec['nodeTaints']).map((t) => words(t, 'key', 'value', 'effect') as unknown as Taint),
    tolerations: records(spec['tolerations']).map((t) =>
      present<TolerationLike>({
        key: string(t['key']),
        operator: string(t['operator']),
        value: string(t['value']),
        effect: string(t['effect']),
      }),
    ),
  };
}

/** Projects a raw LocalQueue. */
export function projectLocalQueue(raw: KubeObject & Json): LocalQueueView {
  const spec = at(raw, 'spec');
  const stopped = (string(spec['stopPolicy']) ?? 'None') !== 'None';
  return { key: keyOf(raw), clusterQueue: string(spec['clusterQueue']) ?? '', stopped };
}

/** Names of the flavors of a ClusterQueue in the order in which Kueue tries them, each once. */
export function flavorsOfQueue(raw: KubeObject & Json): string[] {
  const groups = records(at(raw, 'spec')['resourceGroups']);
  const names = groups.flatMap((g) => records(g['flavors'])).map((f) => string(f['name']));
  return [...new Set(names.filter((n) => n !== undefined))];
}

/** A flavor's node labels as a required node affinity term; undefined where it names none, which means any node. */
export function flavorTerm(labels: Readonly<Record<string, string>>): AffinityTerm | undefined {
  const entries = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  if (entries.length === 0) return undefined;
  return { matchExpressions: entries.map(([key, value]) => ({ key, operator: 'In', values: [value] })) };
}
