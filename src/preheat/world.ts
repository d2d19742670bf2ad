import { clip } from '../api/conditions.js';
import type { PullMethod } from '../api/puller-spec.js';
import type { NodeFacts } from '../placement/node-facts.js';
import { classifyRejection, withWayOut } from './rejections.js';
import type { Rates } from './deadline.js';
import { hangsAfterMs, pullDeadlineMs } from './deadline.js';
import type { PullState, PullerPod } from './evidence.js';
import { pullState } from './evidence.js';
import type { Standing } from './ownership.js';
import { pullerOfSet } from './ownership.js';
import type { World } from './planner.js';
import { markStalled } from './stall.js';
import type { Puller } from './puller.js';

/** What is kept of a DaemonSet that is labelled as one of pullers. */
export interface PullerSet {
  namespace: string;
  name: string;
  uid: string;
  resourceVersion: string;
  hash: string;
  /** Which part of the nodes of its image it covers. */
  shard: number;
  image: string;
  method: PullMethod;
  runtimeClassName?: string;
  /** Image of the puller program itself. */
  program: string;
  /** Names of its pull secrets, in order. */
  pullSecrets: readonly string[];
  serviceAccountName: string;
  /** UIDs of the ImagePrewarms after the last of which it is collected; none in Harbinger's own namespace. */
  owners: readonly string[];
  /** Whether its Pods may do nothing that pullers do not; see ownership.ts. */
  harmless: boolean;
  /** Of all that its template says, its nodes apart; see backends/daemonset/print.ts. */
  print: string;
  /** Labels by which it knows its Pods; no edit can change them. */
  selector: Readonly<Record<string, string>>;
  nodes: string[];
  /** Those of them that only a write of ours names of which nobody knows whether it was done. */
  doubtful?: readonly string[];
  deleting: boolean;
}

/** A pull whose Pod was deleted in mid-pull by somebody else: it goes on without a Pod to show for it. */
export interface Orphan {
  hash: string;
  node: string;
  puller: Puller;
  /** How much longer it is assumed to run, ms. */
  leftMs: number;
}

export interface WorldInput {
  nodes: readonly NodeFacts[];
  sets: readonly PullerSet[];
  /** How far a set counts. */
  standing: (set: PullerSet) => Standing;
  pods: readonly PullerPod[];
  /** Pods whose set is gone, with what they pull: they count until they are gone, and prove nothing. */
  leftovers: readonly { pod: PullerPod; puller: Puller }[];
  orphans: readonly Orphan[];
  /** Compressed bytes by image, as far as known. */
  bytes: ReadonlyMap<string, number>;
  rates: Rates;
  now: number;
  /** How long this process has known a Pod, by UID, ms by a clock that never jumps. */
  watchedMs: (uid: string) => number;
  /** Harbinger's own. */
  namespace: string;
  /** How long a covered node has been without a Pod, ms. */
  missingForMs: (hash: string, node: string) => number;
  /** Why the DaemonSet controller cannot make Pods, by `namespace/name` of the DaemonSet. */
  rejections: ReadonlyMap<string, string>;
  /** Why the API server refuses the set of a puller, by hash. */
  refused: ReadonlyMap<string, string>;
}

/** The DaemonSet controller makes a Pod within a second or two; after this time something keeps it from doing so. */
export const POD_GRACE_MS = 15_000;

/** Puts together where every image stands on every node; a pure function of what was seen. */
export function buildWorld(input: WorldInput): World {
  const nodes = new Map(input.nodes.map((n) => [n.name, n]));
  const pullers = new Map<string, Puller>();
  const pulls = new Map<string, Map<string, PullState>>();
  const podsBySet = podsByOwner(input.pods);

  for (const set of input.sets) {
    // A set whose label and content disagree was edited by hand; the engine puts it right and it proves nothing until then.
    const counts = input.standing(set) !== 'none';
    const puller = counts ? pullerOfSet(set, input.namespace, input.bytes.get(set.image)) : undefined;
    if (puller === undefined) continue;
    pullers.set(set.hash, puller);
    const states = statesOf(set, puller, { input, nodes, pods: podsBySet.get(`${set.namespace}/${set.uid}`) ?? [] });
    pulls.set(set.hash, merged(pulls.get(set.hash), states));
  }
  addLeftovers(input, nodes, pullers, pulls);
  addOrphans(input, pullers, pulls);
  return { nodes, pulls, pullers, refused: input.refused };
}

/** By namespace and UID of the owner: whom a Pod names as its owner is for everybody to write who may make Pods, in their namespace. */
function podsByOwner(pods: readonly PullerPod[]): Map<string, PullerPod[]> {
  const found = new Map<string, PullerPod[]>();
  for (const pod of pods) {
    // A set has no UID yet while it is in doubt whether it was made.
    if (pod.ownerUid === undefined) continue;
    const key = `${pod.namespace}/${pod.ownerUid}`;
    const known = found.get(key);
    if (known === undefined) found.set(key, [pod]);
    else known.push(pod);
  }
  return found;
}

