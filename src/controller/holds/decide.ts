import { formatDuration, formatTime } from '../../api/duration.js';
import type { HoldView } from '../../gangs/hold.js';
import { validDeadline } from '../../gangs/hold.js';
import { isEnough } from './enough.js';
import type { OptIn } from '../../gangs/opt-in.js';

/** What is known of the images of a gang; absent where there is no ImagePrewarm (yet). */
export interface Warmth {
  /** Condition Ready of the ImagePrewarm. */
  ready: boolean;
  /** All of this is about its present generation, and nothing is about to change it. */
  current: boolean;
  desired: number;
  warm: number;
  /** Waiting cannot help any more: the reason. */
  hopeless?: string | undefined;
  /** Message of condition Ready, for what a user reads on the check. */
  message: string;
  reason: string;
  /** Estimated completion, epoch ms. */
  eta?: number | undefined;
}

export interface CheckSnapshot {
  view: HoldView;
  delayedTopology: boolean;
  optIn: OptIn;
  /** False where the gang pulls no image: there is nothing to wait for. */
  hasImages: boolean;
  warmth?: Warmth | undefined;
  /** Our checks by name, with their parameters. */
  checks: ReadonlyMap<string, { defaultHoldMs: number; minWarmPercent: number }>;
  /** Only mode On holds; in Observe and Off every check is answered at once. */
  mode: 'On' | 'Observe' | 'Off';
}

export interface CheckWrite {
  name: string;
  state: 'Ready' | 'Pending';
  message: string;
  /** The state changes too, so lastTransitionTime moves. */
  transition: boolean;
}

export interface CheckDecision {
  /** Stamp this deadline (epoch ms) before anything else; it says how long the hold may last. */
  stamp?: number;
  writes: CheckWrite[];
  /** Look again in so many ms. */
  after?: number;
}

interface Answer {
  state: 'Ready' | 'Pending';
  message: string;
  stamp?: number;
  after?: number;
}

/** Longest pause between two looks at a held gang: a clock that jumps must not put off its release. */
const LOOK_MS = 30_000;

/**
 * What our checks on one Workload should say (promise P5). Level-triggered: Kueue puts checks back to Pending at evictions and may
 * undo a write of ours with an older copy, so the answer follows from the state alone.
 */
export function decideCheck(snapshot: CheckSnapshot, now: number): CheckDecision {
  const { view } = snapshot;
  if (view.finished || !view.active) return { writes: [] };
  // Between the eviction and the return of the quota the checks belong to Kueue: it is about to reset them.
  if (view.evicted && view.reservedAt !== undefined) return { writes: [] };
  const answers = view.checks.flatMap((check) => {
    const parameters = snapshot.checks.get(check.name);
    // Retry and Rejected are never ours: somebody decided by hand.
    if (parameters === undefined || (check.state !== 'Pending' && check.state !== 'Ready')) return [];
    return [{ check, answer: answerOf(snapshot, parameters, { now, ready: check.state === 'Ready' }) }];
  });
  return {
    ...earliest(
      'stamp',
      answers.map((a) => a.answer.stamp),
    ),
    ...earliest(
      'after',
      answers.map((a) => a.answer.after),
    ),
    writes: answers.flatMap(({ check, answer }) => writeOf(check, answer)),
  };
}

/** Nothing while the state stays Ready: its message told why, and what came later changes nothing. */
function writeOf(check: HoldView['checks'][number], { state, message }: Answer): CheckWrite[] {
  const transition = state !== check.state;
  if (!transition && (state === 'Ready' || message === check.message)) return [];
  return [{ name: check.name, state, message, transition }];
}

function earliest<K extends string>(key: K, values: readonly (number | undefined)[]): { [P in K]?: number } {
  const known = values.filter((v) => v !== undefined);
  return known.length === 0 ? {} : ({ [key]: Math.min(...known) } as { [P in K]?: number });
}

type Parameters = { defaultHoldMs: number; minWarmPercent: number };

