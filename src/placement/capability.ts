import type { Json } from '../api/json.js';
import { at, record, records, stringMap } from '../api/json.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { KubeObject } from '../api/object.js';
import { readToleration } from './constraints.js';
import type { Requests } from '../api/pod-requests.js';
import { quantities } from '../api/pod-requests.js';
import type { TolerationLike } from './filters/taints.js';
import type { CapabilitySelector } from './node-classes.js';
import type { NodeFacts } from './node-facts.js';

/** An entry of `capabilities` in the configuration. */
export interface CapabilityConfig {
  format: Format;
  nodeSelector?: Readonly<Record<string, string>> | undefined;
  runtimeClass?: string | undefined;
  condition?: string | undefined;
  heartbeatSeconds: number;
  privateImages?: boolean | undefined;
}

/** An entry whose labels are known. */
export interface Capability {
  format: Format;
  nodeSelector: Readonly<Record<string, string>>;
  /** Condition that has to be True, with a heartbeat of at most this age, ms. */
  condition?: { type: string; maxAgeMs: number };
  /** Snapshotters of these nodes have credentials of their own for private images. */
  privateImages?: true;
}

/** What is kept of a RuntimeClass. */
export interface RuntimeClassFacts {
  name: string;
  /** `scheduling.nodeSelector`; absent where the class says nothing of nodes. */
  nodeSelector?: Readonly<Record<string, string>>;
  /** `scheduling.tolerations`, which admission adds to those of Pods of the class. */
  tolerations: readonly TolerationLike[];
  /** `overhead.podFixed` in base units, which admission adds to what Pods of the class ask for. */
  overhead?: Readonly<Requests>;
}

/** Projects a raw RuntimeClass (node.k8s.io/v1). */
export function runtimeClassFacts(raw: KubeObject & Json): RuntimeClassFacts {
  const selector = record(at(raw, 'scheduling')['nodeSelector']);
  const tolerations = records(at(raw, 'scheduling')['tolerations']).map(readToleration);
  const overhead = record(at(raw, 'overhead')['podFixed']);
  return {
    name: raw.metadata.name,
    ...(selector === undefined ? {} : { nodeSelector: stringMap(selector) }),
    tolerations,
    ...(overhead === undefined ? {} : { overhead: quantities(overhead) }),
  };
}

/**
 * Finds the labels of each entry. One that names a RuntimeClass without a node selector declares nothing: to Kubernetes such a
 * class is there on every node, which nobody has checked for its snapshotter. It is told in the notes.
 */
export function resolveCapabilities(
  entries: readonly CapabilityConfig[],
  runtimeClass: (name: string) => RuntimeClassFacts | undefined,
): { capabilities: Capability[]; notes: string[] } {
  const capabilities: Capability[] = [];
  const notes: string[] = [];
  for (const { format, nodeSelector, runtimeClass: name, condition, heartbeatSeconds, privateImages } of entries) {
    const found = name === undefined ? undefined : runtimeClass(name);
    const selector = nodeSelector ?? found?.nodeSelector;
    if (selector === undefined || (nodeSelector === undefined && Object.keys(selector).length === 0))
      notes.push(
        `capability ${format}: RuntimeClass ${name ?? ''} ${found === undefined ? 'does not exist' : 'has no scheduling.nodeSelector'}, so no node counts as capable through it`,
      );
    else
      capabilities.push({
        format,
        nodeSelector: selector,
        ...(condition === undefined ? {} : { condition: { type: condition, maxAgeMs: heartbeatSeconds * 1000 } }),
        ...(privateImages === true ? { privateImages } : {}),
      });
  }
  return { capabilities, notes };
}

/** What is published of an entry: nodes that join are judged by their labels alone. */
export function selectorOf({ format, nodeSelector, privateImages }: Capability): CapabilitySelector {
  return { format, nodeSelector, ...(privateImages === undefined ? {} : { privateImages }) };
}

/** The formats that a node is known to run beyond those of every node, in the order of FORMATS. */
export function formatsOf(node: NodeFacts, capabilities: readonly Capability[], now: number): Format[] {
  const able = new Set(capabilities.filter((c) => isCapable(node, c, now)).map((c) => c.format));
  return FORMATS.filter((f) => able.has(f));
}

/** A snapshotter that died leaves its labels behind; only a sign that is renewed says that it lives. */
function isCapable(node: NodeFacts, { nodeSelector, condition }: Capability, now: number): boolean {
  const selected = Object.entries(nodeSelector).every(
    ([key, value]) => Object.hasOwn(node.labels, key) && node.labels[key] === value,
  );
  if (!selected || condition === undefined) return selected;
  const heartbeat = node.conditions?.[condition.type];
  return heartbeat !== undefined && Math.abs(now - heartbeat) <= condition.maxAgeMs;
}
