import { formatDuration, formatTime } from '../../api/duration.js';
import type { HoldEndReason, ReleaseReason } from '../../api/reasons.js';
import { present } from '../../api/json.js';
import type { HoldView } from '../../gangs/hold.js';
import { validDeadline } from '../../gangs/hold.js';
import { isEnough } from './enough.js';
import type { OptIn } from '../../gangs/opt-in.js';
import type { CheckParameters } from './parameters.js';

/** What is known of the images of a gang; absent where there is no ImagePrewarm (yet). */
export interface Warmth {
  /** Condition Ready of the ImagePrewarm. */
  ready: boolean;
  /** All of this is about its present generation, and nothing is about to change it. */
  current: boolean;
  /** What this process sees does not bear out, or not yet, that so many nodes are warm: it lets nobody go, and takes nothing back. */
  unseen?: boolean | undefined;
  desired: number;
  warm: number;
  /** Waiting cannot help any more: the reason. */
  hopeless?: string | undefined;
  /** Message of condition Ready, for what a user reads on the check. */
  message: string;
  reason: string;
  /** Estimated completion, epoch ms. */
  eta?: number | undefined;
  /** The node that keeps the others waiting, and why. */
  slowest?: string | undefined;
}

type Check = HoldView['checks'][number];

export interface CheckSnapshot {
  view: HoldView;
  delayedTopology: boolean;
  optIn: OptIn;
  /** The job is not there (any more), and with it what it asked for. */
  jobGone?: boolean | undefined;
  /** False where the gang pulls no image: there is nothing to wait for. */
  hasImages: boolean;
  /** The gang runs, and this Workload is what it is to grow to (an elastic slice that replaces another). */
  grows?: boolean | undefined;
  warmth?: Warmth | undefined;
  /** Our checks by name, with their parameters. */
  checks: ReadonlyMap<string, CheckParameters>;
  /** Only mode On holds; in Observe and Off every check is answered at once. */
  mode: 'On' | 'Observe' | 'Off';
}

export interface CheckWrite {
  name: string;
  state: 'Ready' | 'Pending' | 'Retry';
  message: string;
  /** Why it is not Pending any more, for the metric. */
  reason?: HoldEndReason | undefined;
  /** With Retry: Kueue reserves no quota for the gang for so long; see `requeueAfterSeconds` of a PrewarmCheckConfig. */
  requeueAfterMs?: number;
  /** Epoch ms from which Kueue counts that, where it is not now. */
  since?: number;
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
  state: CheckWrite['state'];
  message: string;
  reason?: HoldEndReason | undefined;
  requeueAfterMs?: number;
  since?: number;
  stamp?: number;
  after?: number;
}

/** Longest pause between two looks at a held gang, ms: a clock that jumps must not put off its release. */
export const LOOK_MS = 30_000;

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
    // What says Retry or Rejected is Kueue's to act on, whoever wrote it.
    if (parameters === undefined || (check.state !== 'Pending' && check.state !== 'Ready')) return [];
    return [{ check, answer: answerOf(snapshot, parameters, { now, check }) }];
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
function writeOf(check: Check, { state, message, reason, requeueAfterMs, since }: Answer): CheckWrite[] {
  const transition = state !== check.state;
  if (!transition && (state === 'Ready' || message === check.message)) return [];
  return [{ name: check.name, state, message, reason, transition, ...present({ requeueAfterMs, since }) }];
}

function earliest<K extends string>(key: K, values: readonly (number | undefined)[]): { [P in K]?: number } {
  const known = values.filter((v) => v !== undefined);
  return known.length === 0 ? {} : ({ [key]: Math.min(...known) } as { [P in K]?: number });
}

