import { formatTime } from '../../api/duration.js';
import { formatDuration } from '../../api/duration.js';
import type { FailureReason, ReadyReason } from '../../api/reasons.js';
import { FAILING_FREE } from '../../preheat/budgets.js';
import type { Rates } from '../../preheat/deadline.js';
import { remainingMs } from '../../preheat/deadline.js';
import type { PlannedFailure, Progress } from '../../preheat/planner.js';
import { wholeWork } from './estimate.js';
import type { Lifecycle } from './lifecycle.js';
import type { RecordUpdate } from './record.js';
import { allWarm, isFrozen, isPinned } from './record.js';
import type { PrewarmSnapshot } from './snapshot.js';

/** What condition Ready says, and whether waiting can still help. */
export interface Verdict {
  ready: boolean;
  reason: ReadyReason;
  message: string;
  /** No wait makes it Ready: a held gang is let go. */
  hopeless: boolean;
  /** Reason of TargetsResolved while images are open. */
  unresolvedReason: string;
}

/** Ready reasons of failures; several failures of a node are told as one. */
const REASON: Record<FailureReason, ReadyReason> = {
  AuthDenied: 'AuthDenied',
  ImageNotFound: 'ImageNotFound',
  PlatformMissing: 'PlatformMissing',
  RegistryError: 'RegistryError',
  InsufficientDisk: 'InsufficientDisk',
  FormatUnreadable: 'PullFailed',
  ImageStoreConflict: 'PullFailed',
  EmptyImage: 'PullFailed',
  PullFailed: 'PullFailed',
  SignatureInvalid: 'PullFailed',
  TimedOut: 'PullFailed',
  Stalled: 'PullFailed',
  NodeNotReady: 'NodeLost',
  NodeLost: 'NodeLost',
  NodeNotEligible: 'NoCandidateNodes',
  Gated: 'PullersGated',
  NoRoom: 'PullersRejected',
  NoPod: 'PullersRejected',
  Evicted: 'PullFailed',
  QuotaExceeded: 'PullersRejected',
  Rejected: 'PullersRejected',
  Unparsable: 'Invalid',
  DigestMismatch: 'PullFailed',
};

/**
 * Failures that may pass by themselves: kubelet and registry try again, a node or a controller that restarts is back within minutes. A
 * hold ends at its time anyway.
 */
const TRANSIENT: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'RegistryError',
  'PullFailed',
  'TimedOut',
  'Evicted',
  'Stalled',
  'NodeNotReady',
  'NoPod',
]);

/** Decides condition Ready from the first thing that stands in the way, in the order in which a person would fix them. */
export function judgeReady(
  snapshot: PrewarmSnapshot,
  record: RecordUpdate,
  { lifecycle, rates }: { lifecycle: Lifecycle; rates: Rates },
): Verdict {
  return (
    spec(snapshot, lifecycle, record) ??
    images(record, snapshot.lookups) ??
    nodes(snapshot) ??
    warm(snapshot, record) ??
    deadline(snapshot, lifecycle) ??
    pulls(snapshot, lifecycle, rates)
  );
}

function no(reason: ReadyReason, message: string, hopeless = false): Verdict {
  return { ready: false, reason, message, hopeless, unresolvedReason: 'Resolving' };
}

function spec(snapshot: PrewarmSnapshot, lifecycle: Lifecycle, record: RecordUpdate): Verdict | undefined {
  const { candidates, prewarm, gang } = snapshot;
  if (candidates.problem !== undefined) return no('Invalid', candidates.problem, true);
  if (lifecycle.why === 'SwitchedOff')
    return no('SwitchedOff', "mode is Off in Harbinger's configuration: nothing is pulled and nobody is held");
  if (lifecycle.why === 'Inactive')
    return no(
      'Suspended',
      `${whyInactive(gang)}; nothing is pulled until it is queued again${lifecycle.keep ? ', and its images are held for a while' : ''}`,
    );
  if (lifecycle.why === 'OptedOut') return no('Finished', 'the gang is not, or no longer, opted in; its images are not held');
  if (!lifecycle.keep) return no('Finished', `${whyFinished(prewarm, gang)}; they are no longer held`);
  const missing = record.targets.some((t) => t.images.some((i) => i.resolved === undefined)) || !allWarm(snapshot);
  return lifecycle.why === 'Suspended' && missing
    ? no('Suspended', 'spec.suspend is true: nothing new is pulled; what is warm stays so')
    : undefined;
}

