import { FAILING_FREE } from '../../../src/preheat/budgets.js';
import type { PullTruth, Violation } from './history.js';

export interface Limits {
  maxPullingNodes: number;
  maxPullingNodesPerRegistry: number;
}

/**
 * Pulls that really run keep the limits: granted ones to the letter, one at a time on a node. With what kubelets try again by
 * themselves there are a few more and one for each image, see ADR 21. What a person begins is nobody's to refuse, and not judged.
 */
export function withinBudgets(pulls: readonly PullTruth[], limits: Limits): Violation[] {
  const granted = pulls.filter((p) => p.begunBy === 'planner');
  const judged = pulls.filter((p) => p.begunBy !== 'person');
  const more = FAILING_FREE + new Set(judged.map((p) => p.digest)).size;
  const wider = {
    maxPullingNodes: limits.maxPullingNodes + more,
    maxPullingNodesPerRegistry: limits.maxPullingNodesPerRegistry + more,
  };
  return [...beyond(granted, { ...limits, perNode: 1 }), ...beyond(judged, { ...wider, perNode: Number.POSITIVE_INFINITY })];
}

function beyond(pulls: readonly PullTruth[], limits: Limits & { perNode: number }): Violation[] {
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
      { key: `node ${pull.node}`, limit: limits.perNode, what: `pulls run on node ${pull.node}` },
    ];
    return counted.flatMap(({ key, limit, what }): Violation[] => {
      const now = (counts.get(key) ?? 0) + by;
      counts.set(key, now);
      if (by < 0 || now <= limit) return [];
      return [{ promise: 'budgets', at, object: `Node ${pull.node}`, message: `${now} ${what}, the limit is ${limit}` }];
    });
  });
}
