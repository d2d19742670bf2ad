import type { Capability } from '../../../src/placement/capability.js';
import { classify } from '../../../src/placement/classify.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';

export const NOW = Date.parse('2026-01-01T00:00:00Z');
/** The label by which the nodes of these tests declare Nydus. */
export const NYDUS: Capability = { format: 'nydus', nodeSelector: { 'example.com/nydus': 'ready' } };

/** The classes of some nodes as the controller would publish them. */
export function viewOf(nodes: readonly NodeFacts[], capabilities: readonly Capability[] = [NYDUS]): NodeClasses {
  const keys = capabilities.flatMap((c) => Object.keys(c.nodeSelector));
  return {
    publishedAt: NOW,
    ...classify({ nodes, capabilities, keys, now: NOW }),
    capabilities: capabilities.map(({ format, nodeSelector }) => ({ format, nodeSelector })),
    quarantined: [],
  };
}