function answerOf(snapshot: CheckSnapshot, parameters: CheckParameters, at: { now: number; check: Check }): Answer {
  const { view, optIn } = snapshot;
  const problems = problemsOf(optIn);
  // Nobody opted out, and what is left of the gang is no hold that ended: without a reason it is not counted.
  if (snapshot.jobGone === true && !optIn.optedIn) return { state: 'Ready', message: `its job is gone${problems}` };
  const never = neverHeld(snapshot);
  if (never !== undefined) return { state: 'Ready', ...never };
  const warm = warmAnswer(snapshot.warmth, parameters.minWarmPercent);
  if (warm !== undefined) return warm;
  if (view.reservedAt === undefined) {
    // The status is about to be borne out or written anew: it is the one to take the word back.
    if (at.check.state === 'Ready' && snapshot.warmth?.unseen === true) return { state: 'Ready', message: '' };
    return { state: 'Pending', message: progressMessage(snapshot.warmth, at.now) + problems };
  }
  // With quota reserved nothing that was let go is taken back: the gang may be starting.
  if (at.check.state === 'Ready') return { state: 'Ready', message: '' };
  // Kueue asks also about gangs that run when a check comes to their queue, and a Retry would evict them.
  if (view.admitted) return { state: 'Ready', message: 'the gang was admitted before this check was asked' };
  return heldAnswer(snapshot, parameters, at);
}

const problemsOf = ({ problems }: OptIn): string => (problems.length === 0 ? '' : ` (${problems.join('; ')})`);

/** Why nothing keeps a gang from starting whatever is warm, undefined where its images count. */
export function neverHeld({
  mode,
  optIn,
  hasImages,
}: Pick<CheckSnapshot, 'mode' | 'optIn' | 'hasImages'>): { reason: ReleaseReason; message: string } | undefined {
  // Whoever set the mode knows; nobody of the gang opted out.
  if (mode !== 'On') return { reason: 'SwitchedOff', message: `Harbinger is in mode ${mode} and holds nothing` };
  if (!optIn.optedIn) return { reason: 'OptedOut', message: `not opted in to prewarming${problemsOf(optIn)}` };
  return hasImages ? undefined : { reason: 'OptedOut', message: 'no container of the gang pulls an image' };
}

export function warmAnswer(warmth: Warmth | undefined, minWarmPercent: number): Answer | undefined {
  if (warmth === undefined) return undefined;
  const { ready, current, unseen, warm, desired } = warmth;
  return current && unseen !== true && (ready || isEnough(warmth, minWarmPercent))
    ? { state: 'Ready', reason: 'WarmVerified', message: `images warm on ${warm}/${desired} nodes` }
    : undefined;
}

/** Quota is reserved and the images are not warm: GPUs stand idle from now on, so every wait has to be justified. */
function heldAnswer(snapshot: CheckSnapshot, parameters: CheckParameters, at: { now: number; check: Check }): Answer {
  const { view, warmth } = snapshot;
  const { now } = at;
  const progress = progressMessage(warmth, now);
  const holdMs = snapshot.optIn.holdMs ?? parameters.defaultHoldMs;
  const pointless = pointlessBecause(snapshot, progress);
  if (holdMs === 0)
    return { state: 'Ready', reason: 'QuotaReservedCold', message: pointless ?? `quota is reserved; let go with ${progress}` };
  const reservedAt = view.reservedAt ?? now;
  const stamped = validDeadline(view);
  // The stamp may be of a longer hold; what the gang asks for now counts.
  const deadline = Math.min(stamped ?? Number.POSITIVE_INFINITY, reservedAt + holdMs);
  // Kueue keeps the quota until so long after `since`: a clock that is hours ahead must not have it wait for hours.
  const context = { progress, retry: mayGiveBack(snapshot, parameters), check: at.check, since: Math.min(now, deadline) };
  if (context.retry !== undefined && warmth?.reason === 'DeadlineExceeded')
    return timedOut('the time for its pulls is over', context);
  if (pointless !== undefined) return { state: 'Ready', reason: 'Hopeless', message: pointless };
  if (now >= deadline) return timedOut(`the hold of ${formatDuration(deadline - reservedAt)} is over`, context);
  const held: Answer = { state: 'Pending', message: heldMessage(progress, deadline), after: Math.min(LOOK_MS, deadline - now) };
  return stamped === deadline ? held : { ...held, stamp: deadline };
}