function statesOf(
  set: PullerSet,
  puller: Puller,
  seen: { input: WorldInput; nodes: ReadonlyMap<string, NodeFacts>; pods: readonly PullerPod[] },
): Map<string, PullState> {
  const { input, nodes } = seen;
  const states = new Map<string, PullState>();
  const deadlineMs = pullDeadlineMs(puller.bytes, input.rates);
  for (const pod of seen.pods) {
    const state = pullState(puller, pod, nodes.get(pod.node), {
      now: input.now,
      deadlineMs,
      watchedMs: input.watchedMs(pod.uid),
    });
    states.set(pod.node, better(states.get(pod.node), state));
  }
  if (set.deleting || input.standing(set) === 'pods') return states;
  const doubtful = new Set(set.doubtful);
  for (const node of set.nodes) {
    const known = states.get(node);
    if (known !== undefined && known.state !== 'absent') continue;
    const exists = nodes.has(node);
    // Nobody owes it a Pod before it is known that the write was done.
    states.set(node, exists && doubtful.has(node) ? IN_DOUBT : withoutPod(set, node, { input, exists }));
  }
  markStalled(states, puller.bytes, { rates: input.rates, now: input.now });
  return states;
}

const IN_DOUBT: PullState = { state: 'pulling', inFlight: true, doubtful: true };

/** What all sets of one puller say together. */
function merged(a: ReadonlyMap<string, PullState> = new Map(), b: ReadonlyMap<string, PullState>): Map<string, PullState> {
  const all = new Map(a);
  for (const [node, state] of b) all.set(node, better(all.get(node), state));
  return all;
}

/** A node has two Pods of a set for a moment while one of them goes; the one that proves more counts, a flowing pull stays flowing. */
function better(a: PullState | undefined, b: PullState): PullState {
  if (a === undefined) return b;
  const weight = (s: PullState): number => ({ warm: 3, pulling: 2, failed: 1, absent: 0 })[s.state];
  const winner = weight(b) > weight(a) ? b : a;
  return { ...winner, inFlight: winner.state !== 'warm' && (a.inFlight || b.inFlight) };
}

/** A covered node without a Pod: about to pull, unless the Pod has been overdue for too long. */
function withoutPod(set: PullerSet, node: string, facts: { input: WorldInput; exists: boolean }): PullState {
  if (!facts.exists)
    return { state: 'failed', inFlight: false, reason: 'NodeLost', message: `node ${node} does not exist any more` };
  if (facts.input.missingForMs(set.hash, node) < POD_GRACE_MS) return { state: 'pulling', inFlight: true };
  const told = facts.input.rejections.get(`${set.namespace}/${set.name}`);
  const why = told ?? 'see the events of the DaemonSet';
  return {
    state: 'failed',
    // The controller of DaemonSets may be away only, and makes all that it owes at once when it returns. Where it says why it makes
    // none, the cause is in the set's namespace, which must not take the places of all others for as long as it lasts.
    inFlight: told === undefined,
    mayBegin: true,
    overdue: true,
    reason: told === undefined ? 'NoPod' : classifyRejection(told),
    message: clip(`DaemonSet ${set.namespace}/${set.name} gets no Pod on node ${node}: ${withWayOut(why)}`),
  };
}

function addLeftovers(
  input: WorldInput,
  nodes: ReadonlyMap<string, NodeFacts>,
  pullers: Map<string, Puller>,
  pulls: Map<string, Map<string, PullState>>,
): void {
  for (const { pod, puller } of input.leftovers) {
    const deadlineMs = pullDeadlineMs(puller.bytes, input.rates);
    const watchedMs = input.watchedMs(pod.uid);
    // A node that died, or its tenant, may keep one from going for ever.
    if (watchedMs >= hangsAfterMs(deadlineMs)) continue;
    const judged = pullState(puller, pod, nodes.get(pod.node), { now: input.now, deadlineMs, watchedMs });
    const { inFlight } = judged;
    // A kubelet that comes back ends a Pod that is being deleted.
    const mayBegin = judged.mayBegin === true && !pod.deleting;
    if (!inFlight && !mayBegin) continue;
    const states = pulls.get(puller.hash) ?? new Map<string, PullState>();
    const state: PullState = { state: 'absent', inFlight, ...(mayBegin ? { mayBegin } : {}) };
    states.set(pod.node, better(states.get(pod.node), state));
    pulls.set(puller.hash, states);
    if (!pullers.has(puller.hash)) pullers.set(puller.hash, puller);
  }
}

function addOrphans(input: WorldInput, pullers: Map<string, Puller>, pulls: Map<string, Map<string, PullState>>): void {
  for (const { hash, node, puller, leftMs } of input.orphans) {
    if (leftMs <= 0) continue;
    const states = pulls.get(hash) ?? new Map<string, PullState>();
    const known = states.get(node);
    if (known === undefined || known.state === 'absent') states.set(node, { state: 'absent', inFlight: true });
    pulls.set(hash, states);
    if (!pullers.has(hash)) pullers.set(hash, puller);
  }
}
