import type { PullTruth, Violation } from './history.js';

export interface Limits {
  maxPullingNodes: number;
  maxPullingNodesPerRegistry: number;
  /** One where absent. */
  maxPullsPerNode?: number;
}

/** Pulls that really run never exceed the limits, and a node has one at a time where nothing else is said. */
export function withinBudgets(pulls: readonly PullTruth[], limits: Limits): Violation[] {
  const edges = pulls.flatMap((pull) => [
    { at: pull.from, by: 1, pull },
    ...(Number.isFinite(pull.to) ? [{ at: pull.to, by: -1, pull }] : []),
  ]);
  // Of two edges at one moment the end comes first: what ended then no longer flows.
  edges.sort((a, b) => a.at - b.at || a.by - b.by);
  const counts = new Map<string, number>();
  return edges.flatMap(({ at, by, pull }) => {
    const counted = [
      { key: 'all', limit: limits.maxPullingNodes, what: 'nodes pull in the cluster' },
      { key: `registry ${pull.registry}`, limit: limits.maxPullingNodesPerRegistry, what: `nodes pull from ${pull.registry}` },
      { key: `node ${pull.node}`, limit: limits.maxPullsPerNode ?? 1, what: `pulls run on node ${pull.node}` },
    ];
    return counted.flatMap(({ key, limit, what }): Violation[] => {
      const now = (counts.get(key) ?? 0) + by;
      counts.set(key, now);
      if (by < 0 || now <= limit) return [];
      return [{ promise: 'budgets', at, object: `Node ${pull.node}`, message: `${now} ${what}, the limit is ${limit}` }];
    });
  });
}
