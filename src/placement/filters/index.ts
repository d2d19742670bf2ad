import type { LabelSelector } from '../../api/label-selector.js';
import type { NodeFacts } from '../node-facts.js';
import type { wantedOf } from './capacity.js';
import { capacity } from './capacity.js';
import { cordoned } from './cordon.js';
import { excluded } from './excluded.js';
import { nodeAffinity, runtimeClassNodes } from './node-affinity.js';
import { tolerated } from './taints.js';
import { unreachable } from './virtual.js';
import type { AffinityTerm } from './node-affinity.js';
import type { TolerationLike } from './taints.js';

/** What a target asks of a node; every part is optional and an absent part excludes nothing. */
export interface NodeDemand {
  /** Absent where nodes were named: taints are not asked about then. */
  tolerations?: readonly TolerationLike[];
  /** ORed; absent: any node. An empty list matches no node, as in a Pod. */
  affinity?: readonly AffinityTerm[];
  /** Labels that its RuntimeClass demands, all of them. */
  nodeSelector?: Readonly<Record<string, string>>;
  /** Requests of one Pod in base units. */
  requests: Readonly<Record<string, number>>;
  /** See wantedOf. */
  wanted: ReturnType<typeof wantedOf>;
  /** From the configuration. */
  allow?: LabelSelector;
  exclude?: LabelSelector;
}

/** Says in a few words why Pods of the target cannot land on a node or why it is not warmed, or nothing. */
export type NodeFilter = (node: NodeFacts, demand: NodeDemand) => string | undefined;

/**
 * Cheap ones first; the first reason is the one that is shown.
 * Each is one-sided: it only refuses what the scheduler would refuse or the operator excluded.
 * Readiness is not among them: an unready node is still one that the gang needs, it shows as failed.
 */
export const NODE_FILTERS: readonly NodeFilter[] = [
  (node, demand) => excluded(node, demand),
  (node) => unreachable(node),
  (node, demand) => cordoned(node, demand.tolerations),
  (node, demand) => tolerated(node, demand.tolerations),
  (node, demand) => nodeAffinity(node, demand.affinity),
  (node, demand) => runtimeClassNodes(node, demand.nodeSelector),
  (node, demand) => capacity(node, demand),
];
