import type { History, Life, Period, Raw, Violation } from './history.js';
import { livesOf, nameOf } from './history.js';
import { checksOf, holds, isActive, reservedAt, stampOf } from './read.js';

export interface HoldsInput {
  history: History;
  /** Names of the checks that are ours. */
  checks: ReadonlySet<string>;
  /** A hold without a stamp ends after this time, ms. */
  unstampedHoldMs: number;
  /** How late the end of a hold may come, ms. */
  boundMs: number;
  /** Longest hold that the gang asked for, ms; undefined where it did not opt in. */
  asked: (workload: Raw, at: number) => number | undefined;
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

/** P5: every hold ends in time, is vouched for by a stamp before it is told, and no gang is held that did not opt in. */
export function boundedHolds(input: HoldsInput): Violation[] {
  const late = holdsOf(input.history, input.checks, input.until).flatMap((hold) => overdue(hold, input));
  return [...late, ...livesOf(input.history, 'Workload').flatMap((life) => stamps(life, input))];
}

function overdue({ from, to, workload }: Hold, { unstampedHoldMs, boundMs }: HoldsInput): Violation[] {
  const since = reservedAt(workload) ?? from;
  const stamp = stampOf(workload);
  const end = stamp !== undefined && stamp >= since ? stamp : since + unstampedHoldMs;
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

/** How the controller tells people of a hold and its end. */
const HELD_MESSAGE = /held until \d{4}-/;

/** Stamps that vouch for more than was asked, and words of a hold that no stamp vouches for. */
function stamps({ versions }: Life, { checks, asked, boundMs }: HoldsInput): Violation[] {
  return versions.flatMap(({ at, object }, i): Violation[] => {
    const found = (message: string): Violation[] => [{ promise: 'P5', at, object: nameOf(object), message }];
    const [before, since, stamp] = [versions[i - 1]?.object, reservedAt(object), stampOf(object)];
    if (since === undefined || before === undefined) return [];
    if (stamp !== undefined && stamp !== stampOf(before)) {
      const wish = asked(object, at);
      if (wish === undefined) return found('a gang that did not opt in was stamped with a deadline');
      if (stamp > since + wish + boundMs)
        return found(`stamped ${stamp - since} ms after the reservation, asked were ${wish} ms`);
    }
    const told = checksOf(object).some((c) => checks.has(c.name) && c.state === 'Pending' && HELD_MESSAGE.test(c.message));
    const vouched = stamp !== undefined && stamp >= since;
    return told && !vouched && isHeld(object, checks) ? found('is told to be held and no stamp vouches for it') : [];
  });
}