function answerOf(snapshot: CheckSnapshot, parameters: Parameters, at: { now: number; ready: boolean }): Answer {
  const { view, optIn, mode, hasImages } = snapshot;
  const problems = optIn.problems.length === 0 ? '' : ` (${optIn.problems.join('; ')})`;
  if (mode !== 'On') return { state: 'Ready', message: `Harbinger is in mode ${mode} and holds nothing` };
  if (!optIn.optedIn) return { state: 'Ready', message: `not opted in to prewarming${problems}` };
  if (!hasImages) return { state: 'Ready', message: 'no container of the gang pulls an image' };
  const warm = warmAnswer(snapshot.warmth, parameters.minWarmPercent);
  if (warm !== undefined) return warm;
  if (view.reservedAt === undefined) return { state: 'Pending', message: progressMessage(snapshot.warmth, at.now) + problems };
  // With quota reserved nothing that was let go is taken back: the gang may be starting.
  if (at.ready) return { state: 'Ready', message: '' };
  return heldAnswer(snapshot, parameters, at.now);
}

function warmAnswer(warmth: Warmth | undefined, minWarmPercent: number): Answer | undefined {
  if (warmth === undefined) return undefined;
  const { ready, current, warm, desired } = warmth;
  return current && (ready || isEnough(warmth, minWarmPercent))
    ? { state: 'Ready', message: `images warm on ${warm}/${desired} nodes` }
    : undefined;
}

/** Quota is reserved and the images are not warm: GPUs stand idle from now on, so every wait has to be justified. */
function heldAnswer(snapshot: CheckSnapshot, parameters: Parameters, now: number): Answer {
  const { view, warmth, optIn } = snapshot;
  const progress = progressMessage(warmth, now);
  const holdMs = optIn.holdMs ?? parameters.defaultHoldMs;
  const pointless =
    pointlessBecause(snapshot, progress) ?? (holdMs === 0 ? `quota is reserved; let go with ${progress}` : undefined);
  if (pointless !== undefined) return { state: 'Ready', message: pointless };
  const reservedAt = view.reservedAt ?? now;
  const limit = reservedAt + holdMs;
  const stamped = validDeadline(view);
  // A stamp of an earlier, longer hold may lie in the future still; what the gang asks for now counts.
  const deadline = Math.min(stamped ?? limit, limit);
  if (now >= deadline) {
    return { state: 'Ready', message: `let go with ${progress}: the hold of ${formatDuration(deadline - reservedAt)} is over` };
  }
  const held: Answer = { state: 'Pending', message: heldMessage(progress, deadline), after: Math.min(LOOK_MS, deadline - now) };
  return stamped === deadline ? held : { ...held, stamp: deadline };
}

/** Why no wait with quota reserved would help, undefined where one may. */
function pointlessBecause({ delayedTopology, warmth }: CheckSnapshot, progress: string): string | undefined {
  if (delayedTopology) return `nodes are assigned only after this check; let go with ${progress}`;
  if (warmth?.current === true && warmth.reason === 'Finished')
    return `nothing is pulled for the gang any more: ${warmth.message}`;
  return warmth?.hopeless === undefined ? undefined : `let go cold, waiting cannot help: ${warmth.hopeless}`;
}

function heldMessage(progress: string, deadline: number): string {
  return `${progress}; held until ${formatTime(deadline)} at the latest`;
}

/** '2/3 nodes warm, about 40s': what a user reads on the Workload. Rounded, so that it does not change with every look. */
export function progressMessage(warmth: Warmth | undefined, now: number): string {
  if (warmth === undefined) return 'images are being looked up';
  const { warm, desired, eta, reason, message } = warmth;
  if (reason !== 'PullingImages') return message === '' ? 'images are being looked up' : message;
  const left = eta === undefined ? undefined : Math.max(0, eta - now);
  return `${warm}/${desired} nodes warm${left === undefined ? '' : `, about ${formatDuration(coarse(left))}`}`;
}

/** Rounds up to 10 s below two minutes and to full minutes above. */
function coarse(ms: number): number {
  const step = ms < 120_000 ? 10_000 : 60_000;
  return Math.max(step, Math.ceil(ms / step) * step);
}
