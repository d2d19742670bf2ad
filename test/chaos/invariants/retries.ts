import type { History, Life, Period, PullTruth, Raw, Violation } from './history.js';
import { livesOf, nameOf, standing, uncovered, versionAt } from './history.js';
import {
  checksOf,
  conditionOf,
  controllerUidOf,
  countsOf,
  gangUidOf,
  holds,
  isActive,
  recordOf,
  reservedAt,
  turnedTo,
} from './read.js';
import { imageOf } from './settled.js';

export interface RetriesInput {
  history: History;
  pulls: readonly PullTruth[];
  /** Names of the checks that are ours. */
  checks: ReadonlySet<string>;
  /** The most that the check says in a period, or shortly before: how often a gang may be sent back, and for how long, ms. */
  allowed: (period: Period) => { times: number; requeueAfterMs: number };
  /** The longest hold that the gang asked for in a period or shortly before, ms; undefined where it did not opt in. */
  asked: (workload: Raw, period: Period) => number | undefined;
  /** The shortest; undefined where for a part of that time it was not opted in. */
  askedLeast: (workload: Raw, period: Period) => number | undefined;
  /** A hold without a stamp ends after this time, ms. */
  unstampedHoldMs: number;
  /** How late the end of a hold may come, ms. */
  boundMs: number;
  /** How long a status may be behind, ms. */
  lagMs: number;
  /** When no controller could act, or caches may have been old. */
  blind: readonly Period[];
  /** When something that went wrong may have to do with which pullers there are. */
  troubles: readonly Period[];
  /** End of what was seen, epoch ms. */
  until: number;
}

type Version = Life['versions'][number];

/** What became of a gang so far. */
interface Tally {
  /** How often our check sent it back. */
  back: number;
  /** How often others took its quota, with which each reservation has the whole hold again. */
  lost: number;
  /** For how long it had quota and did not run, ms. */
  heldMs: number;
}

/**
 * P5 where a hold that is over sends the gang back to its queue: only while it has quota and did not start, at most as often as its
 * check says, and all its holds together end in time. Its pulls go on while it waits, and nothing is pulled for it twice.
 */
export function boundedRetries(input: RetriesInput): Violation[] {
  const [prewarms, pods] = [livesOf(input.history, 'ImagePrewarm'), livesOf(input.history, 'Pod')];
  return livesOf(input.history, 'Workload').flatMap((life) => [
    ...counted(life, input),
    ...waits(life, input).flatMap((wait) => unpulled(wait, { prewarms, pods }, input)),
  ]);
}

const violation = (promise: Violation['promise'], at: number, object: Raw, message: string): Violation => ({
  promise,
  at,
  object: nameOf(object),
  message,
});

const sentBack = (object: Raw, before: Raw, checks: ReadonlySet<string>): boolean =>
  turnedTo(object, before, 'Retry').some((c) => checks.has(c.name));

function counted({ versions }: Life, input: RetriesInput): Violation[] {
  const tally: Tally = { back: 0, lost: 0, heldMs: 0 };
  const since = versions[0]?.at ?? 0;
  let heldSince: number | undefined;
  return versions.flatMap(({ at, object }, i): Violation[] => {
    const before = versions[i - 1]?.object;
    if (before === undefined) return [];
    const found: Violation[] = [];
    if (sentBack(object, before, input.checks)) {
      tally.back += 1;
      found.push(...wronglySent({ at, object }, before, { tally, input }));
    }
    if (lostToOthers(object, before)) {
      tally.lost += 1;
      // Kueue acted for another reason, and does not count this one.
      if (checksOf(before).some((c) => input.checks.has(c.name) && c.state === 'Retry')) tally.back -= 1;
    }
    if (waitsWithQuota(object)) heldSince ??= at;
    else if (heldSince !== undefined) {
      tally.heldMs += at - heldSince;
      heldSince = undefined;
      found.push(...tooLong({ from: since, to: at }, object, { tally, input }));
    }
    return found;
  });
}

const waitsWithQuota = (workload: Raw): boolean =>
  reservedAt(workload) !== undefined && !['Admitted', 'Finished'].some((type) => holds(workload, type));

const lostToOthers = (object: Raw, before: Raw): boolean =>
  holds(object, 'Evicted') && !holds(before, 'Evicted') && conditionOf(object, 'Evicted')?.reason !== 'AdmissionCheck';

function wronglySent(
  { at, object }: Version,
  before: Raw,
  { tally: { back }, input }: { tally: Tally; input: RetriesInput },
): Violation[] {
  const over = ['Admitted', 'Evicted', 'Finished'].find((type) => holds(before, type));
  const { times } = input.allowed({ from: at, to: at });
  const wrong = [
    ...(reservedAt(before) === undefined ? ['sent back without quota'] : []),
    ...(over === undefined ? [] : [`sent back while it is ${over}`]),
    ...(isActive(before) ? [] : ['sent back while it is not active']),
    ...(checksOf(before).some((c) => input.checks.has(c.name) && c.state === 'Ready') ? ['sent back after it was let go'] : []),
    ...(back > times ? [`sent back ${back} times, ${times} are allowed`] : []),
  ];
  return wrong.map((message) => violation('P5', at, object, message));
}

