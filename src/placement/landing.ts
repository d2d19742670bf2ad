import { createHash } from 'node:crypto';
import type { Json } from '../api/json.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import type { Constraints } from './constraints.js';
import { constraintKey, constraintsOf } from './constraints.js';
import type { AffinityTerm, Requirement } from './filters/node-affinity.js';
import { holds } from './filters/node-affinity.js';
import { tolerates } from './filters/taints.js';
import { fixedPlatforms } from './fixed-platforms.js';
import type { NodeClass, NodeClasses } from './node-classes.js';
import { nodeClassesProblem } from './node-classes.js';
import type { Fetch, Obstacles } from './obstacles.js';
import { FETCH, laterObstacle, nowObstacle, obstacles } from './obstacles.js';

/** What is known of the nodes that a Pod can land on, as far as the choice of an image depends on it. */
export interface Landing {
  /** Platforms (`linux/amd64`) of the nodes of now; undefined where they are not known. */
  platforms: readonly string[] | undefined;
  /** Platforms that the Pod's own required selectors leave, whatever nodes join; undefined where they leave any. */
  fixed?: readonly string[] | undefined;
  /** Why one of the nodes of now cannot run an image of the format that plain nodes cannot. */
  now: Obstacles;
  /** Why a node that joins later may not; absent where the Pod's own required selectors imply a declared capability. */
  later: Obstacles;
  /** The same for images that nobody may read without credentials; absent: no node is known to read them. */
  private?: { now: Obstacles; later: Obstacles };
  /** Equal for landings that allow the same images; their texts may count nodes of another moment. */
  key: string;
}

const UNKNOWN_NODES = 'the nodes that the Pod can land on are not known';

/** Why nodes may be unable to run a format that is not portable, or undefined where each of them is proven to. */
export function obstacleTo(format: Format, landing: Landing | undefined, nodePoolClosed: boolean): string | undefined {
  if (landing === undefined) return UNKNOWN_NODES;
  return landing.now[format] ?? (nodePoolClosed ? undefined : landing.later[format]);
}

/**
 * Why nodes may be unable to fetch an image that nobody may read anonymously, of a format that is not portable. Snapshotters fetch
 * with credentials of their own: what the Pod or the kubelet has does not reach them.
 */
export function privateObstacleTo(format: Format, landing: Landing | undefined, nodePoolClosed: boolean): string | undefined {
  if (landing?.private === undefined) return UNKNOWN_NODES;
  return landing.private.now[format] ?? (nodePoolClosed ? undefined : landing.private.later[format]);
}

/**
 * Platforms that an image has to serve for such a Pod; undefined: all that its source has. Nodes of now bound it only where the
 * policy says that none of another kind will join.
 */
export function platformsNeeded(landing: Landing | undefined, nodePoolClosed: boolean): readonly string[] | undefined {
  return landing?.fixed ?? (nodePoolClosed ? landing?.platforms : undefined);
}

/**
 * Where a Pod with these constraints can land. One-sided: each node that the scheduler accepts is in a class that counts here; a
 * class may count although the scheduler would refuse its nodes (labels that are not tracked, names of nodes, resources).
 * @param view undefined or too old at `now` (epoch ms): nothing is known, so every format has an obstacle
 */
export function landingOf(constraints: Constraints, view: NodeClasses | undefined, now: number): Landing {
  const problem = nodeClassesProblem(view, now);
  if (view === undefined || problem !== undefined) return unknown(`the nodes are not known: ${problem ?? ''}`, constraints);
  const tracked = new Set(view.tracked);
  const classes = view.classes.filter((c) => mayLand(c, constraints, tracked));
  if (classes.length === 0)
    return unknown('no node of now matches the node selector, required affinity and tolerations of the Pod', constraints, view);
  const platforms = [...new Set(classes.map((c) => c.platform))].sort();
  return landing({
    platforms,
    fixed: fixedPlatforms(
      constraints,
      platforms.map((p) => p.split('/')[0] ?? ''),
    ),
    now: obstacles((f) => nowObstacle(FETCH.public, f, { classes, view })),
    later: obstacles((f) => laterObstacle(FETCH.public, f, { constraints, view })),
    private: {
      now: obstacles((f) => nowObstacle(FETCH.private, f, { classes, view })),
      later: obstacles((f) => laterObstacle(FETCH.private, f, { constraints, view })),
    },
  });
}

