import { at, stringMap } from '../../../src/api/json.js';
import type { HarbingerConfig } from '../../../src/config/schema.js';
import type { Change, ImageTruth, Period, PullTruth, Raw, Silence, Violation } from '../invariants/index.js';
import {
  boundedGates,
  boundedHolds,
  boundedRetries,
  noSecrets,
  provenWarm,
  settled,
  uniformGangs,
  withinBudgets,
} from '../invariants/index.js';
import { livesOf, type Life } from '../invariants/history.js';
import { controllerUidOf } from '../invariants/read.js';
import { COPY_LAG_MS } from './models/jobs.js';
import { CHECK } from './models/world.js';

/** Everything that is known of a run, by those who are not under test. */
export interface Evidence {
  history: readonly Change[];
  images: readonly ImageTruth[];
  pulls: readonly PullTruth[];
  /** When kubelets said nothing. */
  silences: readonly Silence[];
  /** Objects at the end. */
  objects: readonly Raw[];
  /** When no controller could act. */
  blind: readonly Period[];
  /** When caches may have been old. */
  stalls: readonly Period[];
  /** When something that went wrong may still show. */
  troubles: readonly Period[];
  /** When the clock of a controller may have been ahead. */
  ahead: readonly Period[];
  log: readonly string[];
  secrets: readonly string[];
  until: number;
  config: HarbingerConfig;
}

/** How old what is seen may be on a good day, and while watches are silent, ms. */
const LAG_MS = { usual: 12_000, stalled: 75_000 } as const;
/** Lost warmth is taken back in this time: a node counts as gone after 40 s of silence, the rest is lag and a plan. */
const TAKEN_BACK_MS = { disk: 90_000, shown: 30_000 } as const;
/** The watchdog may have to be elected, to find its feet after broken watches and to sit out a bad API server first. */
const LATE_MS = 75_000;

/** What promises a run broke. */
export function judge(evidence: Evidence): Violation[] {
  const { history, images, pulls, silences, objects, blind, stalls, troubles, ahead, until, config } = evidence;
  const checks = new Set([CHECK]);
  const wishes = new Wishes(history);
  const lagMs = (time: number): number => (stalls.some((s) => s.from <= time && time <= s.to) ? LAG_MS.stalled : LAG_MS.usual);
  return [
    ...uniformGangs(history, { lagMs: COPY_LAG_MS + 500 }),
    ...provenWarm({ history, images, silences, lagMs, takenBackMs: TAKEN_BACK_MS, blind: [...blind, ...stalls] }),
    ...boundedHolds({
      history,
      checks,
      until,
      unstampedHoldMs: config.budgets.unstampedHoldSeconds * 1000,
      boundMs: LATE_MS,
      asked: (workload, time) => wishes.asked(workload, time),
      askedLeast: (workload, time) => wishes.askedLeast(workload, time),
      lagMs,
      pullsMs: config.budgets.minDeadlineSeconds * 1000,
      ahead,
    }),
    ...boundedRetries({
      history,
      pulls,
      checks,
      until,
      unstampedHoldMs: config.budgets.unstampedHoldSeconds * 1000,
      boundMs: LATE_MS,
      allowed: (period) => wishes.retries(period),
      asked: (workload, { from, to }) => wishes.asked(workload, to, to - from + LAG_MS.stalled),
      askedLeast: (workload, { from, to }) => wishes.askedLeast(workload, to, to - from + LAG_MS.stalled),
      lagMs: TAKEN_BACK_MS.shown,
      blind: [...blind, ...stalls],
      troubles,
    }),
    ...boundedGates({
      history,
      until,
      gatedMs: config.holds.gatedSeconds * 1000,
      boundMs: LATE_MS,
      asked: (workload, { from, to }) => wishes.asked(workload, to, to - from),
    }),
    ...withinBudgets(pulls, config.budgets),
    ...settled({ objects, now: until, checks, optedIn: (w) => wishes.asked(w, until, 0) !== undefined }),
    ...unfinished(objects, until),
    ...noSecrets(history, evidence.log, evidence.secrets),
  ];
}

/** Nothing goes wrong any more and there is room for all: every gang that is active gets its turn. */
export function unfinished(objects: readonly Raw[], now: number): Violation[] {
  const waiting = objects.filter((o) => o.kind === 'Workload' && at(o, 'spec')['active'] !== false && !finished(o));
  return waiting.map((o) => ({
    promise: 'P7',
    at: now,
    object: `Workload ${o.metadata.name}`,
    message: 'its gang has not run to its end',
  }));
}

const finished = (workload: Raw): boolean => JSON.stringify(at(workload, 'status')['conditions'] ?? []).includes('"Finished"');

/** What gangs asked for at a time, and shortly before: nobody hears of a wish at once. */
class Wishes {
  readonly #jobs;
  readonly #defaults;

  constructor(history: readonly Change[]) {
    this.#jobs = new Map(livesOf(history, 'Job').map((life) => [life.uid, life]));
    this.#defaults = livesOf(history, 'PrewarmCheckConfig').flatMap((l) => l.versions);
  }

  /** The longest hold asked for in ms; undefined: not opted in. */
  asked(workload: Raw, time: number, lagMs: number = LAG_MS.stalled): number | undefined {
    const known = this.#holds(workload, time, lagMs).filter((h) => h !== undefined);
    return known.length === 0 ? undefined : Math.max(...known.flat());
  }

  /** The shortest hold asked for in ms; undefined: not opted in at some time. */
  askedLeast(workload: Raw, time: number, lagMs: number = LAG_MS.stalled): number | undefined {
    const all = this.#holds(workload, time, lagMs);
    const known = all.filter((h) => h !== undefined);
    return known.length < all.length || all.length === 0 ? undefined : Math.min(...known.flat());
  }

  /** How often a hold that is over may send a gang back at most, and for how long. */
  retries({ from, to }: Period): { times: number; requeueAfterMs: number } {
    const specs = current(this.#defaults, to, to - from + LAG_MS.stalled).map(({ object }) => at(object, 'spec'));
    const most = (field: string): number =>
      Math.max(0, ...specs.filter((s) => s['onTimeout'] === 'Retry').map((s) => Number(s[field])));
    return { times: most('maxRetries'), requeueAfterMs: most('requeueAfterSeconds') * 1000 };
  }

  /** For each version of the job what it asks for, in ms, by what its check says of those that name no time; undefined: not opted in. */
  #holds(workload: Raw, time: number, lagMs: number): (number[] | undefined)[] {
    const life = this.#jobs.get(controllerUidOf(workload) ?? '');
    const defaults = current(this.#defaults, time, lagMs).map(
      ({ object }) => Number(at(object, 'spec')['defaultHoldSeconds'] ?? 0) * 1000,
    );
    return current(life?.versions ?? [], time, lagMs).map(({ object }) => {
      const said = stringMap(object.metadata.annotations);
      if (said['harbinger.dev/prewarm'] !== 'true') return undefined;
      const hold = said['harbinger.dev/prewarm-hold'];
      return hold === undefined ? defaults : [milliseconds(hold)];
    });
  }
}

/** Versions that stood at a time or shortly before. */
function current(versions: Life['versions'], time: number, lagMs: number): Life['versions'] {
  return versions.filter((v, i) => v.at <= time && (versions[i + 1]?.at ?? Number.POSITIVE_INFINITY) > time - lagMs);
}

function milliseconds(duration: string): number {
  const [, amount = '0', unit = 's'] = /^(\d+)([smh])$/.exec(duration) ?? [];
  return Number(amount) * { s: 1_000, m: 60_000, h: 3_600_000 }[unit as 's' | 'm' | 'h'];
}