function whyInactive(gang: PrewarmSnapshot['gang']): string {
  switch (gang?.gang.state.parked) {
    case 'OnHold':
      return 'Kueue has put the Workload of the gang on hold (OnHold: it is scaled to zero, or its job is not valid)';
    case 'WaitingForReplacementPods':
      return 'the group of the gang lacks Pods (WaitingForReplacementPods)';
    default:
      return 'the Workload of the gang is not active (spec.active is false)';
  }
}

function whyFinished({ spec: { gangRef } }: PrewarmSnapshot['prewarm'], gang: PrewarmSnapshot['gang']): string {
  if (gangRef === undefined) return 'the images were warm once and retain is Never';
  return gang === undefined ? 'the gang has no Workload any more' : 'the gang has its images';
}

function images({ targets }: RecordUpdate, lookups: PrewarmSnapshot['lookups']): Verdict | undefined {
  const open = targets.flatMap((t) => t.images).filter((i) => i.resolved === undefined);
  for (const { source } of open) {
    const lookup = lookups.get(source);
    if (lookup === undefined || lookup.ok) continue;
    const reason = REASON[lookup.reason];
    return { ...no(reason, `${source}: ${lookup.message}`, !TRANSIENT.has(lookup.reason)), unresolvedReason: reason };
  }
  return open.length === 0
    ? undefined
    : no(
        'ResolvingImages',
        `looking up ${open
          .map((i) => i.source)
          .slice(0, 3)
          .join(', ')}${open.length > 3 ? ', …' : ''}`,
      );
}

function nodes({ candidates, prewarm, progress }: PrewarmSnapshot): Verdict | undefined {
  const [empty] = candidates.empty;
  if (empty !== undefined) {
    const all = prewarm.spec.gangRef === undefined ? 'the images' : 'Pods of the gang';
    const pods = prewarm.spec.targets.length > 1 ? `Pods of target "${empty}"` : all;
    const why = Object.entries(candidates.reasons).map(([reason, n]) => `${n} nodes: ${reason}`);
    return no('NoCandidateNodes', `no node can take ${pods}${why.length === 0 ? '' : ` (${why.slice(0, 4).join('; ')})`}`, true);
  }
  if (candidates.desired === 0) return { ...no('AllNodesWarm', 'no node has to be warm'), ready: true };
  return progress === undefined ? no('Pending', 'waiting for the first plan') : undefined;
}

/** All nodes are warm; but a tag is only as good as the last look at it. */
function warm(snapshot: PrewarmSnapshot, record: RecordUpdate): Verdict | undefined {
  if (record.held.length + record.moved.length > 0) {
    return no('ImageMoved', changeMessage(record));
  }
  if (!allWarm(snapshot)) return undefined;
  const { prewarm, lookups, progress } = snapshot;
  const sources = prewarm.spec.targets.flatMap((t) => t.images.map((i) => i.reference));
  // A look that failed counts as one: a registry that is away must not hold a warm gang.
  const unseen = isFrozen(snapshot) ? undefined : sources.find((s) => !isPinned(s) && !lookups.has(s));
  if (unseen !== undefined)
    return no('ResolvingImages', `all nodes are warm; looking at ${unseen} once more before the gang goes on`);
  const nodesWarm = `on all ${progress?.desired ?? 0} nodes`;
  const left = leftOutMessage(snapshot);
  // No wait helps: what has no room is pulled by the Pods themselves.
  if (left !== undefined) return no('ImagesLeftOut', `the other images are ${nodesWarm}; ${left}`, true);
  return { ...no('AllNodesWarm', `the images are ${nodesWarm}`), ready: true };
}