/**
 * What Retry may be written for. Not for a gang that grows: Kueue has ended the slice that runs, and would stop the whole job with the
 * new one. Nor while another check is open: the eviction would throw away what that one has done, such as nodes that are being made.
 */
function mayGiveBack({ view, checks, grows }: CheckSnapshot, { retry }: CheckParameters): CheckParameters['retry'] {
  const others = view.checks.filter((c) => !checks.has(c.name));
  return grows !== true && others.every((c) => c.state === 'Ready') ? retry : undefined;
}

/** The hold is over: the gang starts cold, or gives its quota back where its check says so. */
function timedOut(
  over: string,
  { progress, retry, check, since }: { progress: string; retry: CheckParameters['retry']; check: Check; since: number },
): Answer {
  const { retries = 0 } = check;
  if (retry === undefined || retries >= retry.times) {
    const spent = retry === undefined ? '' : ` for the ${ordinal(retries + 1)} time`;
    return { state: 'Ready', reason: 'DeadlineExceeded', message: `timed out, starting cold: ${over}${spent} with ${progress}` };
  }
  const again = retry.afterMs === 0 ? 'at its next turn' : `in ${formatDuration(retry.afterMs)} at the earliest`;
  return {
    state: 'Retry',
    reason: 'SentBack',
    message: `timed out, back to the queue: ${over} with ${progress}; quota again ${again} (${retries + 1} of ${retry.times})`,
    requeueAfterMs: retry.afterMs,
    since,
  };
}

function ordinal(n: number): string {
  const suffix = n % 100 >= 11 && n % 100 <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');
  return `${n}${suffix}`;
}

/** Why no wait with quota reserved would help, undefined where one may. */
export function pointlessBecause(
  { delayedTopology, warmth }: Pick<CheckSnapshot, 'delayedTopology' | 'warmth'>,
  progress: string,
): string | undefined {
  if (delayedTopology) return `nodes are assigned only after this check; let go with ${progress}`;
  if (warmth?.current === true && warmth.reason === 'Finished')
    return `nothing is pulled for the gang any more: ${warmth.message}`;
  return warmth?.hopeless === undefined ? undefined : `let go cold, waiting cannot help: ${warmth.hopeless}`;
}

function heldMessage(progress: string, deadline: number): string {
  return `${progress}; held until ${formatTime(deadline)} at the latest`;
}

/** '61/64 nodes warm, about 3 min; slowest node gpu-17: pulling since ...': what a user reads on the Workload. Rounded, so that it does not change with every look. */
export function progressMessage(warmth: Warmth | undefined, now: number): string {
  if (warmth === undefined) return 'images are being looked up';
  const { warm, desired, eta, reason, message, slowest } = warmth;
  if (reason !== 'PullingImages') return message === '' ? 'images are being looked up' : message;
  const left = eta === undefined ? '' : `, about ${minutes(Math.max(0, eta - now))}`;
  return `${warm}/${desired} nodes warm${left}${slowest === undefined ? '' : `; ${slowest}`}`;
}

/** '40 s', '3 min', '2h05m': no more exact than an estimate is. */
function minutes(ms: number): string {
  const rough = coarse(ms);
  if (rough < 120_000) return `${rough / 1000} s`;
  return rough < 3_600_000 ? `${rough / 60_000} min` : formatDuration(rough);
}

/** Rounds up to 10 s below two minutes and to full minutes above. */
function coarse(ms: number): number {
  const step = ms < 120_000 ? 10_000 : 60_000;
  return Math.max(step, Math.ceil(ms / step) * step);
}
