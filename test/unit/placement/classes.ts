import { defaultConfig } from '../../../src/config/load.js';
import type { Capability } from '../../../src/placement/capability.js';
import { selectorOf } from '../../../src/placement/capability.js';
import { classify } from '../../../src/placement/classify.js';
import type { NodeClasses } from '../../../src/placement/node-classes.js';
import type { NodeFacts } from '../../../src/placement/node-facts.js';
import { node } from './nodes.js';

export const NOW = Date.parse('2026-01-01T00:00:00Z');
/** The label by which the nodes of these tests declare Nydus. */
export const NYDUS: Capability = { format: 'nydus', nodeSelector: { 'example.com/nydus': 'ready' } };

/** The classes of some nodes as the controller would publish them. */
export function viewOf(nodes: readonly NodeFacts[], capabilities: readonly Capability[] = [NYDUS]): NodeClasses {
  const { lastingTaints } = defaultConfig().nodes;
  const keys = capabilities.flatMap((c) => Object.keys(c.nodeSelector));
  return {
    publishedAt: NOW,
    ...classify({ nodes, capabilities, keys, lastingTaints, now: NOW }),
    capabilities: capabilities.map(selectorOf),
    quarantined: [],
  };
}

/** A node with the label of its architecture. */
export const named = (name: string, labels: Record<string, string>, more: Partial<NodeFacts> = {}): NodeFacts =>
  node(name, { labels: { 'kubernetes.io/arch': more.arch ?? 'amd64', ...labels }, ...more });
/** Declares Nydus. */
export const ready = { 'example.com/nydus': 'ready' };
/** A Pod with required node affinity. */
export const required = (...terms: object[]): object => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
});
export const is = (key: string, ...values: string[]): object => ({ matchExpressions: [{ key, operator: 'In', values }] });
