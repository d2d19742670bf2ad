import type { FailureReason } from '../api/reasons.js';
import { COMMON_FAILURES } from '../api/reasons.js';
import type { Candidates } from '../placement/candidates.js';
import type { NodeFacts } from '../placement/node-facts.js';
import type { Limits, Refusal } from './budgets.js';
import { Meter } from './budgets.js';
import type { Kind, NodeStanding } from './board.js';
import { Board, pick } from './board.js';
import type { PullState } from './evidence.js';
import type { Puller } from './puller.js';
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
  /** Whether Pods are going to take its nodes, so that gangs behind it had better be warm on others. */
  occupies?: boolean | undefined;
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
  /** Pullers, `tenant's namespace or nothing/hash`, of which nothing can begin before Pods of a set that is gone are gone too. */
  awaited?: ReadonlySet<string>;
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
  waitsFor?: Refusal | 'ramp' | 'failure' | 'busy' | 'collection';
  /** Start times of the pulls that run, epoch ms. */
  runningSince: number[];
  /** How long finished pulls took, ms. */
  seenMs: number[];
  /** The pull that has run longest; what a person looks at who waits for the last nodes. */
  slowest?: { node: string; since: number };
  /** An image that no node gets, by a failure that all nodes meet alike: the rest of the pulls cannot help any more. */
  lost?: PlannedFailure | undefined;
}

export interface Plan {
  /** Hash of the puller -> nodes that its DaemonSet is to cover; a puller that is absent is to be deleted. */
  grants: Map<string, { puller: Puller; nodes: Set<string> }>;
  progress: Map<string, Progress>;
}

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
  const line = [...prewarms].sort(byRank);
  planner.charge(line);
  const progress = new Map<string, Progress>();
  for (const prewarm of line) progress.set(prewarm.key, planner.place(prewarm));
  return { grants: planner.grants, progress };
}

class Planner {
  readonly grants: Plan['grants'] = new Map();
  readonly #world: World;
  readonly #meter: Meter;
  readonly #board: Board;
  /** Nodes that gangs further ahead are going to occupy. */
  readonly #taken = new Set<string>();
  /** Pulls, `hash/node`, that go on without a Pod of a set that is there. */
  readonly #bare = new Set<string>();

  constructor(world: World, limits: Limits) {
    this.#world = world;
    this.#meter = new Meter(limits);
    this.#board = new Board(world);
    for (const [hash, states] of world.pulls) {
      const puller = world.pullers.get(hash);
      if (puller === undefined) continue;
      for (const [node, state] of states) {
        if (state.inFlight && state.state === 'absent') this.#bare.add(`${hash}/${node}`);
        if (state.inFlight) this.#meter.count(puller, node);
        else if (state.mayBegin === true) this.#meter.expect(puller);
        if (state.inFlight && state.state === 'pulling' && state.doubtful !== true) this.#grant(puller, node);
      }
    }
  }

  /**
   * Counts pulls under way for the namespace of whoever is first in the line to be warm with them; one that is not counted on any
   * more, because it stalls or its node failed, for the first that could be. A pull that nobody wants is of no namespace.
   */
  charge(line: readonly PlannedPrewarm[]): void {
    if (!this.#meter.limitsNamespaces) return;
    const charged = new Set<string>();
    for (const which of ['picked', 'possible'] as const) {
      for (const { namespace, keep, targets, busyNodes } of line) {
        if (namespace === undefined || !keep) continue;
        for (const target of targets) {
          const standing = this.#board.standing(target, busyNodes === 'Avoid');
          const nodes = which === 'picked' ? standing.nodes.slice(0, target.candidates.needed) : standing.nodes;
          this.#charge(target, nodes, { namespace, charged });
        }
      }
    }
  }

  #charge(
    { pullers }: PlannedTarget,
    nodes: readonly NodeStanding[],
    { namespace, charged }: { namespace: string; charged: Set<string> },
  ): void {
    for (const puller of pullers) {
      const states = this.#meter.hasAny(puller) ? this.#world.pulls.get(puller.hash) : undefined;
      if (states === undefined) continue;
      for (const { node } of nodes) {
        const pull = `${puller.hash}/${node.name}`;
        const { inFlight = false, mayBegin = false } = states.get(node.name) ?? {};
        if ((!inFlight && !mayBegin) || charged.has(pull)) continue;
        charged.add(pull);
        this.#meter.charge(namespace, puller, inFlight);
      }
    }
  }

