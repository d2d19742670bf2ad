import type { NodeFacts } from '../node-facts.js';

/**
 * Cordoned and pressured nodes: the scheduler places nothing there, and a pull onto a full disk makes it worse. The DaemonSet
 * controller would place pullers there all the same, since it tolerates those taints by itself.
 */
export function cordoned(node: NodeFacts): string | undefined {
  if (node.unschedulable) return 'it is cordoned';
  if (node.pressure.length > 0) return `it has ${node.pressure.join(', ')}`;
  return undefined;
}
