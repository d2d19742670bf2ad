import type { NodeFacts } from '../node-facts.js';
import { schedulerUnits } from '../scheduler-units.js';

/** What one Pod asks for, in the units of the scheduler and without what it asks nothing of: worked out once for all nodes. */
export function wantedOf(requests: Readonly<Record<string, number>>): [name: string, units: number][] {
  return Object.entries(schedulerUnits(requests)).filter(([, units]) => units > 0);
}

/**
 * Nodes that could not hold one Pod of the target even if they were empty (no GPU, too small). What runs there now is not
 * counted: it may have ended by the time the gang starts, so the judgement stays one-sided. A node that does not say how many Pods it
 * takes has not been heard of yet. Rule: kube-scheduler NodeResourcesFit.
 */
export function capacity(
  { allocatable }: NodeFacts,
  { requests, wanted }: { requests: Readonly<Record<string, number>>; wanted: ReturnType<typeof wantedOf> },
): string | undefined {
  if (allocatable['pods'] === 0) return 'it cannot hold a Pod: pods allocatable 0';
  const there = schedulerUnits(allocatable);
  const short = wanted.find(([name, units]) => units > (there[name] ?? 0))?.[0];
  return short === undefined
    ? undefined
    : `it cannot hold a Pod: ${short} allocatable ${allocatable[short] ?? 0}, requested ${requests[short] ?? 0}`;
}
