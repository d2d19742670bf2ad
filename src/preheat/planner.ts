import type { FailureReason } from '../api/reasons.js';
import type { Candidates } from '../placement/candidates.js';
import type { NodeFacts } from '../placement/node-facts.js';
import type { Limits, Refusal } from './budgets.js';
import { Meter } from './budgets.js';
import type { PullState } from './evidence.js';
import type { Puller } from './puller.js';
import { pullWindow } from './ramp.js';
import type { RampUp } from './ramp.js';

/** One prewarm as the planner sees it. */
export interface PlannedPrewarm {
  key: string;
  /** Whether new pulls may begin; what is warm or under way is kept either way while `keep`. */
  mayPull: boolean;
  /** Whether anything is kept for it at all. */
  keep: boolean;
  /** Orders the line: reserved gangs first, then priority (high first), then time (early first), then key. */
  rank: { reserved: boolean; priority: number; queuedAt: number };
  /** Whose limits its pulls count for; none where absent. */
  namespace?: string | undefined;
  /** Avoid: no pull begins on nodes that are `busy` among the candidates. */
  busyNodes?: 'Allow' | 'Avoid' | undefined;
  rampUp: RampUp;
  maxConcurrentNodes?: number | undefined;
  targets: PlannedTarget[];
}

export interface PlannedTarget {
  name: string;
  /** Images that are resolved, in the order in which they are pulled. */
  pullers: Puller[];
  /** Whether every image of the target is among `pullers`; a target with images that are not resolved is never warm. */
  complete: boolean;
  candidates: Candidates;
}

/** What is known of pulls now: hash of the puller -> node -> state. Nodes without an entry were not tried. */
export interface World {
  nodes: ReadonlyMap<string, NodeFacts>;
  pulls: ReadonlyMap<string, ReadonlyMap<string, PullState>>;
  pullers: ReadonlyMap<string, Puller>;
  /** Why no new Pods can be had of a puller, by hash; it fails wherever it is not under way already. */
  refused?: ReadonlyMap<string, string>;
}

export interface PlannedFailure {
  node: string;
  image: string;
  reason: FailureReason;
  message: string;
}

/** Where one prewarm stands. desired = warm + pulling + pending + failed. */
export interface Progress {
  desired: number;
  warm: number;
  pulling: number;
  pending: number;
  failed: number;
  failures: PlannedFailure[];
  /** What keeps pending nodes from pulling now; absent when nothing waits. */
  waitsFor?: Refusal | 'ramp' | 'failure' | 'busy';
  /** Start times of the pulls that run, epoch ms. */
  runningSince: number[];
  /** How long finished pulls took, ms. */
  seenMs: number[];
}

export interface Plan {
  /** Hash of the puller -> nodes that its DaemonSet is to cover; a puller that is absent is to be deleted. */
  grants: Map<string, { puller: Puller; nodes: Set<string> }>;
  progress: Map<string, Progress>;
}

const ABSENT: PullState = { state: 'absent', inFlight: false };

export function byRank(a: PlannedPrewarm, b: PlannedPrewarm): number {
  if (a.rank.reserved !== b.rank.reserved) return a.rank.reserved ? -1 : 1;
  return b.rank.priority - a.rank.priority || a.rank.queuedAt - b.rank.queuedAt || (a.key < b.key ? -1 : 1);
}

/**
 * The one place where pulls are decided: which nodes pull which image now, and where each prewarm stands. A pure function of
 * what the API server knows, so that a restart comes to the same plan. New pulls never take what is in flight above the limits;
 * pulls that nobody wants any more stay granted until they end, because deleting a puller does not stop its pull (seen).
 */
export function plan(prewarms: readonly PlannedPrewarm[], world: World, limits: Limits): Plan {
  const planner = new Planner(world, limits);
  const progress = new Map<string, Progress>();
  for (const prewarm of [...prewarms].sort(byRank)) progress.set(prewarm.key, planner.place(prewarm));
  return { grants: planner.grants, progress };
}

class Planner {
  readonly grants: Plan['grants'] = new Map();
  readonly #world: World;
  readonly #meter: Meter;
  /** What this plan has begun, on top of the world. */
  readonly #begun = new Map<string, Map<string, PullState>>();

  constructor(world: World, limits: Limits) {
    this.#world = world;
    this.#meter = new Meter(limits);
    for (const [hash, states] of world.pulls) {
      const puller = world.pullers.get(hash);
      if (puller === undefined) continue;
      for (const [node, state] of states) {
        if (!state.inFlight) continue;
        this.#meter.count(puller, node);
        if (state.state === 'pulling') this.#grant(puller, node);
      }
    }
  }

  place(prewarm: PlannedPrewarm): Progress {
    const sum: Progress = { desired: 0, warm: 0, pulling: 0, pending: 0, failed: 0, failures: [], runningSince: [], seenMs: [] };
    const quota = { left: prewarm.maxConcurrentNodes ?? Number.POSITIVE_INFINITY };
    for (const target of prewarm.targets) this.#placeTarget(prewarm, target, sum, quota);
    return sum;
  }

