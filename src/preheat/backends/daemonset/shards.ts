import type { PullerSet } from '../../world.js';

/** Most nodes of one DaemonSet: each edit sends its whole list to the API server, and its controller walks over all nodes. */
export const SHARD_NODES = 500;

/** One part of the nodes of a puller, with the set that covers it now. */
export interface Shard {
  index: number;
  nodes: Set<string>;
  set?: PullerSet;
}

/**
 * Deals nodes to DaemonSets. A node stays where it is, since moving would end its Pod; others go to the first set with room. Sets that
 * are left without nodes are not among the shards, so that they are deleted. A set that is being deleted keeps its place until it is gone.
 */
export function shardsOf(wanted: ReadonlySet<string>, sets: readonly PullerSet[]): Shard[] {
  const shards = new Map<number, Shard>();
  const left = new Set(wanted);
  for (const set of [...sets].sort((a, b) => a.shard - b.shard)) {
    const stay = set.nodes.filter((n) => left.has(n)).slice(0, SHARD_NODES);
    for (const node of stay) left.delete(node);
    shards.set(set.shard, { index: set.shard, nodes: new Set(stay), set });
  }
  const rest = [...left].sort();
  for (let index = 0; rest.length > 0; index++) {
    const shard = shards.get(index) ?? { index, nodes: new Set<string>() };
    for (const node of rest.splice(0, SHARD_NODES - shard.nodes.size)) shard.nodes.add(node);
    if (shard.nodes.size > 0) shards.set(index, shard);
  }
  return [...shards.values()].filter((s) => s.nodes.size > 0).sort((a, b) => a.index - b.index);
}
