import type { LabelSelector } from '../../api/label-selector.js';
import { matchesSelector } from '../../api/label-selector.js';
import { LABEL } from '../../api/names.js';
import type { NodeFacts } from '../node-facts.js';

const CONTROL_PLANE = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/** Nodes that the operator keeps out, whatever a gang asks for; control planes always. */
export function excluded(node: NodeFacts, config: { allow?: LabelSelector; exclude?: LabelSelector }): string | undefined {
  const role = CONTROL_PLANE.find((label) => node.labels[label] !== undefined);
  if (role !== undefined) return 'it is a control plane node';
  const label = node.labels[LABEL.exclude];
  if (label !== undefined && label !== 'false') return `it is labelled ${LABEL.exclude}`;
  if (config.allow !== undefined && !matchesSelector(config.allow, node.labels))
    return 'it is outside nodes.allow of the configuration';
  if (config.exclude !== undefined && matchesSelector(config.exclude, node.labels))
    return 'it is in nodes.exclude of the configuration';
  return undefined;
}