  place(prewarm: PlannedPrewarm): Progress {
    const sum: Progress = { desired: 0, warm: 0, pulling: 0, pending: 0, failed: 0, failures: [], runningSince: [], seenMs: [] };
    const chosen = prewarm.targets.map((target) => ({ target, ...this.#choose(prewarm, target) }));
    const pulls = chosen.reduce((n, c) => n + c.picks.filter((p) => p.kind === 'pulling' || p.kind === 'stalled').length, 0);
    const quota = { left: (prewarm.maxConcurrentNodes ?? Number.POSITIVE_INFINITY) - pulls };
    const tally = { sum, quota };
    for (const { target, picks, troubled } of chosen) {
      if (prewarm.keep) this.#hold(prewarm, target, { picks, troubled });
      if (prewarm.keep && prewarm.mayPull)
        for (const one of this.#bareLast(target, picks)) this.#begin(prewarm, target, one, tally);
      this.#count(target, picks, sum);
      this.#countFailed(target, troubled, sum);
      missing(target, target.candidates.needed - picks.length, sum);
      sum.desired += target.candidates.needed;
    }
    return sum;
  }

  #choose(
    { mayPull, occupies, busyNodes }: PlannedPrewarm,
    target: PlannedTarget,
  ): { picks: readonly NodeStanding[]; troubled: readonly NodeStanding[] } {
    const standing = this.#board.standing(target, busyNodes === 'Avoid');
    // Where nothing begins it is all the same which of the untouched nodes are counted.
    const picks = pick(standing, target.candidates.needed, mayPull ? this.#taken : NONE);
    if (mayPull && occupies === true) for (const { node } of picks) this.#taken.add(node.name);
    return { picks, troubled: standing.troubled };
  }

  /** Keeps what is there on the nodes: warm copies from garbage collection, failures from being forgotten. */
  #hold(
    { mayPull }: PlannedPrewarm,
    target: PlannedTarget,
    { picks, troubled }: { picks: readonly NodeStanding[]; troubled: readonly NodeStanding[] },
  ): void {
    // A node that failed stays covered until enough others are warm: dropping it would forget that it failed. One that is
    // not Ready stays too: a flap must not cost its copy.
    const short = picks.length < target.candidates.needed || picks.some((p) => p.kind !== 'warm');
    const others = short ? troubled.filter((s) => s.kind === 'failed') : [];
    for (const { node } of [...picks, ...others]) this.#keep(target, node, mayPull);
    for (const node of target.candidates.unready) this.#keep(target, node, mayPull);
  }

  #keep(target: PlannedTarget, node: NodeFacts, mayPull: boolean): void {
    for (const puller of target.pullers)
      if (this.#board.isKept(puller, node.name, mayPull) && !this.#board.isIdly(puller, node.name))
        this.#grant(puller, node.name);
  }

  /** Others go first: a pull whose Pod is gone may be one that hangs. */
  #bareLast({ pullers }: PlannedTarget, picks: readonly NodeStanding[]): readonly NodeStanding[] {
    if (this.#bare.size === 0) return picks;
    const isBare = ({ node }: NodeStanding): boolean => pullers.some((p) => this.#bare.has(`${p.hash}/${node.name}`));
    return [...picks.filter((p) => !isBare(p)), ...picks.filter(isBare)];
  }

  /** Begins the first image that is missing on the node, if every limit agrees. */
  #begin(
    prewarm: PlannedPrewarm,
    target: PlannedTarget,
    { node, kind }: NodeStanding,
    tally: { sum: Progress; quota: { left: number } },
  ): void {
    if (kind === 'warm') return;
    const next = target.pullers.find((p) => this.#board.state(p, node).state === 'absent');
    if (next === undefined) return;
    // Where just this is pulled already one more Pod begins nothing.
    const flows = this.#bare.has(`${next.hash}/${node.name}`);
    const refusal =
      this.#waitOf(next, kind) ??
      this.#meter.refusal(next, node.name, { namespace: prewarm.namespace, counted: flows }) ??
      this.#rampRefusal(prewarm, next, tally.quota.left);
    if (refusal !== undefined) {
      // What a whole prewarm waits for is more telling than what one of its nodes does.
      if (tally.sum.waitsFor === undefined || OF_ONE_NODE.has(tally.sum.waitsFor)) tally.sum.waitsFor = refusal;
      return;
    }
    if (!flows) this.#take(next, node.name, prewarm.namespace);
    this.#grant(next, node.name);
    this.#board.begin(next, node.name);
    tally.quota.left -= 1;
  }

  #waitOf({ hash, tenant }: Puller, kind: Kind): 'busy' | 'collection' | undefined {
    if (kind === 'busy') return 'busy';
    return this.#world.awaited?.has(`${tenant?.namespace ?? ''}/${hash}`) === true ? 'collection' : undefined;
  }

  #take(puller: Puller, node: string, namespace: string | undefined): void {
    this.#meter.count(puller, node);
    if (namespace !== undefined) this.#meter.charge(namespace, puller);
  }

  #rampRefusal(prewarm: PlannedPrewarm, puller: Puller, left: number): 'ramp' | 'failure' | undefined {
    if (left <= 0) return 'ramp';
    const room = this.#board.room(prewarm.rampUp, puller);
    if (room === 'none') return 'failure';
    return room > 0 ? undefined : 'ramp';
  }

  #grant(puller: Puller, node: string): void {
    const grant = this.grants.get(puller.hash) ?? { puller, nodes: new Set<string>() };
    grant.nodes.add(node);
    this.grants.set(puller.hash, grant);
  }

