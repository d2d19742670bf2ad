import type { Json } from '../../../api/json.js';
import { at, number, present, record, records, string, stringMap, time } from '../../../api/json.js';
import { LABEL } from '../../../api/names.js';
import type { KubeObject } from '../../../api/object.js';
import type { PullMethod } from '../../../api/puller-spec.js';
import { podRequests } from '../../../api/pod-requests.js';
import { pullerNodes, warmingOf } from '../../../api/puller-spec.js';
import type { ContainerState, PullerPod } from '../../evidence.js';
import type { PullerSet } from '../../world.js';
import { TENANT_ACCOUNT } from './manifest.js';
import { templatePrint } from './print.js';
import { isHarmless } from './shape.js';

function controllerUid(raw: KubeObject): string | undefined {
  return raw.metadata.ownerReferences?.find((o) => o.controller === true)?.uid;
}

/** Keeps of a puller Pod what the proof needs. */
export function projectPullerPod(raw: KubeObject): PullerPod {
  const { metadata } = raw;
  const [spec, status] = [at(raw, 'spec'), at(raw, 'status')];
  const [container] = records(status['containerStatuses']);
  const [init] = records(status['initContainerStatuses']);
  const gates = records(spec['schedulingGates']).map((g) => string(g['name']) ?? '');
  const unplaced = records(status['conditions']).find((c) => c['type'] === 'PodScheduled' && c['status'] === 'False');
  return present<PullerPod>({
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid ?? '',
    hash: metadata.labels?.[LABEL.puller] ?? '',
    ownerUid: controllerUid(raw),
    // Until it is bound, a daemon Pod names its node in the affinity that its controller wrote.
    node: string(spec['nodeName']) ?? pullerNodes(spec)[0] ?? '',
    image: warmingOf(spec).image,
    runtimeClassName: string(spec['runtimeClassName']),
    createdAt: time(metadata.creationTimestamp) ?? 0,
    deleting: metadata.deletionTimestamp !== undefined,
    phase: string(status['phase']) ?? 'Pending',
    reason: string(status['reason']),
    message: string(status['message']),
    gates,
    unschedulable: gates.length > 0 ? undefined : string(unplaced?.['message']),
    asks: asksOf(spec),
    container: container === undefined ? undefined : containerState(container, init),
  });
}

function asksOf(spec: Json): string | undefined {
  const asked = Object.entries(podRequests(spec)).filter(([, amount]) => amount > 0);
  return asked.length === 0 ? undefined : asked.map(([name, amount]) => `${name} ${amount}`).join(', ');
}

/** @param init of the method Container: where our program cannot be pulled, the container only says that it waits for that */
function containerState(container: Json, init: Json | undefined): ContainerState {
  const { running, waiting: own, terminated } = at(container, 'state');
  const before = record(at(init, 'state')['waiting']);
  const waiting = record(own) === undefined ? undefined : { ...at(own), ...before };
  const last = at(container, 'lastState', 'terminated');
  const restarts = number(container['restartCount']) ?? 0;
  return present<ContainerState>({
    started: container['started'] === true,
    // A container that was ended before it began has a terminated state too, without a start time.
    hasRun:
      record(running) !== undefined || restarts > 0 || [at(terminated), last].some((t) => time(t['startedAt']) !== undefined),
    restarts,
    runningSince: record(running) === undefined ? undefined : (time(at(running)['startedAt']) ?? 0),
    waiting: waiting === undefined ? undefined : waitingState(waiting),
    lastMessage: string(last['message']) ?? string(last['reason']),
  });
}

function waitingState(waiting: Json): { reason: string; message: string } {
  return { reason: string(waiting['reason']) ?? '', message: string(waiting['message']) ?? '' };
}

function shardOf(labels: Readonly<Record<string, string>> = {}): number {
  return Number(labels[LABEL.pullerShard] ?? 0);
}

function programOf(spec: Json, method: PullMethod): string {
  return string(records(spec[method === 'Container' ? 'initContainers' : 'containers'])[0]?.['image']) ?? '';
}

/** Keeps of a DaemonSet of pullers what the planner and the engine need. */
export function projectPullerSet(raw: KubeObject): PullerSet {
  const spec = at(raw, 'spec', 'template', 'spec');
  const { metadata } = raw;
  const { image = '', method } = warmingOf(spec);
  return present<PullerSet>({
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    uid: metadata.uid ?? '',
    resourceVersion: metadata.resourceVersion ?? '',
    hash: metadata.labels?.[LABEL.puller] ?? '',
    shard: shardOf(metadata.labels),
    image,
    method,
    runtimeClassName: string(spec['runtimeClassName']),
    program: programOf(spec, method),
    pullSecrets: records(spec['imagePullSecrets']).map((s) => string(s['name']) ?? ''),
    serviceAccountName: string(spec['serviceAccountName']) ?? TENANT_ACCOUNT,
    owners: records(metadata.ownerReferences).map((o) => string(o['uid']) ?? ''),
    harmless: isHarmless(spec),
    print: templatePrint(at(raw, 'spec', 'template')),
    selector: stringMap(at(raw, 'spec', 'selector')['matchLabels']),
    nodes: pullerNodes(spec),
    deleting: metadata.deletionTimestamp !== undefined,
  });
}
