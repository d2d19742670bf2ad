import { formatDuration, formatTime } from '../../api/duration.js';
import type { ReleaseReason } from '../../api/reasons.js';
import type { GateView } from '../../gangs/gates.js';
import { gateEnd } from '../../gangs/gates.js';
import type { CheckSnapshot } from './decide.js';
import { LOOK_MS, neverHeld, pointlessBecause, progressMessage, warmAnswer } from './decide.js';

export interface GateSnapshot extends Pick<CheckSnapshot, 'optIn' | 'hasImages' | 'mode' | 'warmth'> {
  gate: GateView;
  /** Epoch ms of the creation of the job; absent until it was read. */
  jobCreatedAt?: number | undefined;
  /** How long a gate lasts where nobody names a time, ms. */
  gatedMs: number;
}

export type GateDecision =
  /** The job has to be read: its gate counts from its creation. */
  | { do: 'read' }
  /** Before anything else, so that the gate ends in time with the controller dead. */
  | { do: 'stamp'; deadline: number; message: string }
  | { do: 'remove'; reason: ReleaseReason; message: string }
  /** Look again in so many ms. */
  | { do: 'wait'; after: number };

/** What becomes of our gate on a job (promise P5): it goes when waiting is over, useless, or not wanted. Total and pure. */
export function decideGate(snapshot: GateSnapshot, now: number): GateDecision {
  const { gate, warmth, optIn, gatedMs, jobCreatedAt } = snapshot;
  const ended = endOf(snapshot, now);
  if (ended !== undefined) return { do: 'remove', ...ended };
  const over = (why: string): GateDecision => ({
    do: 'remove',
    reason: 'DeadlineExceeded',
    message: `timed out, queued with cold nodes: ${why} with ${progressMessage(warmth, now)}`,
  });
  const holdMs = optIn.holdMs ?? gatedMs;
  // Stamps have whole seconds.
  const limit = jobCreatedAt === undefined ? undefined : Math.floor((jobCreatedAt + holdMs) / 1000) * 1000;
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