  #count(target: PlannedTarget, picks: readonly NodeStanding[], sum: Progress): void {
    for (const { node, kind } of picks) {
      const states = target.pullers.map((p) => this.#board.state(p, node));
      // What this plan began, for this target or for another one with the same image, is under way now.
      const begun = (kind === 'pending' || kind === 'busy') && states.some((s) => s.state === 'pulling');
      sum[begun ? 'pulling' : SUM[kind]] += 1;
      for (const { state, since, tookMs } of states) {
        if (state === 'pulling' && since !== undefined) noteRunning(sum, node.name, since);
        if (tookMs !== undefined) sum.seenMs.push(tookMs);
      }
    }
  }

  #countFailed(target: PlannedTarget, troubled: readonly NodeStanding[], sum: Progress): void {
    for (const { node } of troubled) {
      for (const puller of target.pullers) {
        const { state, reason, message, stalled } = this.#board.state(puller, node);
        const failure = { node: node.name, image: puller.image };
        if (stalled !== undefined) sum.failures.push({ ...failure, reason: 'Stalled', message: stalled });
        else if (state === 'failed' && reason !== undefined)
          sum.failures.push({ ...failure, reason, message: message ?? reason });
      }
    }
    // What is under way for other images does not help the Pods of one that fails on all nodes alike.
    const shut = target.pullers.filter((p) => this.#board.failsEverywhere(p)).map((p) => p.image);
    sum.lost ??= sum.failures.find((f) => shut.includes(f.image) && COMMON_FAILURES.has(f.reason));
  }
}

function noteRunning(sum: Progress, node: string, since: number): void {
  sum.runningSince.push(since);
  if (since < (sum.slowest?.since ?? Number.POSITIVE_INFINITY)) sum.slowest = { node, since };
}

const NONE: ReadonlySet<string> = new Set();

/** What keeps one node of a prewarm from pulling, and not all of them. */
const OF_ONE_NODE: ReadonlySet<string> = new Set(['node', 'busy']);

/** Which sum a node counts for. A stalled pull is one until it ends; that it hangs is told among the failures. */
const SUM: Record<Kind, 'warm' | 'pulling' | 'pending' | 'failed'> = {
  warm: 'warm',
  pulling: 'pulling',
  stalled: 'pulling',
  pending: 'pending',
  busy: 'pending',
  failed: 'failed',
};

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
