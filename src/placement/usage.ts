import type { Requests } from '../api/pod-requests.js';
import type { NodeFacts } from './node-facts.js';
import { schedulerUnits } from './scheduler-units.js';

/** What Pods of one template have in common; Pods of a gang share one such object. */
export interface PodShape {
  /** In the units of the scheduler; see schedulerUnits. */
  requests: Readonly<Requests>;
  /** UIDs under which its gang may be known, nearest owner first, and after them names. */
  gangs: readonly string[];
  /** Images that its containers pull, init first. */
  images: readonly string[];
  /** Those about which the webhook had to decide and left no decision. */
  undecided: readonly string[];
}

/**
 * `waiting`: not bound, or bound and failing to start; `starting`: the kubelet is at it, and may be pulling; `leaving`: being deleted;
 * `done`: ran to its end, `over`: failed, and either takes nothing any more.
 */
export type PodState = 'waiting' | 'starting' | 'running' | 'leaving' | 'done' | 'over';

/** What is kept of every Pod of the cluster. */
export interface PodUse {
  namespace: string;
  /** Empty while it is not bound. */
  node: string;
  state: PodState;
  /** Epoch ms. */
  createdAt: number;
  /** Key of the gang that Kueue makes of Pods that it takes as they are; nothing is on record for these when they are made. */
  queuedAs?: string;
  shape: PodShape;
}

interface NodeUse {
  pods: number;
  leavingPods: number;
  starting: number;
  used: Map<string, number>;
  leaving: Map<string, number>;
  /** By namespace and, after a slash, the key: UIDs in Pods are written by anybody. */
  gangs: Map<string, number>;
}

/** How near a node is to taking a Pod: class 0 takes it now, 1 once Pods that are being deleted are gone, 2 later. */
export interface Room {
  class: 0 | 1 | 2;
  /** Largest share of its allocatable resources that is missing; 0 where nothing is. */
  missing: number;
}

/** Sums of what Pods take on each node, kept up by every change of a Pod: a plan never walks over all Pods. */
export class NodeUsage {
  readonly #nodes = new Map<string, NodeUse>();

  /** Takes in a change of one Pod; `undefined` for one that came or went. */
  note(now: PodUse | undefined, before: PodUse | undefined): void {
    if (before !== undefined) this.#count(before, -1);
    if (now !== undefined) this.#count(now, 1);
  }

  /**
   * How near a node is to taking a Pod. Rule: kube-scheduler NodeResourcesFit.
   * @param requests of one Pod in base units
   */
  roomFor(node: NodeFacts, requests: Readonly<Requests>): Room {
    const use = this.#nodes.get(node.name);
    if (use === undefined) return { class: 0, missing: 0 };
    const wanted = Object.entries({ ...schedulerUnits(requests), pods: 1 });
    const allocatable = schedulerUnits(node.allocatable);
    const missing = (left: (name: string) => number): number =>
      Math.max(0, ...wanted.map(([name, n]) => shareMissing(n, allocatable[name] ?? 0, left(name))));
    const taken = (name: string): number => (name === 'pods' ? use.pods : (use.used.get(name) ?? 0));
    const leaving = (name: string): number => (name === 'pods' ? use.leavingPods : (use.leaving.get(name) ?? 0));
    const now = missing(taken);
    if (now === 0) return { class: 0, missing: 0 };
    const soon = missing((name) => taken(name) - leaving(name));
    return { class: soon === 0 ? 1 : 2, missing: now };
  }

  /**
   * Nodes on which Pods are starting or Pods of a gang are running: a pull there takes disk and network from somebody.
   * @param isGang whether what is known under this key in this namespace is one
   */
  busy(isGang: (namespace: string, key: string) => boolean): Set<string> {
    const busy = new Set<string>();
    const isOfGang = (at: string): boolean => isGang(at.slice(0, at.indexOf('/')), at.slice(at.indexOf('/') + 1));
    for (const [name, { starting, gangs }] of this.#nodes) if (starting > 0 || [...gangs.keys()].some(isOfGang)) busy.add(name);
    return busy;
  }

  #count({ namespace, node, state, shape }: PodUse, sign: 1 | -1): void {
    if (node === '' || state === 'done' || state === 'over') return;
    const use = this.#nodes.get(node) ?? {
      pods: 0,
      leavingPods: 0,
      starting: 0,
      used: new Map<string, number>(),
      leaving: new Map<string, number>(),
      gangs: new Map<string, number>(),
    };
    this.#nodes.set(node, use);
    use.pods += sign;
    if (state === 'starting') use.starting += sign;
    for (const [name, value] of Object.entries(shape.requests)) bump(use.used, name, sign * value);
    if (state === 'leaving') {
      use.leavingPods += sign;
      for (const [name, value] of Object.entries(shape.requests)) bump(use.leaving, name, sign * value);
    }
    for (const key of shape.gangs) bump(use.gangs, `${namespace}/${key}`, sign);
    if (use.pods === 0) this.#nodes.delete(node);
  }
}

function shareMissing(wanted: number, allocatable: number, taken: number): number {
  const short = wanted - (allocatable - taken);
  return wanted === 0 || short <= 0 ? 0 : short / Math.max(1, allocatable);
}

/** Integers throughout, so that what was added is taken away without a rest. */
function bump(sums: Map<string, number>, key: string, by: number): void {
  const next = (sums.get(key) ?? 0) + by;
  if (next === 0) sums.delete(key);
  else sums.set(key, next);
}
