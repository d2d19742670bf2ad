import { at as fieldOf } from '../../../src/api/json.js';
import type { History, Life, Period, Raw, Violation } from './history.js';
import { livesOf, nameOf, standing } from './history.js';
import {
  checksOf,
  conditionOf,
  controllerUidOf,
  gangUidOf,
  holds,
  isActive,
  reservedAt,
  stampedFor,
  stampOf,
  voucherOf,
} from './read.js';

export interface HoldsInput {
  history: History;
  /** Names of the checks that are ours. */
  checks: ReadonlySet<string>;
  /** A hold without a stamp ends after this time, ms. */
  unstampedHoldMs: number;
  /** How late the end of a hold may come, ms. */
  boundMs: number;
  /** Longest hold that the gang asked for at a time or shortly before, ms; undefined where it did not opt in. */
  asked: (workload: Raw, at: number) => number | undefined;
  /** The shortest; undefined where for a part of that time it was not opted in. */
  askedLeast: (workload: Raw, at: number) => number | undefined;
  /** How old the sight of ImagePrewarms may be at a time, ms. */
  lagMs: number | ((at: number) => number);
  /** The least time for which a gang that has quota is pulled for, ms. */
  pullsMs?: number;
  /** When a clock of those who end holds was ahead: what they end then may seem over to them. */
  ahead: readonly Period[];
  /** End of what was seen, epoch ms. */
  until: number;
}

/** A gang that has quota and may not use it because of us. */
export interface Hold extends Period {
  workload: Raw;
  /** The gang was let go (not evicted, deactivated or deleted). */
  released: boolean;
}

/** All holds that a history shows. */
export function holdsOf(history: History, checks: ReadonlySet<string>, until: number): Hold[] {
  return livesOf(history, 'Workload').flatMap((life) => holdsOfOne(life, checks, until));
}

function isHeld(workload: Raw, checks: ReadonlySet<string>): boolean {
  const over = ['Admitted', 'Evicted', 'Finished'].some((type) => holds(workload, type));
  if (reservedAt(workload) === undefined || over || !isActive(workload)) return false;
  return checksOf(workload).some((c) => checks.has(c.name) && c.state === 'Pending');
}

function holdsOfOne({ versions, goneAt }: Life, checks: ReadonlySet<string>, until: number): Hold[] {
  const found: Hold[] = [];
  versions.forEach(({ at, object }, i) => {
    if (!isHeld(object, checks)) return;
    const next = versions[i + 1];
    const to = Math.min(next?.at ?? goneAt, until);
    const released =
      next !== undefined && reservedAt(next.object) !== undefined && !holds(next.object, 'Evicted') && isActive(next.object);
    const last = found.at(-1);
    if (last?.to === at && reservedAt(last.workload) === reservedAt(object))
      Object.assign(last, { to, workload: object, released });
    else found.push({ from: at, to, workload: object, released });
  });
  return found;
}

/**
 * P5: every hold ends in time and not before it has to, is vouched for by a stamp before it is told, and no gang is held that did not opt
 * in.
 */
export function boundedHolds(input: HoldsInput): Violation[] {
  const late = holdsOf(input.history, input.checks, input.until).flatMap((hold) => overdue(hold, input));
  const others = { prewarms: livesOf(input.history, 'ImagePrewarm'), jobs: livesOf(input.history, 'Job') };
  const each = livesOf(input.history, 'Workload').flatMap((life) => [...stamps(life, input), ...ends(life, others, input)]);
  return [...late, ...each];
}

function overdue({ from, to, workload }: Hold, { unstampedHoldMs, boundMs }: HoldsInput): Violation[] {
  const since = reservedAt(workload) ?? from;
  const stamp = voucherOf(workload);
  const end = stamp ?? since + unstampedHoldMs;
  if (to <= end + boundMs) return [];
  const what = stamp === undefined ? 'no stamp' : `the stamp ${new Date(stamp).toISOString()}`;
  return [
    {
      promise: 'P5',
      at: to,
      object: nameOf(workload),
      message: `held for ${to - from} ms with ${what}, ${to - end} ms too long`,
    },
  ];
}

/** A stamp is the time of the reservation, in whole seconds, and what was asked for: nothing that happens late is in it, ms. */
const ROUNDED_MS = 2_000;

/** How the controller tells people of a hold and its end. */
const HELD_MESSAGE = /held until \d{4}-/;

/** Stamps that vouch for more than was asked, and words of a hold that no stamp vouches for. */
function stamps({ versions }: Life, { checks, asked }: HoldsInput): Violation[] {
  return versions.flatMap(({ at, object }, i): Violation[] => {
    const found = (message: string): Violation[] => [{ promise: 'P5', at, object: nameOf(object), message }];
    const [before, since, stamp] = [versions[i - 1]?.object, reservedAt(object), stampOf(object)];
    if (since === undefined || before === undefined) return [];
    if (stamp !== undefined && (stamp !== stampOf(before) || stampedFor(object) !== stampedFor(before))) {
      const wish = asked(object, at);
      if (wish === undefined) return found('a gang that did not opt in was stamped with a deadline');
      if (stamp > since + wish + ROUNDED_MS)
        return found(`stamped ${stamp - since} ms after the reservation, asked were ${wish} ms`);
    }
    // Kueue leaves the message of a check that is Pending as it is, from one reservation to the next.
    const old = new Set(checksOf(before).map((c) => c.message));
    const told = checksOf(object).some(
      (c) => checks.has(c.name) && c.state === 'Pending' && HELD_MESSAGE.test(c.message) && !old.has(c.message),
    );
    return told && voucherOf(object) === undefined && isHeld(object, checks)
      ? found('is told to be held and no stamp vouches for it')
      : [];
  });
}

