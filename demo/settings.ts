import type { NodeKind } from '../test/cluster/choose-nodes.js';

/** Everything about a run of the demo that a number or a name decides. */
export interface Settings {
  nodes: NodeKind;
  nodeCount: number;
  /** Incompressible bytes in the image of each leg. */
  imageBytes: number;
  /** Rate of the one link that all nodes share from the registry. */
  linkMbit: number;
  /** Deadline in milliseconds of a step that waits for all nodes to pull one image. */
  pullDeadlineMs: number;
  keep: boolean;
  /** Where report, picture and captured outputs go. */
  out: string;
}

export const NAMESPACE = 'research';
export const HARBINGER_NAMESPACE = 'harbinger-system';
export const QUEUE = 'training';
export const CHECK = 'prewarm';

/** Deadline of a step that moves no image, in milliseconds: generous, since two busy cores are slow, and failing late costs nothing. */
export const STEP_DEADLINE_MS = 60_000;

const MB = 1_000_000;

/**
 * Fake nodes follow the same link model with a smaller image: nothing is proven by waiting longer for bytes that do not exist.
 * The pull deadline is three times the least possible time plus a constant.
 */
export function settingsFor(nodes: NodeKind, options: { keep: boolean; out: string }): Settings {
  const nodeCount = 3;
  const linkMbit = 100;
  const imageBytes = nodes === 'real' ? 200 * MB : 30 * MB;
  return {
    nodes,
    nodeCount,
    imageBytes,
    linkMbit,
    ...options,
    pullDeadlineMs: 60_000 + 3000 * floorSeconds(imageBytes * nodeCount, linkMbit),
  };
}

/** Least time in which a link of `linkMbit` can carry `bytes`. */
export function floorSeconds(bytes: number, linkMbit: number): number {
  return (bytes * 8) / (linkMbit * MB);
}

export function megabytes(bytes: number): string {
  return `${Math.round(bytes / MB)} MB`;
}