/** Images told by name, and characters of each. */
const MAX_LEFT = { images: 3, length: 120 } as const;

/** Which images of the gang nobody warms; undefined where each has its place. */
export function leftOutMessage({ leftOut = [] }: Pick<PrewarmSnapshot, 'leftOut'>): string | undefined {
  if (leftOut.length === 0) return undefined;
  const named = leftOut
    .slice(0, MAX_LEFT.images)
    .map((i) => (i.length > MAX_LEFT.length ? `${i.slice(0, MAX_LEFT.length)}…` : i));
  const more = leftOut.length > named.length ? ', …' : '';
  return `${leftOut.length} images are beyond the limits of an ImagePrewarm (18 podSets, 32 images each, 512 characters) and are not warmed: ${named.join(', ')}${more}`;
}

/** Why a record changes; a variant that is given up is told apart from a tag that moved, since it calls for other action. */
function changeMessage({ held, moved, givenUp }: RecordUpdate): string {
  const tags = [...held, ...moved].filter((source) => !givenUp.has(source));
  const parts = [
    ...(tags.length === 0 ? [] : [`${tags.join(', ')} names other bytes now; they are warmed before the gang goes on`]),
    ...[...givenUp].map(([source, why]) => `the variant of ${source} is not used any more, another image is warmed (${why})`),
  ];
  return parts.join('; ');
}

function deadline({ progress }: PrewarmSnapshot, { why }: Lifecycle): Verdict | undefined {
  if (why !== 'DeadlineExceeded') return undefined;
  return no(
    'DeadlineExceeded',
    `${progress?.warm ?? 0} of ${progress?.desired ?? 0} nodes were warm when the time for it was over`,
    true,
  );
}

function pulls(snapshot: PrewarmSnapshot, lifecycle: Lifecycle, rates: Rates): Verdict {
  const { progress } = snapshot;
  if (progress === undefined) return no('Pending', 'waiting for the first plan');
  const count = `${progress.warm}/${progress.desired} nodes warm`;
  return (
    lost(progress, count) ??
    stuck(progress, count) ??
    queued(lifecycle, snapshot) ??
    observed(lifecycle, snapshot, rates) ??
    waits(progress, { lifecycle, count }) ??
    no('PullingImages', pullingMessage(progress, count))
  );
}

/** An image that no node gets decides, however long the other images of the gang still take: its Pods need all of them. */
function lost({ lost: failure }: Progress, count: string): Verdict | undefined {
  if (failure === undefined) return undefined;
  return no(REASON[failure.reason], `${count}; ${failure.image} on ${failure.node}: ${failure.message}`, true);
}

/** Nothing is under way and what is missing has failed. */
function stuck({ failed, pulling, pending, waitsFor, failures }: Progress, count: string): Verdict | undefined {
  const worst = dominant(failures);
  if (failed === 0 || pulling > 0 || worst === undefined || (pending > 0 && waitsFor !== 'failure')) return undefined;
  const hopeless = failures.every((f) => !TRANSIENT.has(f.reason));
  return no(REASON[worst.reason], `${count}; ${worst.node}: ${worst.message}`, hopeless);
}

/** The gang's turn to pull has not come. */
function queued({ why }: Lifecycle, { gang }: PrewarmSnapshot): Verdict | undefined {
  if (why === 'NotQueued') {
    const found = gang === undefined ? 'its job has no Workload' : `its LocalQueue "${gang.gang.queue}" leads to no ClusterQueue`;
    return no('QueuePosition', `the gang stands in no queue (${found}); pulls begin once it does`);
  }
  if (why !== 'QueuePosition') return undefined;
  // In powers of two: exact numbers would change, and be written, for every gang behind each one that leaves.
  const ahead = 2 ** Math.floor(Math.log2(Math.max(1, gang?.position ?? 1)));
  return no('QueuePosition', `at least ${ahead} gangs of the queue are ahead; pulls begin nearer to its head`);
}

