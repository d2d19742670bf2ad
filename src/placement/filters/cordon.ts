import type { NodeFacts } from '../node-facts.js';
import type { TolerationLike } from './taints.js';
import { tolerates } from './taints.js';

const UNSCHEDULABLE = { key: 'node.kubernetes.io/unschedulable', value: '', effect: 'NoSchedule' };

/**
 * Cordoned nodes, unless Pods tolerate that, and pressured ones, whatever Pods tolerate: a pull onto a full disk makes it worse, and
 * kubelets under memory pressure refuse pullers. The DaemonSet controller would place pullers there all the same, since it tolerates
 * those taints by itself. Rule: kube-scheduler NodeUnschedulable.
 * @param tolerations absent where nodes were named: who names a node has not thereby uncordoned it
 */
export function cordoned(node: NodeFacts, tolerations: readonly TolerationLike[] | undefined): string | undefined {
  if (node.unschedulable && tolerations?.some((t) => tolerates(t, UNSCHEDULABLE)) !== true) return 'it is cordoned';
  if (node.pressure.length > 0) return `it has ${node.pressure.join(', ')}`;
  return undefined;
}
