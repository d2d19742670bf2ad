import { clip } from '../api/conditions.js';
import { formatDuration } from '../api/duration.js';
import type { FailureReason } from '../api/reasons.js';
import type { NodeFacts } from '../placement/node-facts.js';
import { hangsAfterMs } from './deadline.js';
import { classifyEnd, classifyPullError, classifyUnplaced, isPutOff } from './pull-errors.js';
import type { Puller } from './puller.js';

/** What the proof needs of a puller Pod. */
export interface PullerPod {
  namespace: string;
  name: string;
  uid: string;
  /** Hash of the puller, from the label. */
  hash: string;
  /** UID of the DaemonSet that controls the Pod. */
  ownerUid?: string;
  /** Node on which it runs or is meant to run. */
  node: string;
  /** Reference of the image volume. */
  image?: string;
  runtimeClassName?: string;
  /** Epoch ms. */
  createdAt: number;
  deleting: boolean;
  phase: string;
  /** Pod-level reason and message: rejected by the kubelet, evicted. */
  reason?: string;
  message?: string;
  /** Names of scheduling gates that hold the Pod. */
  gates: string[];
  /** Why the scheduler does not place it. */
  unschedulable?: string;
  /** What it asks for, such as `cpu 4`; nothing, unless somebody has added that. */
  asks?: string;
  container?: ContainerState;
}

export interface ContainerState {
  /** Epoch ms since when it runs. */
  runningSince?: number;
  started: boolean;
  /** It runs or has run, now or before: its image is there in full, and no bytes flow for it any more. */
  hasRun: boolean;
  waiting?: { reason: string; message: string };
  restarts: number;
  /** Last words of the previous run. */
  lastMessage?: string;
}

/** Where one image stands on one node. */
export interface PullState {
  state: 'absent' | 'pulling' | 'warm' | 'failed';
  /** Whether bytes may be flowing: what budgets count. A failed state can be in flight too (its node went away in mid-pull). */
  inFlight: boolean;
  reason?: FailureReason;
  message?: string;
  /** A failed node on which a pull may begin at any moment without a word from us: its kubelet tries again, or a gate opens. */
  mayBegin?: boolean;
  /** Pulling only if a write was done that got no answer. It counts, and is no reason to do it for nobody. */
  doubtful?: boolean;
  /** Epoch ms since when it is pulling. */
  since?: number;
  /** Why the pull counts as stalled, while it goes on: another node is taken instead where there is one. */
  stalled?: string;
  /** A covered node that gets no Pod, though one may come at any moment. */
  overdue?: boolean;
  /** How long the pull took, once warm. */
  tookMs?: number;
}

const failed = (reason: FailureReason, message: string, inFlight = false): PullState => ({
  state: 'failed',
  inFlight,
  reason,
  message: clip(message),
});

/**
 * Where `puller` stands on a node, judged only by what node and kubelet said (promise P4).
 * Warm = a Pod of the puller on this very node, its volume pinned to the digest, container running and past the startup probe
 * (which looks into the mount), node Ready and not younger than the Pod. Everything else is not warm.
 * @param at `deadlineMs` after which a pull counts as stuck; `watchedMs` for which this process has known the Pod, by a clock that never jumps
 */
export function pullState(puller: Puller, pod: PullerPod, node: NodeFacts | undefined, at: PullTimes): PullState {
  const state = judged(puller, pod, node, at);
  if (state.state !== 'failed' || state.inFlight || node === undefined) return state;
  // A container that ran has its image; a Pod that ended gets a successor on a disk that may have lost it.
  return pod.container?.hasRun !== true || hasEnded(pod) ? { ...state, mayBegin: true } : state;
}

export interface PullTimes {
  now: number;
  deadlineMs: number;
  watchedMs?: number | undefined;
}

function judged(puller: Puller, pod: PullerPod, node: NodeFacts | undefined, at: PullTimes): PullState {
  const age = Math.max(0, at.now - pod.createdAt);
  const mayFlow = pod.container?.hasRun !== true && watched(age, at.watchedMs) < at.deadlineMs;
  const bad = problemOfNode(pod, node, mayFlow) ?? problemOfPod(puller, pod, mayFlow) ?? problemOfPull(pod);
  if (bad !== undefined) return bad;
  const { container } = pod;
  if (container?.runningSince !== undefined) return runningState(pod, container, container.runningSince);
  if (age >= at.deadlineMs) {
    const slow = container?.hasRun !== true && watched(age, at.watchedMs) < hangsAfterMs(at.deadlineMs);
    return failed('TimedOut', `the pull has not ended after ${formatDuration(age)}`, slow);
  }
  return { state: 'pulling', inFlight: mayFlow, since: pod.createdAt };
}