/** What would be done in mode On, so that a trial shows nodes and times without a byte on the wire. */
function observed({ why }: Lifecycle, { progress, prewarm, concurrency }: PrewarmSnapshot, rates: Rates): Verdict | undefined {
  if (why !== 'Observing' || progress === undefined) return undefined;
  const needs = formatDuration(remainingMs(wholeWork(prewarm.status, { prewarm, progress, concurrency }), rates));
  const would = `${progress.desired} nodes would be warm about ${needs} after the first pull`;
  return no('Observing', `mode is Observe in Harbinger's configuration: nothing is pulled and nobody is held; ${would}`);
}

function waits(
  { pulling, pending, waitsFor, failures }: Progress,
  at: { lifecycle: Lifecycle; count: string },
): Verdict | undefined {
  if (pulling > 0) return undefined;
  const worst = waitsFor === 'failure' ? dominant(failures) : undefined;
  // The nodes that failed were replaced, and their failure is why those in their places wait.
  if (worst !== undefined) {
    // A few nodes that nothing mends by itself speak for those in their places. That no Pod comes may be over in a moment.
    const hopeless =
      failures.length >= FAILING_FREE && failures.every((f) => !TRANSIENT.has(f.reason) && f.reason !== 'Rejected');
    return no(REASON[worst.reason], `${at.count}; ${WAITS.failure}; ${worst.node}: ${worst.message}`, hopeless);
  }
  if (waitsFor !== undefined) return no('WaitingForSlot', `${at.count}; ${WAITS[waitsFor]}`);
  return pending > 0 && !at.lifecycle.mayPull ? no('Pending', `${at.count}; no new pulls`) : undefined;
}

function pullingMessage(progress: Progress, count: string): string {
  const { pulling, failed } = progress;
  const slowest = slowestOf(progress);
  return `${count}, ${pulling} pulling${failed > 0 ? `, ${failed} failed` : ''}${slowest === undefined ? '' : `; ${slowest}`}`;
}

/** The node that keeps the others waiting: one that fails, else the one that has pulled longest. Says nothing that changes by itself. */
export function slowestOf({ failed, failures, slowest, warm }: Progress): string | undefined {
  const worst = dominant(failures);
  if (failed > 0 && worst !== undefined) return `${worst.node} fails: ${worst.message}`;
  // Before the first is warm none is slow.
  if (slowest === undefined || warm === 0) return undefined;
  return `slowest node ${slowest.node}: pulling since ${formatTime(slowest.since)}`;
}

const WAITS: Record<NonNullable<Progress['waitsFor']>, string> = {
  cluster: 'waiting until fewer nodes of the cluster pull (budgets.maxPullingNodes)',
  registry: 'waiting until fewer nodes pull from this registry (budgets.maxPullingNodesPerRegistry)',
  namespace: 'waiting until fewer nodes pull for this namespace (budgets.maxPullingNodesPerNamespace)',
  bytes: 'waiting until fewer bytes are pulled for this namespace (budgets.maxPullingGiBPerNamespace)',
  node: 'waiting for pulls that these nodes do for others',
  busy: 'waiting for nodes on which no other Pods start or compute (spec.pull.busyNodes is Avoid)',
  collection: 'waiting until the Pods of an earlier DaemonSet of pullers are deleted (garbage collection), 90 s at most',
  ramp: 'waiting for the nodes before',
  failure: 'too many fail, and no further nodes are tried until one of them succeeds',
};

/** The failure that most nodes share; the first of them is quoted. */
function dominant(failures: readonly PlannedFailure[]): PlannedFailure | undefined {
  const counts = new Map<FailureReason, number>();
  for (const f of failures) counts.set(f.reason, (counts.get(f.reason) ?? 0) + 1);
  const [most] = [...counts].sort((a, b) => b[1] - a[1]);
  return failures.find((f) => f.reason === most?.[0]);
}
