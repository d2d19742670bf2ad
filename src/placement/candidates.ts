import type { LabelSelector } from '../api/label-selector.js';
import { selectorProblem, selectorTest } from '../api/label-selector.js';
import type { PrewarmTarget } from '../api/kinds/image-prewarm.js';
import { wantedOf } from './filters/capacity.js';
import { NODE_FILTERS } from './filters/index.js';
import type { NodeDemand } from './filters/index.js';
import { isTooLarge } from './filters/node-affinity.js';
import type { NodeFacts } from './node-facts.js';
import type { RuntimeClassFacts } from './capability.js';
import type { NodeUsage } from './usage.js';

export interface Candidates {
  /** Nodes that may be warmed for the target, by name. */
  nodes: NodeFacts[];
  /** Nodes that would be among them were they Ready. */
  unready: NodeFacts[];
  /** How many nodes have to be warm, never more than there are. */
  needed: number;
  /** Named nodes of the spec that do not exist. */
  absent: string[];
  /** Named nodes that exist and are out, with the reason. */
  refused: { node: string; reason: string }[];
  /** How many nodes each reason keeps out, for the message when nothing is left. */
  reasons: Record<string, number>;
  /** Nodes on which other Pods start cold or a gang computes, by name: `pull.busyNodes: Avoid` begins no pull there. */
  busy?: ReadonlySet<string>;
  /** The spec cannot be evaluated. */
  problem?: string;
}

export interface CandidateOptions {
  allow?: LabelSelector | undefined;
  exclude?: LabelSelector | undefined;
  /** Requests of one Pod of the target with its overhead, where a gang is known. */
  requests?: Readonly<Record<string, number>> | undefined;
  /** Nodes to warm beyond those needed. */
  spare?: number;
  /** What runs on nodes now: those with room for a Pod come first. Absent: they come in the order of their names. */
  usage?: Pick<NodeUsage, 'roomFor'> | undefined;
  /** Its selector and tolerations are added to Pods of the target when they are made. */
  runtimeClass?: RuntimeClassFacts | undefined;
  busy?: ReadonlySet<string> | undefined;
  /** Its affinity is not weighed, and every node counts as one that it selects: there is no time for it in this plan. */
  anyNode?: boolean;
}

/** The terms, unless there is no time for them. */
function weighed(terms: NodeDemand['affinity'], { anyNode }: CandidateOptions): NodeDemand['affinity'] {
  return terms === undefined || anyNode === true || isTooLarge(terms) ? undefined : terms;
}

function demandOf(target: PrewarmTarget, options: CandidateOptions): NodeDemand {
  const { names } = target.nodes;
  const affinity = weighed(target.nodes.affinity, options);
  // Beyond what nodes have, names can be many; what is asked nothing of is asked of nobody.
  const requests = Object.fromEntries(Object.entries(options.requests ?? {}).filter(([, quantity]) => quantity > 0));
  const { runtimeClass } = options;
  const tolerations = [...(target.tolerations ?? []), ...(runtimeClass?.tolerations ?? [])];
  return {
    // Who names nodes has decided; what remains is the operator's exclusion, health and capacity.
    ...(names === undefined ? { tolerations } : {}),
    ...(affinity === undefined ? {} : { affinity }),
    ...(runtimeClass?.nodeSelector === undefined ? {} : { nodeSelector: runtimeClass.nodeSelector }),
    requests,
    wanted: wantedOf(requests),
    ...(options.allow === undefined ? {} : { allow: options.allow }),
    ...(options.exclude === undefined ? {} : { exclude: options.exclude }),
  };
}

/**
 * The nodes on which the images of a target have to be: those that its Pods may land on, and how many of them. One-sided: a
 * node that the scheduler could choose is always inside, one that it would not choose may be.
 * @param nodes every node of the cluster; the order of the answer is by name and so the same after a restart
 */
export function candidates(target: PrewarmTarget, nodes: readonly NodeFacts[], options: CandidateOptions = {}): Candidates {
  const { names, selector } = target.nodes;
  const answer: Candidates = { nodes: [], unready: [], needed: 0, absent: [], refused: [], reasons: {} };
  const problem = selectorProblem(selector);
  if (problem !== undefined) return { ...answer, problem: `target "${target.name}": nodes.selector: ${problem}` };

  const named = names === undefined ? undefined : new Set(names);
  const isSelected = selectorTest(selector);
  const inScope = nodes.filter((n) => (named === undefined ? isSelected(n.labels) : named.has(n.name)));
  const demand = demandOf(target, options);
  for (const node of inScope) {
    const reason = NODE_FILTERS.map((filter) => filter(node, demand)).find((r) => r !== undefined);
    if (reason === undefined) (node.ready ? answer.nodes : answer.unready).push(node);
    else refuse(answer, { node: node.name, reason }, named !== undefined);
  }
  const present = new Set(inScope.map((n) => n.name));
  answer.absent = [...(named ?? [])].filter((n) => !present.has(n)).sort();
  for (const list of [answer.nodes, answer.unready]) list.sort((a, b) => (a.name < b.name ? -1 : 1));
  if (options.usage !== undefined) rank(answer.nodes, options.usage, demand.requests);
  if (options.busy !== undefined) answer.busy = options.busy;
  answer.needed = neededOf(target, answer, options.spare ?? 0);
  return answer;
}

/** Nodes that take a Pod now first, then those that will soon, then those that lack least; equals stay in the order of their names. */
function rank(nodes: NodeFacts[], usage: Pick<NodeUsage, 'roomFor'>, requests: Readonly<Record<string, number>>): void {
  const room = new Map(nodes.map((node) => [node.name, usage.roomFor(node, requests)]));
  const value = ({ name }: NodeFacts): number => {
    const { class: nearness, missing } = room.get(name) ?? { class: 2, missing: 1 };
    return nearness < 2 ? nearness : 2 + missing;
  };
  nodes.sort((a, b) => value(a) - value(b));
}

function refuse(answer: Candidates, refusal: { node: string; reason: string }, named: boolean): void {
  answer.reasons[refusal.reason] = (answer.reasons[refusal.reason] ?? 0) + 1;
  if (named) answer.refused.push(refusal);
}

/** Named nodes count whether they can be warmed or not, so that a bad name shows as failed instead of vanishing from the sum. */
function neededOf({ nodes: { names, count } }: PrewarmTarget, { nodes, unready }: Candidates, spare: number): number {
  const most = names === undefined ? nodes.length + unready.length : new Set(names).size;
  return Math.min((count ?? most) + spare, most);
}