/** Clocks of this process and of the API server may be hours apart: a pull is as old as it was also watched for. */
const watched = (age: number, watchedMs = age): number => Math.min(age, watchedMs);

/** A kubelet that is at work, or about to be: one that begins too many pulls a second puts this one off, and says so as an error. */
function isProgress({ reason, message }: { reason: string; message: string }): boolean {
  return reason === 'ContainerCreating' || reason === 'PodInitializing' || reason === '' || isPutOff(message);
}

function runningState(pod: PullerPod, container: ContainerState, runningSince: number): PullState {
  if (container.started) return { state: 'warm', inFlight: false, tookMs: Math.max(0, runningSince - pod.createdAt) };
  if (container.restarts > 0)
    return failed('EmptyImage', container.lastMessage ?? 'the mounted image is empty or cannot be read');
  return { state: 'pulling', inFlight: false, since: pod.createdAt };
}

/**
 * How far the clock of a kubelet, which says when a container started, may be ahead of the API server's, which says when a node
 * joined, ms: by less than this a start on the machine before could look like one on its successor.
 */
const CLOCK_SKEW_MS = 300_000;

function problemOfNode(pod: PullerPod, node: NodeFacts | undefined, mayFlow: boolean): PullState | undefined {
  if (node === undefined) return failed('NodeLost', `node ${pod.node} does not exist any more`);
  // A node of the same name that joined after the Pod was made is another machine with an empty disk; where the old Pod object is
  // still there its kubelet starts it anew, and a start well after the joining is of this machine.
  const runningSince = pod.container?.runningSince ?? Number.NEGATIVE_INFINITY;
  if (node.createdAt > pod.createdAt && runningSince < node.createdAt + CLOCK_SKEW_MS)
    return failed('NodeLost', `node ${pod.node} was replaced; the puller belongs to the one before`);
  if (!node.ready)
    return failed('NodeNotReady', `node ${pod.node} is not Ready${node.readyMessage ? `: ${node.readyMessage}` : ''}`, mayFlow);
  return undefined;
}

const hasEnded = ({ phase }: PullerPod): boolean => phase === 'Failed' || phase === 'Succeeded';

function problemOfPod(puller: Puller, pod: PullerPod, mayFlow: boolean): PullState | undefined {
  // A kubelet ends the container before the Pod goes: not running then does not mean that it still pulls.
  if (pod.deleting) return { state: 'absent', inFlight: pod.container?.hasRun !== true };
  if (pod.image !== puller.image) {
    return failed('DigestMismatch', `puller Pod ${pod.name} mounts ${pod.image ?? 'no image volume'} instead of ${puller.image}`);
  }
  if (pod.gates.length > 0) return failed('Gated', gatedMessage(pod.gates, pod.namespace));
  if (hasEnded(pod)) {
    const words = [pod.reason, pod.message].filter(Boolean).join(': ');
    const reason = classifyEnd(pod.reason);
    // A Pod's end does not stop its pull. A kubelet that refuses a Pod at the door says nothing of its containers.
    const begun = mayFlow && pod.container !== undefined && (reason === 'Evicted' || reason === 'NodeLost');
    return failed(reason, `puller Pod ${pod.name} ended: ${words || pod.phase}`, begun);
  }
  if (pod.unschedulable !== undefined)
    return failed(classifyUnplaced(pod.unschedulable), `puller Pod ${pod.name} cannot be placed: ${pod.unschedulable}`);
  return undefined;
}

function problemOfPull({ container }: PullerPod): PullState | undefined {
  if (container?.waiting === undefined || isProgress(container.waiting)) return undefined;
  const { reason, message } = container.waiting;
  return failed(classifyPullError(reason, message), message === '' ? reason : message);
}

/** Seen: Kueue gates every Pod of a managed namespace; no label on the Pod opts out. */
function gatedMessage(gates: readonly string[], namespace: string): string {
  const kueue = gates.some((g) => g.startsWith('kueue.x-k8s.io/'));
  const way = kueue
    ? `; take namespace ${namespace} out of managedJobsNamespaceSelector of the Kueue configuration, or, where it is a tenant's, give Harbinger a credential for the registry so that pullers stand in its own`
    : '';
  return `puller Pods are held by scheduling gates ${gates.join(', ')}${way}`;
}
