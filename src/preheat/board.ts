import type { Candidates } from '../placement/candidates.js';
import type { NodeFacts } from '../placement/node-facts.js';
import type { PullState } from './evidence.js';
import type { PlannedTarget, World } from './planner.js';
import type { Puller } from './puller.js';
import type { RampUp } from './ramp.js';
import { failsEverywhere, pullWindow, tallyOf } from './ramp.js';
import type { Tally } from './ramp.js';

/** Where all images of a target together stand on a node. `busy` is pending on a node that is to be left alone. */
export type Kind = 'warm' | 'pulling' | 'pending' | 'busy' | 'stalled' | 'failed';

export interface NodeStanding {
  node: NodeFacts;
  kind: Kind;
  /** Images that are warm already. */
  warm: number;
}

export interface Standing {
  /** All candidates, those nearest to warm first, equals in the order of the candidates. */
  nodes: readonly NodeStanding[];
  /** Those that failed or stall. */
  troubled: readonly NodeStanding[];
}

/** The nearer to warm the higher; a node that stalls or failed comes after all that may still do better. */
const SCORE: Record<Kind, number> = { warm: 5000, pulling: 4000, pending: 3000, busy: 2000, stalled: 1000, failed: 0 };

const ABSENT: PullState = { state: 'absent', inFlight: false };

/**
 * The world as one plan changes it. What a target looks like on all of its candidates is worked out once for all gangs that ask
 * the same: hundreds of queued gangs share few images and the same nodes, and this is most of the work of a plan.
 */
export class Board {
  readonly #world: World;
  /** What this plan has begun, on top of the world; by hash, then node. */
  readonly #begun = new Map<string, Map<string, PullState>>();
  readonly #tallies = new Map<string, Tally>();
  /** The node of each puller on which a Pod is still waited for, by hash. */
  readonly #lookouts = new Map<string, string>();
  /** Standings of targets of which nothing was tried, by whether busy nodes come last, and the smallest disk. */
  readonly #untouched = new Map<Candidates, Map<boolean, Standing>>();
  readonly #disks = new Map<Candidates, number>();
  readonly #memo = new Map<Candidates, Map<string, { begun: number; standing: Standing }>>();

  constructor(world: World) {
    this.#world = world;
  }

  state(puller: Puller, node: NodeFacts): PullState {
    const known = this.#begun.get(puller.hash)?.get(node.name) ?? this.#world.pulls.get(puller.hash)?.get(node.name) ?? ABSENT;
    if (known.state !== 'absent') return known;
    const refused = this.#world.refused?.get(puller.hash);
    if (refused !== undefined) return { state: 'failed', inFlight: known.inFlight, reason: 'Rejected', message: refused };
    // Compressed bytes that exceed the whole disk can never fit; everything closer is the kubelet's to judge.
    const disk = node.allocatable['ephemeral-storage'];
    if (disk === undefined || puller.bytes <= disk) return known;
    return {
      state: 'failed',
      inFlight: known.inFlight,
      reason: 'InsufficientDisk',
      message: `the image has ${puller.bytes} compressed bytes, node ${node.name} has ${disk} bytes of allocatable ephemeral-storage`,
    };
  }

  /**
   * Whether the world has anything to lose on the node: a copy, a pull, a failure to be remembered. A pull that only a write in doubt has
   * begun is written again, so it is kept only for those that may begin one.
   */
  isKept(puller: Puller, node: string, mayPull: boolean): boolean {
    const { state, doubtful } = this.#world.pulls.get(puller.hash)?.get(node) ?? ABSENT;
    return state !== 'absent' && (doubtful !== true || mayPull);
  }

  /**
   * Whether a node goes without a Pod, and another one of the puller does so already: one is enough to see when Pods come again,
   * and each takes its share of the limits.
   */
  isIdly(puller: Puller, node: string): boolean {
    const states = this.#world.pulls.get(puller.hash);
    if (states?.get(node)?.overdue !== true) return false;
    const first = this.#lookouts.get(puller.hash) ?? [...states].find(([, s]) => s.overdue === true)?.[0];
    if (first !== undefined) this.#lookouts.set(puller.hash, first);
    return first !== node;
  }

  begin(puller: Puller, node: string): void {
    const begun = this.#begun.get(puller.hash) ?? new Map<string, PullState>();
    begun.set(node, { state: 'pulling', inFlight: true });
    this.#begun.set(puller.hash, begun);
  }