function tooLong(
  period: Period,
  workload: Raw,
  { tally: { lost, heldMs }, input }: { tally: Tally; input: RetriesInput },
): Violation[] {
  const { times, requeueAfterMs } = input.allowed(period);
  const holdMs = Math.max(input.asked(workload, period) ?? 0, input.unstampedHoldMs) + input.boundMs;
  const most = (times + 1 + lost) * holdMs + times * requeueAfterMs;
  return heldMs <= most
    ? []
    : [violation('P5', period.to, workload, `had quota for ${heldMs} ms before it ran, ${most} ms are the most`)];
}

/** A gang that was sent back, until it is given quota again or nobody waits any more. */
interface Wait extends Period {
  workload: Raw;
}

function waits({ versions, goneAt }: Life, { checks, until }: RetriesInput): Wait[] {
  return versions.flatMap(({ at, object }, i): Wait[] => {
    const before = versions[i - 1]?.object;
    if (before === undefined || !sentBack(object, before, checks)) return [];
    const since = reservedAt(object);
    const next = versions
      .slice(i)
      .find(({ object: o }) => !isActive(o) || (reservedAt(o) ?? since) !== since || holds(o, 'Finished'));
    return [{ from: at, to: Math.min(next?.at ?? goneAt, until), workload: object }];
  });
}

/** What became of the pulls of a gang in its wait, as far as nothing else explains it. */
function unpulled(
  { from, to, workload }: Wait,
  { prewarms, pods }: { prewarms: readonly Life[]; pods: readonly Life[] },
  input: RetriesInput,
): Violation[] {
  const gang = controllerUidOf(workload);
  if (input.askedLeast(workload, { from, to }) === undefined) return [];
  const found = (at: number, message: string): Violation => violation('P5', at, workload, message);
  const own = prewarms.filter((life) => gangUidOf(life.versions[0]?.object ?? workload) === gang);
  const rests = own
    .flatMap((life) => resting(life, { from, to }, input))
    .map((p) => found(p.from, 'sent back, and nothing is pulled for it'));
  const prewarm = own.map((life) => versionAt(life, from)).find((p) => p !== undefined);
  if (prewarm === undefined || changed(own, { from, to }, prewarm)) return rests;
  const digests = new Set(recordOf(prewarm).flatMap((r) => r.digest ?? []));
  const calm = (at: number): boolean => !input.troubles.some((t) => t.from <= at && at <= t.to);
  const left = pods.filter((pod) => isPullerOf(pod, digests, from) && endOf(pod) > from && endOf(pod) < to && calm(endOf(pod)));
  const others = new Set(
    prewarms
      .filter((life) => !own.includes(life))
      .flatMap((life) =>
        standing(life, { from, to })
          .flatMap(recordOf)
          .map((r) => r.digest),
      ),
  );
  const alone = new Set([...digests].filter((d) => !others.has(d)));
  return [
    ...rests,
    ...left.map((pod) => found(endOf(pod), `sent back, and its puller ${pod.versions[0]?.object.metadata.name ?? ''} goes`)),
    ...twice(prewarm, alone, { from, to }, input)
      .filter((pull) => calm(pull.from))
      .map((pull) => found(pull.from, `sent back, and what it has is pulled once more on ${pull.node}`)),
  ];
}

/** Stretches in which an ImagePrewarm rests while its gang waits, longer than a status may be behind. */
function resting({ versions, goneAt }: Life, { from, to }: Period, { lagMs, blind }: RetriesInput): Period[] {
  return versions.flatMap(({ at, object }, i) => {
    if (conditionOf(object, 'Ready')?.reason !== 'Finished') return [];
    const period = { from: Math.max(at, from), to: Math.min(versions[i + 1]?.at ?? goneAt, to) };
    return uncovered(period, blind) > lagMs && period.to > period.from ? [period] : [];
  });
}

/** Whether another spec or record came up: what was pulled before may not be what is needed now. */
function changed(own: readonly Life[], period: Period, prewarm: Raw): boolean {
  const said = (p: Raw): string => JSON.stringify([p['spec'], recordOf(p)]);
  const all = own.flatMap((life) => standing(life, period));
  return all.some((p) => said(p) !== said(prewarm));
}

function isPullerOf(pod: Life, digests: ReadonlySet<string>, at: number): boolean {
  const object = versionAt(pod, at);
  if (object?.metadata.labels?.['harbinger.dev/puller'] === undefined) return false;
  const digest = imageOf({ ...object, spec: { template: { spec: object['spec'] } } })?.split('@')[1];
  return digest !== undefined && digests.has(digest);
}

/** When a Pod was told to go. */
const endOf = ({ versions, goneAt }: Life): number =>
  versions.find(({ object }) => object.metadata.deletionTimestamp !== undefined)?.at ?? goneAt;

/** Pulls on further nodes of images that as many nodes as are wanted had, or were about to have, before. */
function twice(prewarm: Raw, digests: ReadonlySet<string>, { from, to }: Period, { pulls }: RetriesInput): PullTruth[] {
  const { desired } = countsOf(prewarm);
  const planned = pulls.filter((p) => p.begunBy === 'planner' && digests.has(p.digest));
  return planned.filter((pull) => {
    if (pull.from <= from || pull.from >= to) return false;
    const before = new Set(planned.filter((p) => p.digest === pull.digest && p.from <= from).map((p) => p.node));
    return before.size >= desired;
  });
}
