import { formatDuration, formatTime } from '../../api/duration.js';
import type { ReleaseReason } from '../../api/reasons.js';
import type { GateView } from '../../gangs/gates.js';
import { gateEnd } from '../../gangs/gates.js';
import type { CheckSnapshot } from './decide.js';
import { LOOK_MS, neverHeld, pointlessBecause, progressMessage, warmAnswer } from './decide.js';

export interface GateSnapshot extends Pick<CheckSnapshot, 'optIn' | 'hasImages' | 'mode' | 'warmth'> {
  gate: GateView;
  /** Epoch ms from which the gate counts: the creation of the job, or of a Workload that is older; absent until the job was read. */
  countedFrom?: number | undefined;
  /** How long a gate lasts where nobody names a time, ms. */
  gatedMs: number;
}

export type GateDecision =
  /** The job has to be read: its gate counts from its creation on. */
  | { do: 'read' }
  /** Before anything else, so that the gate ends in time with the controller dead. */
  | { do: 'stamp'; deadline: number; message: string }
  | { do: 'remove'; reason: ReleaseReason; message: string }
  /** Look again in so many ms. */
  | { do: 'wait'; after: number };

export type Removal = Extract<GateDecision, { do: 'remove' }>;

/** Another Workload of the same job. */
export interface Group {
  /** What is decided of its gate; absent where it is not gated. */
  decision?: GateDecision;
  /** Too far back in its queue to be warmed now. */
  far: boolean;
}

/** What becomes of our gate on a job (promise P5): it goes when waiting is over, useless, or not wanted. Total and pure. */
export function decideGate(snapshot: GateSnapshot, now: number): GateDecision {
  const ended = endOf(snapshot, now);
  return ended === undefined ? whileItWaits(snapshot, now) : { do: 'remove', ...ended };
}

/** What becomes of a gate for which something has to be waited for: images of its own gang, or other groups of the same job. */
export function whileItWaits(snapshot: GateSnapshot, now: number): GateDecision {
  const { gate, warmth, optIn, gatedMs, countedFrom } = snapshot;
  const over = (why: string): GateDecision => ({
    do: 'remove',
    reason: 'DeadlineExceeded',
    message: `timed out, queued with cold nodes: ${why} with ${progressMessage(warmth, now)}`,
  });
  const holdMs = optIn.holdMs ?? gatedMs;
  // Stamps have whole seconds.
  const limit = countedFrom === undefined ? undefined : Math.floor((countedFrom + holdMs) / 1000) * 1000;
  if (limit !== undefined && now >= limit) return over(`the gate of ${formatDuration(holdMs)} is over`);
  // What the watchdog would end, the controller ends too, whoever wrote the stamp.
  if (gate.deadline !== undefined && now >= gateEnd(gate, gatedMs))
    return over(`the gate was stamped to end by ${formatTime(gate.deadline)}`);
  if (limit === undefined) return { do: 'read' };
  if (gate.deadline !== limit)
    return {
      do: 'stamp',
      deadline: limit,
      message: `waits without quota until its images are warm, until ${formatTime(limit)} at the latest`,
    };
  return { do: 'wait', after: Math.min(LOOK_MS, limit - now) };
}

/** Why the gate has to go whatever time is left. */
function endOf(snapshot: GateSnapshot, now: number): { reason: ReleaseReason; message: string } | undefined {
  const { warmth } = snapshot;
  const never = neverHeld(snapshot);
  if (never !== undefined) return never;
  // No check asks for a share of the nodes here.
  const warm = warmAnswer(warmth, 100);
  if (warm !== undefined) return { reason: 'WarmVerified', message: warm.message };
  const pointless = pointlessBecause({ delayedTopology: false, warmth }, progressMessage(warmth, now));
  return pointless === undefined ? undefined : { reason: 'Hopeless', message: pointless };
}

/** These are about the images of one gang; all other reasons hold for a job whatever its other Workloads say. */
const OF_IMAGES: ReadonlySet<ReleaseReason> = new Set<ReleaseReason>(['WarmVerified', 'Hopeless']);

/**
 * By what the one gate of several groups goes; undefined while it waits for one of them. Kueue copies the list of a LeaderWorkerSet to
 * the Workloads of all its groups, so the first that is warm would let the cold ones go too. Groups that are not warmed yet for their
 * place in the queue are not waited for: they only get on once those before them are let go.
 * @param wanted how many Workloads there are to be, with this one: those that Kueue has not made yet are waited for
 */
export function ofAllGroups(own: Removal, others: readonly Group[], wanted: number): Removal | undefined {
  if (!OF_IMAGES.has(own.reason)) return own;
  if (others.length + 1 < wanted) return undefined;
  const decided = others.flatMap(({ decision, far }) => (decision === undefined || far ? [] : [decision]));
  if (decided.some((d) => d.do !== 'remove')) return undefined;
  return decided.find((d): d is Removal => d.do === 'remove' && d.reason === 'Hopeless') ?? own;
}
