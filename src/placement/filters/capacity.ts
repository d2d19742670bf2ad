import type { NodeFacts } from '../node-facts.js';

/**
 * Nodes that could not hold one Pod of the target even if they were empty (no GPU, too small). What runs there now is not
 * counted: it may have ended by the time the gang starts, so the judgement stays one-sided.
 */
export function capacity(node: NodeFacts, requests: Readonly<Record<string, number>>): string | undefined {
  const short = Object.entries(requests).find(([name, wanted]) => wanted > 0 && wanted > (node.allocatable[name] ?? 0));
  return short === undefined
    ? undefined
    : `it cannot hold a Pod: ${short[0]} allocatable ${node.allocatable[short[0]] ?? 0}, requested ${short[1]}`;
}
