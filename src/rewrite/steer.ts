import { at, list, record } from '../api/json.js';
import type { PatchOp } from './patch.js';
import { pointer } from './patch.js';
import type { PodView } from './pod-view.js';
import type { Verdict } from './situation.js';

const HOSTNAME = 'kubernetes.io/hostname';
/** Most nodes that are named to a Pod: each of them is in the Pod for its whole life. */
export const MAX_STEERED = 256;
/** Among the preferences of one Pod; ours is the only one where we write. */
const WEIGHT = 100;
/** Labels of Pods that Kueue groups by what they ask for: with another preference each would be a group of its own. */
const GROUPED = ['kueue.x-k8s.io/managed', 'kueue.x-k8s.io/pod-group-name'];

/** Images that a Pod is given from the record of its gang, and for which there are warm nodes. */
export function recordedImages(verdicts: readonly Verdict[]): string[] {
  const recorded = verdicts.filter(({ decision }) => decision.prewarm !== undefined && decision.image.includes('@'));
  return [...new Set(recorded.map((v) => v.decision.image))];
}

/**
 * Prefers the nodes on which the images of a Pod are warmed, for Pods that prefer none themselves: what somebody else wrote stays as it
 * is. A preference never keeps a Pod from a node. Adds fields only where the review shows that there are none, so it always applies.
 * @param nodes names of nodes; too many of them would be no preference, and none is none
 */
export function steerOps({ raw, labels }: PodView, nodes: readonly string[]): PatchOp[] {
  if (nodes.length === 0 || nodes.length > MAX_STEERED || GROUPED.some((label) => labels[label] !== undefined)) return [];
  const matchExpressions = [{ key: HOSTNAME, operator: 'In', values: [...nodes].sort() }];
  const preferred = [{ weight: WEIGHT, preference: { matchExpressions } }];
  const field = 'preferredDuringSchedulingIgnoredDuringExecution';
  return add(at(raw, 'spec'), ['spec'], { path: ['affinity', 'nodeAffinity', field], value: preferred });
}

/** Adds `value` at `path` below `parent`, with the maps that are missing on the way; nothing where something stands there. */
function add(parent: object, above: readonly string[], { path, value }: { path: readonly string[]; value: unknown }): PatchOp[] {
  const [key = '', ...rest] = path;
  const there = (parent as Record<string, unknown>)[key];
  const next = record(there);
  const vacant = there === undefined || there === null || (rest.length === 0 && list(there)?.length === 0);
  if (next !== undefined && rest.length > 0) return add(next, [...above, key], { path: rest, value });
  if (!vacant) return [];
  const whole = rest.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);
  return [{ op: 'add', path: pointer(...above, key), value: whole }];
}
