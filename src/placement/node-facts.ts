import type { KubeObject } from '../api/object.js';
import { parseQuantity } from '../api/quantity.js';

export interface Taint {
  key: string;
  value: string;
  effect: string;
}

/** What placement and proof need of a Node; kept for every node of the cluster, so nothing more. */
export interface NodeFacts {
  name: string;
  uid: string;
  labels: Readonly<Record<string, string>>;
  taints: Taint[];
  ready: boolean;
  /** Text of the Ready condition, for people. */
  readyMessage?: string;
  unschedulable: boolean;
  /** DiskPressure, MemoryPressure, PIDPressure where True. */
  pressure: string[];
  /** Conditions that are True, with their last heartbeat (epoch ms); a capability may ask for one. */
  conditions?: Readonly<Record<string, number>>;
  /** Epoch ms. */
  createdAt: number;
  /** By resource name in base units (cores, bytes, pieces). */
  allocatable: Record<string, number>;
  os: string;
  arch: string;
}

type RawNode = KubeObject & { spec?: unknown; status?: unknown };

interface Shape {
  spec?: { unschedulable?: unknown; taints?: { key?: string; value?: string; effect?: string }[] };
  status?: {
    conditions?: { type?: string; status?: string; message?: string; lastHeartbeatTime?: string }[];
    allocatable?: Record<string, string>;
    nodeInfo?: { operatingSystem?: string; architecture?: string };
  };
}

/** Projects a raw Node (v1); quantities that cannot be read count as absent. */
export function nodeFacts(node: RawNode): NodeFacts {
  const { spec, status } = node as unknown as Shape;
  const labels = node.metadata.labels ?? {};
  return {
    name: node.metadata.name,
    uid: node.metadata.uid ?? '',
    labels,
    taints: taintsOf(spec),
    ...readinessOf(status, node.metadata.deletionTimestamp !== undefined),
    unschedulable: spec?.unschedulable === true,
    pressure: pressureOf(status),
    ...signsOf(status),
    createdAt: Date.parse(node.metadata.creationTimestamp ?? '') || 0,
    allocatable: quantities(status?.allocatable),
    ...platformOf(status, labels),
  };
}

function pressureOf(status: Shape['status']): string[] {
  return (status?.conditions ?? []).filter((c) => c.status === 'True' && c.type?.endsWith('Pressure')).map((c) => c.type ?? '');
}

/** Most conditions that are kept of one node; a node has a dozen. */
const MAX_CONDITIONS = 32;

/** Those that are True are few on a sound node: problem detectors say False. One without a heartbeat cannot be fresh. */
function signsOf(status: Shape['status']): Pick<NodeFacts, 'conditions'> {
  const signs = (status?.conditions ?? [])
    .filter((c) => c.status === 'True')
    .map((c) => [c.type ?? '', Date.parse(c.lastHeartbeatTime ?? '')] as const)
    .filter(([type, at]) => type !== '' && !Number.isNaN(at))
    .slice(0, MAX_CONDITIONS);
  return signs.length === 0 ? {} : { conditions: Object.fromEntries(signs) };
}

function readinessOf(status: Shape['status'], deleting: boolean): { ready: boolean; readyMessage?: string } {
  const condition = status?.conditions?.find((c) => c.type === 'Ready');
  const ready = condition?.status === 'True' && !deleting;
  return condition?.message === undefined ? { ready } : { ready, readyMessage: condition.message };
}

function taintsOf(spec: Shape['spec']): Taint[] {
  return (spec?.taints ?? []).map(({ key = '', value = '', effect = '' }) => ({ key, value, effect }));
}

function quantities(raw: Record<string, string> | undefined): Record<string, number> {
  const parsed = Object.entries(raw ?? {}).map(([name, value]) => [name, parseQuantity(value)] as const);
  return Object.fromEntries(parsed.filter((e): e is readonly [string, number] => e[1] !== undefined));
}

/** A node that never had a kubelet has no nodeInfo; its labels, if any, are all there is. */
function platformOf(status: Shape['status'], labels: Record<string, string>): { os: string; arch: string } {
  return {
    os: status?.nodeInfo?.operatingSystem ?? labels['kubernetes.io/os'] ?? 'linux',
    arch: status?.nodeInfo?.architecture ?? labels['kubernetes.io/arch'] ?? 'amd64',
  };
}