/** @param view absent where capabilities are not known either */
function unknown(text: string, constraints: Constraints, view?: NodeClasses): Landing {
  const all = obstacles(() => text);
  const later = (fetch: Fetch): Obstacles =>
    view === undefined ? all : obstacles((f) => laterObstacle(fetch, f, { constraints, view }));
  return landing({
    platforms: undefined,
    fixed: fixedPlatforms(constraints),
    now: all,
    later: later(FETCH.public),
    private: { now: all, later: later(FETCH.private) },
  });
}

function landing(parts: Required<Omit<Landing, 'key'>>): Landing {
  const { platforms, fixed, now, later, private: own } = parts;
  const open = [now, later, own.now, own.later].map((o) => Object.keys(o).sort());
  const essence = JSON.stringify([platforms ?? null, fixed ?? null, ...open]);
  return { ...parts, key: createHash('sha256').update(essence).digest('base64url').slice(0, 11) };
}

/** Where Pods of several kinds can land together: each of them has to be served. Undefined where there are none. */
export function mergeLandings(landings: readonly Landing[]): Landing | undefined {
  if (landings.length === 0) return undefined;
  const union = (of: (l: Landing) => readonly string[] | undefined): string[] | undefined =>
    landings.every((l) => of(l) !== undefined) ? [...new Set(landings.flatMap((l) => of(l) ?? []))].sort() : undefined;
  const all = (of: (l: Landing) => Obstacles): Obstacles => Object.assign({}, ...landings.map(of)) as Obstacles;
  const unread = obstacles(() => UNKNOWN_NODES);
  return landing({
    platforms: union((l) => l.platforms),
    fixed: union((l) => l.fixed),
    now: all((l) => l.now),
    later: all((l) => l.later),
    private: { now: all((l) => l.private?.now ?? unread), later: all((l) => l.private?.later ?? unread) },
  });
}

/** Whether the scheduler could put the Pod on a node of the class, as far as the class tells. */
export function mayLand(
  { labels, taints }: Pick<NodeClass, 'labels' | 'taints'>,
  { nodeSelector, terms, tolerations }: Constraints,
  tracked: ReadonlySet<string>,
): boolean {
  const value = (key: string): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const mayHold = (requirement: Requirement): boolean =>
    !tracked.has(requirement.key) || holds(requirement, value(requirement.key));
  if (!taints.every((taint) => tolerations.some((t) => tolerates(t, taint)))) return false;
  if (!Object.entries(nodeSelector).every(([key, wanted]) => !tracked.has(key) || value(key) === wanted)) return false;
  // Names of nodes are not in classes, so matchFields may hold on any. A term without requirements matches no node, as in a Pod.
  const mayMatch = ({ matchExpressions = [], matchFields = [] }: AffinityTerm): boolean =>
    matchExpressions.length + matchFields.length > 0 && matchExpressions.every(mayHold);
  return terms === undefined || terms.some(mayMatch);
}

/** Remembers the landings of the latest constraints for one picture of the nodes; a gang of a thousand Pods is judged once. */
export class LandingMemo {
  readonly #capacity: number;
  readonly #landings = new Map<string, Landing>();
  #view: NodeClasses | undefined;
  #usable = false;

  constructor(capacity = 1000) {
    this.#capacity = capacity;
  }

  /** Landing of a Pod (raw `spec`) at `now` (epoch ms). */
  of(podSpec: Json, view: NodeClasses | undefined, now: number): Landing {
    const constraints = constraintsOf(podSpec);
    const usable = nodeClassesProblem(view, now) === undefined;
    if (view !== this.#view || usable !== this.#usable) this.#landings.clear();
    this.#view = view;
    this.#usable = usable;
    const key = constraintKey(constraints);
    const known = this.#landings.get(key);
    if (known !== undefined) return known;
    const found = landingOf(constraints, view, now);
    const [oldest] = this.#landings.keys();
    if (oldest !== undefined && this.#landings.size >= this.#capacity) this.#landings.delete(oldest);
    this.#landings.set(key, found);
    return found;
  }
}