  #placeTarget(prewarm: PlannedPrewarm, target: PlannedTarget, sum: Progress, quota: { left: number }): void {
    const { candidates } = target;
    const scored = candidates.nodes.map((node) => ({ node, state: this.#nodeState(target, node) }));
    scored.sort((a, b) => score(b.state) - score(a.state));
    const picks = scored.slice(0, candidates.needed);
    if (prewarm.keep) {
      // A node that failed stays covered until enough others are warm: dropping it would forget that it failed. One that is
      // not Ready stays too: a flap must not cost its copy.
      const short = picks.length < candidates.needed || picks.some((p) => p.state.kind !== 'warm');
      const others = short ? scored.slice(candidates.needed).filter((s) => s.state.kind === 'failed') : [];
      for (const { node } of [...picks, ...others]) this.#keep(target, node);
      for (const node of candidates.unready) this.#keep(target, node);
      for (const pick of picks) this.#begin(prewarm, target, pick.node, { sum, quota });
    }
    this.#count(
      target,
      picks.map((p) => p.node),
      sum,
    );
    this.#countFailed(
      target,
      scored.map((s) => s.node),
      sum,
    );
    missing(target, candidates.needed - picks.length, sum);
    sum.desired += candidates.needed;
  }

  #state(puller: Puller, node: NodeFacts): PullState {
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

  #nodeState(target: PlannedTarget, node: NodeFacts): NodeState {
    const states = target.pullers.map((p) => this.#state(p, node).state);
    const warm = states.filter((s) => s === 'warm').length;
    if (states.includes('failed')) return { kind: 'failed', warm };
    if (target.complete && warm === states.length) return { kind: 'warm', warm };
    return { kind: states.includes('pulling') ? 'pulling' : 'pending', warm };
  }

  /** Keeps what is there on a node: warm copies from garbage collection, failures from being forgotten. */
  #keep(target: PlannedTarget, node: NodeFacts): void {
    for (const puller of target.pullers) {
      if ((this.#world.pulls.get(puller.hash)?.get(node.name) ?? ABSENT).state !== 'absent') this.#grant(puller, node.name);
    }
  }

  /** Begins the first image that is missing on the node, if every limit agrees. */
  #begin(
    prewarm: PlannedPrewarm,
    target: PlannedTarget,
    node: NodeFacts,
    tally: { sum: Progress; quota: { left: number } },
  ): void {
    const states = target.pullers.map((puller) => ({ puller, state: this.#state(puller, node) }));
    if (states.some((s) => s.state.state === 'pulling')) tally.quota.left -= 1;
    const next = states.find((s) => s.state.state === 'absent');
    if (!prewarm.mayPull || next === undefined) return;
    const refusal = this.#meter.refusal(next.puller, node.name) ?? this.#rampRefusal(prewarm, next.puller, tally.quota.left);
    if (refusal !== undefined) {
      // What a whole prewarm waits for is more telling than what one of its nodes does.
      if (tally.sum.waitsFor === undefined || tally.sum.waitsFor === 'node') tally.sum.waitsFor = refusal;
      return;
    }
    this.#meter.count(next.puller, node.name);
    this.#grant(next.puller, node.name);
    tally.quota.left -= 1;
    const begun = this.#begun.get(next.puller.hash) ?? new Map<string, PullState>();
    begun.set(node.name, { state: 'pulling', inFlight: true });
    this.#begun.set(next.puller.hash, begun);
  }

  #rampRefusal(prewarm: PlannedPrewarm, puller: Puller, left: number): 'ramp' | 'failure' | undefined {
    if (left <= 0) return 'ramp';
    const window = pullWindow(prewarm.rampUp, this.#world.pulls.get(puller.hash)?.values() ?? []);
    if (window === 0) return 'failure';
    return this.#meter.inFlight(puller) < window ? undefined : 'ramp';
  }

  #grant(puller: Puller, node: string): void {
    const grant = this.grants.get(puller.hash) ?? { puller, nodes: new Set<string>() };
    grant.nodes.add(node);
    this.grants.set(puller.hash, grant);
  }

  #count(target: PlannedTarget, picks: readonly NodeFacts[], sum: Progress): void {
    for (const node of picks) {
      sum[this.#nodeState(target, node).kind] += 1;
      for (const puller of target.pullers) {
        const { state, since, tookMs } = this.#state(puller, node);
        if (state === 'pulling' && since !== undefined) sum.runningSince.push(since);
        if (tookMs !== undefined) sum.seenMs.push(tookMs);
      }
    }
  }

  #countFailed(target: PlannedTarget, nodes: readonly NodeFacts[], sum: Progress): void {
    for (const node of nodes) {
      for (const puller of target.pullers) {
        const { state, reason, message } = this.#state(puller, node);
        if (state === 'failed' && reason !== undefined)
          sum.failures.push({ node: node.name, image: puller.image, reason, message: message ?? reason });
      }
    }
  }
}

interface NodeState {
  kind: 'warm' | 'pulling' | 'pending' | 'failed';
  /** Images that are warm already. */
  warm: number;
}

/** Nodes that are nearest to being warm come first; sort is stable, so equals stay in the order of their names. */
function score({ kind, warm }: NodeState): number {
  return { warm: 3000, pulling: 2000, pending: 1000, failed: 0 }[kind] + warm;
}

/** Nodes that are needed and cannot be picked: unready ones, named ones that are absent or out. They stand in the sum as failed. */
function missing(target: PlannedTarget, short: number, sum: Progress): void {
  sum.failed += Math.max(0, short);
  if (short <= 0) return;
  const { candidates, pullers } = target;
  const image = pullers[0]?.image ?? '';
  for (const node of candidates.unready) {
    const why = node.readyMessage === undefined ? '' : `: ${node.readyMessage}`;
    sum.failures.push({ node: node.name, image, reason: 'NodeNotReady', message: `node ${node.name} is not Ready${why}` });
  }
  for (const node of candidates.absent)
    sum.failures.push({ node, image, reason: 'NodeLost', message: `there is no node ${node}` });
  for (const { node, reason } of candidates.refused) {
    sum.failures.push({ node, image, reason: 'NodeNotEligible', message: `node ${node} is not warmed: ${reason}` });
  }
}