  /** How many more nodes may begin to pull the image now; none at all: it fails too often to be tried elsewhere. */
  room(rampUp: RampUp, puller: Puller): number | 'none' {
    const window = pullWindow(rampUp, this.#tally(puller));
    return window === 0 ? 'none' : window - this.#tally(puller).live - (this.#begun.get(puller.hash)?.size ?? 0);
  }

  /** Whether the image fails in a way that every node would meet alike. */
  failsEverywhere(puller: Puller): boolean {
    return failsEverywhere(this.#tally(puller));
  }

  #tally(puller: Puller): Tally {
    const tally = this.#tallies.get(puller.hash) ?? tallyOf(this.#world.pulls.get(puller.hash)?.values() ?? []);
    this.#tallies.set(puller.hash, tally);
    return tally;
  }

  /** @param avoid whether busy nodes come after all others */
  standing(target: PlannedTarget, avoid: boolean): Standing {
    if (this.#isUntouched(target)) return this.#fresh(target.candidates, avoid);
    const key = [avoid, target.complete, ...target.pullers.map((p) => p.hash)].join();
    const begun = target.pullers.reduce((sum, p) => sum + (this.#begun.get(p.hash)?.size ?? 0), 0);
    const memo = this.#memo.get(target.candidates) ?? new Map<string, { begun: number; standing: Standing }>();
    this.#memo.set(target.candidates, memo);
    const known = memo.get(key);
    if (known?.begun === begun) return known.standing;
    const standing = inOrder(target.candidates.nodes.map((node) => this.#standingOn(target, node, avoid)));
    memo.set(key, { begun, standing });
    return standing;
  }

  /** Whether nothing of a target is, was or is being tried anywhere, as for most gangs of a long queue. */
  #isUntouched({ pullers, candidates }: PlannedTarget): boolean {
    const { pulls, refused } = this.#world;
    const isKnown = ({ hash }: Puller): boolean =>
      (pulls.get(hash)?.size ?? 0) > 0 || this.#begun.has(hash) || refused?.has(hash) === true;
    return pullers.length > 0 && !pullers.some((p) => isKnown(p) || p.bytes > this.#leastDisk(candidates));
  }

  #fresh(candidates: Candidates, avoid: boolean): Standing {
    const memo = this.#untouched.get(candidates) ?? new Map<boolean, Standing>();
    this.#untouched.set(candidates, memo);
    const isBusy = ({ name }: NodeFacts): boolean => avoid && candidates.busy?.has(name) === true;
    const known =
      memo.get(avoid) ??
      inOrder(candidates.nodes.map((node) => ({ node, kind: isBusy(node) ? ('busy' as const) : ('pending' as const), warm: 0 })));
    memo.set(avoid, known);
    return known;
  }

  #leastDisk(candidates: Candidates): number {
    const known =
      this.#disks.get(candidates) ??
      candidates.nodes.reduce(
        (least, n) => Math.min(least, n.allocatable['ephemeral-storage'] ?? least),
        Number.POSITIVE_INFINITY,
      );
    this.#disks.set(candidates, known);
    return known;
  }

  #standingOn({ pullers, complete, candidates: { busy } }: PlannedTarget, node: NodeFacts, avoid: boolean): NodeStanding {
    let [warm, failed, pulling, stalled] = [0, false, false, false];
    for (const puller of pullers) {
      const { state, stalled: hangs } = this.state(puller, node);
      if (state === 'warm') warm += 1;
      failed ||= state === 'failed';
      pulling ||= state === 'pulling';
      stalled ||= hangs !== undefined;
    }
    const kind = (): Kind => {
      if (failed) return 'failed';
      if (complete && warm === pullers.length) return 'warm';
      if (stalled) return 'stalled';
      if (pulling) return 'pulling';
      return avoid && busy?.has(node.name) === true ? 'busy' : 'pending';
    };
    return { node, kind: kind(), warm };
  }
}

/** Sorts by score without moving equals, in one pass over the nodes. */
function inOrder(all: readonly NodeStanding[]): Standing {
  const byScore = new Map<number, NodeStanding[]>();
  for (const one of all) {
    const score = SCORE[one.kind] + one.warm;
    const same = byScore.get(score);
    if (same === undefined) byScore.set(score, [one]);
    else same.push(one);
  }
  const nodes = [...byScore].sort(([a], [b]) => b - a).flatMap(([, same]) => same);
  return { nodes, troubled: nodes.filter((n) => n.kind === 'failed' || n.kind === 'stalled') };
}

/**
 * The nodes that a target is to be warm on. Of nodes that have nothing of it yet those come last that gangs ahead are going to
 * occupy: its own Pods hardly land there, and it would wait for the others' pulls.
 */
export function pick({ nodes }: Standing, needed: number, taken: ReadonlySet<string>): readonly NodeStanding[] {
  if (taken.size === 0 || needed >= nodes.length) return nodes.slice(0, needed);
  const picks: NodeStanding[] = [];
  let later: NodeStanding[] = [];
  for (const one of nodes) {
    if (picks.length >= needed) break;
    if (one.kind === 'pending' && one.warm === 0 && taken.has(one.node.name)) later.push(one);
    else if (later.length > 0 && SCORE[one.kind] < SCORE.pending) {
      picks.push(...later, one);
      later = [];
    } else picks.push(one);
  }
  return [...picks, ...later].slice(0, needed);
}
