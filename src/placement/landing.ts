import { createHash } from 'node:crypto';
import type { Json } from '../api/json.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Constraints } from './constraints.js';
import { constraintKey, constraintsOf } from './constraints.js';
import type { AffinityTerm, Requirement } from './filters/node-affinity.js';
import { holds } from './filters/node-affinity.js';
import { tolerates } from './filters/taints.js';
import type { NodeClass, NodeClasses } from './node-classes.js';
import { nodeClassesProblem } from './node-classes.js';

/** What is known of the nodes that a Pod can land on, as far as the choice of an image depends on it. */
export interface Landing {
  /** Platforms (`linux/amd64`) of those nodes; undefined where they are not known: then an image needs all that its source has. */
  platforms: readonly string[] | undefined;
  /** Why one of the nodes of now cannot run an image of the format that plain nodes cannot; formats that all of them run are absent. */
  now: Readonly<Partial<Record<Format, string>>>;
  /** Why a node that joins later may not; absent where the Pod's own required selectors imply a declared capability. */
  later: Readonly<Partial<Record<Format, string>>>;
  /** Equal for landings that allow the same images; their texts may count nodes of another moment. */
  key: string;
}

/** Why nodes may be unable to run a format that is not portable, or undefined where each of them is proven to. */
export function obstacleTo(format: Format, landing: Landing | undefined, nodePoolClosed: boolean): string | undefined {
  if (landing === undefined) return 'the nodes that the Pod can land on are not known';
  return landing.now[format] ?? (nodePoolClosed ? undefined : landing.later[format]);
}

/** Most names of classes in one message. */
const NAMED_CLASSES = 3;

/**
 * Where a Pod with these constraints can land. One-sided: each node that the scheduler accepts is in a class that counts here; a
 * class may count although the scheduler would refuse its nodes (labels that are not tracked, names of nodes, resources).
 * @param view undefined or too old at `now` (epoch ms): nothing is known, so every format has an obstacle
 */
export function landingOf(constraints: Constraints, view: NodeClasses | undefined, now: number): Landing {
  const problem = nodeClassesProblem(view, now);
  if (view === undefined || problem !== undefined) return unknown(`the nodes are not known: ${problem ?? ''}`);
  const tracked = new Set(view.tracked);
  const classes = view.classes.filter((c) => mayLand(c, constraints, tracked));
  if (classes.length === 0)
    return unknown('no node of now matches the node selector, required affinity and tolerations of the Pod', (format) =>
      laterObstacle(format, constraints, view),
    );
  const obstacles = (why: (format: Format) => string | undefined): Landing['now'] =>
    Object.fromEntries(FORMATS.map((f) => [f, why(f)] as const).filter(([, text]) => text !== undefined));
  return landing(
    [...new Set(classes.map((c) => c.platform))].sort(),
    obstacles((f) => nowObstacle(f, classes, view)),
    obstacles((f) => laterObstacle(f, constraints, view)),
  );
}

function unknown(text: string, later: (format: Format) => string | undefined = () => text): Landing {
  const all = Object.fromEntries(FORMATS.map((f) => [f, text]));
  const open = FORMATS.map((f) => [f, later(f)] as const).filter(([, why]) => why !== undefined);
  return landing(undefined, all, Object.fromEntries(open));
}

function landing(platforms: Landing['platforms'], now: Landing['now'], later: Landing['later']): Landing {
  const essence = JSON.stringify([platforms ?? null, Object.keys(now).sort(), Object.keys(later).sort()]);
  return { platforms, now, later, key: createHash('sha256').update(essence).digest('base64url').slice(0, 11) };
}

/** Where Pods of several kinds can land together: each of them has to be served. Undefined where there are none. */
export function mergeLandings(landings: readonly Landing[]): Landing | undefined {
  if (landings.length === 0) return undefined;
  const platforms = landings.every((l) => l.platforms !== undefined)
    ? [...new Set(landings.flatMap((l) => l.platforms ?? []))].sort()
    : undefined;
  const all = (of: 'now' | 'later'): Landing['now'] => Object.assign({}, ...landings.map((l) => l[of])) as Landing['now'];
  return landing(platforms, all('now'), all('later'));
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

function nowObstacle(format: Format, classes: readonly NodeClass[], view: NodeClasses): string | undefined {
  const lacking = classes.filter((c) => !c.formats.includes(format));
  if (lacking.length === 0) return undefined;
  if (!view.capabilities.some((c) => c.format === format))
    return `no node is known to run ${format}: no usable entry for it under capabilities of the configuration`;
  const sum = (of: readonly NodeClass[]): number => of.reduce((total, { count }) => total + count, 0);
  const named = [...lacking].sort((a, b) => b.count - a.count).slice(0, NAMED_CLASSES);
  const rest = lacking.length - named.length;
  const telling = tellingKeys(classes, view.tracked);
  const list = named.map((c) => `${c.count} of ${describe(c, telling)}`).join('; ') + (rest > 0 ? `; ${rest} more classes` : '');
  return `${sum(lacking)} of the ${sum(classes)} nodes that the Pod can land on are not known to run ${format}: ${list}`;
}

/** Most labels that are named of one class. */
const NAMED_LABELS = 3;

/** Labels by which these classes differ, those of the configuration first. */
function tellingKeys(classes: readonly NodeClass[], tracked: readonly string[]): string[] {
  const differs = (key: string): boolean => new Set(classes.map((c) => c.labels[key])).size > 1;
  return tracked.filter((key) => !key.startsWith('kubernetes.io/') && differs(key)).slice(0, NAMED_LABELS);
}

function describe({ platform, labels }: NodeClass, telling: readonly string[]): string {
  const own = telling.map((key) => (Object.hasOwn(labels, key) ? `${key}=${labels[key] ?? ''}` : `no ${key}`));
  return own.length === 0 ? platform : `${platform} with ${own.join(', ')}`;
}

/**
 * A node that joins is covered only if the Pod demands labels that declare the capability; each affinity term is a way in of its
 * own, so each has to.
 */
function laterObstacle(format: Format, { nodeSelector, terms }: Constraints, view: NodeClasses): string | undefined {
  const declared = view.capabilities.filter((c) => c.format === format).map((c) => c.nodeSelector);
  const implied = (term: AffinityTerm | undefined): boolean => {
    const demanded = new Map(Object.entries(nodeSelector));
    for (const { key, operator, values = [] } of term?.matchExpressions ?? [])
      if (operator === 'In' && values.length === 1) demanded.set(key, values[0] ?? '');
    return declared.some((selector) => Object.entries(selector).every(([key, value]) => demanded.get(key) === value));
  };
  if ((terms ?? [undefined]).every(implied)) return undefined;
  const [first] = declared.map((s) => Object.entries(s).map(([key, value]) => `${key}: ${value}`));
  const way =
    first === undefined
      ? `declare under capabilities of the configuration which nodes run ${format}`
      : `require ${first.join(', ')} in the Pod (node selector or every term of its required node affinity)`;
  return `a node that joins later may not run ${format}: ${way}, or set nodePoolClosed in the policy`;
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