/** A check of ours that lets a held gang go, or sends it back. */
interface End {
  at: number;
  state: string;
  message: string;
  since: number;
  /** The stamp of this reservation. */
  stamp: number | undefined;
  /** Shortest hold asked for lately, ms; undefined: not opted in for a part of that time. */
  least: number | undefined;
  /** Whether its job had been deleted. */
  gone: boolean;
  /** What stood on ImagePrewarms of the gang lately. */
  prewarms: readonly Raw[];
}

/** Why a hold may end, by the words on the check, and what is wrong with an end of that kind. Ends by warmth are judged as P4. */
const CAUSES: readonly [RegExp, (end: End, input: HoldsInput) => string | undefined][] = [
  [/^images warm on /, () => undefined],
  [/^(no container of the gang pulls an image|Harbinger is in mode )/, () => undefined],
  [/^not opted in to prewarming/, ({ least }) => (least === undefined ? undefined : 'the gang was opted in')],
  [/^its job is gone/, ({ gone }) => (gone ? undefined : 'its job was there')],
  [/^quota is reserved; let go with /, ({ least = 0 }) => (least === 0 ? undefined : `a hold of ${least} ms was asked for`)],
  [
    /^timed out, .*: the time for its pulls is over /,
    ({ at, since, prewarms }, input) =>
      prewarms.some((p) => conditionOf(p, 'Ready')?.reason === 'DeadlineExceeded')
        ? tooEarly(at, since + (input.pullsMs ?? 0), input)
        : 'its ImagePrewarm had time',
  ],
  [
    /^timed out, /,
    ({ since, stamp = Number.POSITIVE_INFINITY, least = 0, ...end }, input) =>
      tooEarly(end.at, Math.min(stamp, since + least), input),
  ],
  [/^DeadlineExceeded: /, ({ at, stamp }, input) => (stamp === undefined ? 'there was no stamp' : tooEarly(at, stamp, input))],
  [
    /^Unstamped: /,
    ({ at, since, stamp }, input) =>
      stamp === undefined ? tooEarly(at, since + input.unstampedHoldMs, input) : 'there was a stamp',
  ],
  [
    /^let go cold, waiting cannot help: /,
    ({ prewarms }) => (prewarms.some((p) => holds(p, 'Failed')) ? undefined : 'no ImagePrewarm of it had failed'),
  ],
  [
    /^nothing is pulled for the gang any more: /,
    ({ prewarms }) =>
      prewarms.some((p) => conditionOf(p, 'Ready')?.reason === 'Finished' && fieldOf(p, 'spec')['retain'] === 'Never')
        ? undefined
        : 'its ImagePrewarm was not at rest, or of an earlier run',
  ],
];

/** Only a gang that is told so is sent back. */
function unlike({ state, message }: End): string | undefined {
  return (state === 'Retry') === message.startsWith('timed out, back to the queue: ') ? undefined : `its check says ${state}`;
}

function tooEarly(at: number, due: number, { ahead }: HoldsInput): string | undefined {
  if (at >= due - ROUNDED_MS || ahead.some((p) => p.from <= at && at <= p.to)) return undefined;
  return `its hold lasted ${due - at} ms longer`;
}

/** Lives of what a hold is about. */
interface Others {
  prewarms: readonly Life[];
  jobs: readonly Life[];
}

/** Gangs that were let go for a cause that was none. */
function ends({ versions }: Life, { prewarms, jobs }: Others, input: HoldsInput): Violation[] {
  return versions.flatMap(({ at, object }, i) => {
    const before = versions[i - 1]?.object;
    const since = before === undefined ? undefined : reservedAt(before);
    if (before === undefined || since === undefined || !isHeld(before, input.checks)) return [];
    const waited = new Set(checksOf(before).flatMap((c) => (input.checks.has(c.name) && c.state === 'Pending' ? [c.name] : [])));
    const turned = checksOf(object).filter((c) => waited.has(c.name) && (c.state === 'Ready' || c.state === 'Retry'));
    return turned.flatMap(({ state, message }): Violation[] => {
      const end: End = {
        at,
        state,
        message,
        since,
        stamp: voucherOf(before),
        least: input.askedLeast(object, at),
        gone: jobs.some(({ uid, goneAt }) => uid === controllerUidOf(object) && goneAt <= at),
        prewarms: lately(prewarms, controllerUidOf(object), at, input),
      };
      const cause = CAUSES.find(([words]) => words.test(message));
      const wrong = cause === undefined ? 'which names no cause' : (unlike(end) ?? cause[1](end, input));
      return wrong === undefined
        ? []
        : [{ promise: 'P5', at, object: nameOf(object), message: `let go with "${message}": ${wrong}` }];
    });
  });
}

function lately(prewarms: readonly Life[], gangUid: string | undefined, to: number, { lagMs }: HoldsInput): Raw[] {
  const from = to - (typeof lagMs === 'number' ? lagMs : lagMs(to));
  return prewarms.flatMap((life) => standing(life, { from, to })).filter((p) => gangUidOf(p) === gangUid);
}
