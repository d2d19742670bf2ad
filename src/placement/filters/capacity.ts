import type { NodeFacts } from '../node-facts.js';
import { schedulerUnits } from '../scheduler-units.js';

/**
 * Nodes that could not hold one Pod of the target even if they were empty (no GPU, too small). What runs there now is not
 * counted: it may have ended by the time the gang starts, so the judgement stays one-sided. A node that does not say how many Pods it
 * takes has not been heard of yet. Rule: kube-scheduler NodeResourcesFit.
 */
export function capacity({ allocatable }: NodeFacts, requests: Readonly<Record<string, number>>): string | undefined {
  if (allocatable['pods'] === 0) return 'it cannot hold a Pod: pods allocatable 0';
  const [wanted, there] = [schedulerUnits(requests), schedulerUnits(allocatable)];
  const short = Object.keys(wanted).find((name) => (wanted[name] ?? 0) > 0 && (wanted[name] ?? 0) > (there[name] ?? 0));
  return short === undefined
    ? undefined
    : `it cannot hold a Pod: ${short} allocatable ${allocatable[short] ?? 0}, requested ${requests[short] ?? 0}`;
}
