import { ACTION_TYPES } from '../../../src/controller/actions.js';
import type { ReleaseCause } from '../invariants/releases.js';
import { RELEASE_CAUSES } from '../invariants/releases.js';
import { FAULTS } from './faults.js';
import type { Verdict } from './verdict.js';

/** How often everything happened over all seeds. */
export interface Coverage {
  /** Faults, and crashes by failpoint. */
  faults: Record<string, number>;
  wishes: Record<string, number>;
  releases: Record<ReleaseCause, number>;
  /** Fewest faults and wishes in one seed. */
  leastEvents: number;
  /** What happened too seldom, in words. */
  missing: string[];
}

/** Each kind of fault has to hit so often over 200 seeds. */
const OFTEN = 20;
const EVENTS_PER_SEED = 30;
/** Each cause is to be seen, and more of it where what comes after it is judged. */
const LEAST_RELEASES: Partial<Record<ReleaseCause, number>> = { SentBack: OFTEN };

export function coverageOf(verdicts: readonly Verdict[]): Coverage {
  const points = ACTION_TYPES.flatMap((t) => [`crash before:${t}`, `crash after:${t}`]);
  const faults = Object.fromEntries([...Object.keys(FAULTS), ...points].map((kind) => [kind, 0]));
  const wishes: Record<string, number> = {};
  const releases = Object.fromEntries(RELEASE_CAUSES.map((c) => [c, 0])) as Record<ReleaseCause, number>;
  let leastEvents = Number.POSITIVE_INFINITY;
  for (const verdict of verdicts) {
    let events = 0;
    for (const [kind, n] of Object.entries(verdict.hits)) {
      const into = kind.startsWith('wish: ') ? wishes : faults;
      into[kind] = (into[kind] ?? 0) + n;
      events += n;
    }
    leastEvents = Math.min(leastEvents, events);
    for (const cause of RELEASE_CAUSES) releases[cause] += verdict.releases[cause];
  }
  const missing = [
    ...Object.entries(faults).flatMap(([kind, n]) => (n < OFTEN ? [`"${kind}" hit ${n} times, ${OFTEN} are asked for`] : [])),
    ...RELEASE_CAUSES.flatMap((cause) => {
      const least = LEAST_RELEASES[cause] ?? 1;
      return releases[cause] < least ? [`${releases[cause]} holds ended as ${cause}, ${least} are asked for`] : [];
    }),
    ...(leastEvents < EVENTS_PER_SEED ? [`a seed had ${leastEvents} events, ${EVENTS_PER_SEED} are asked for`] : []),
  ];
  return { faults, wishes, releases, leastEvents, missing };
}

/** The coverage as people read it. */
export function tableOf({ faults, wishes, releases, leastEvents, missing }: Coverage, seeds: number): string {
  const rows = (of: Record<string, number>): string[] =>
    Object.entries(of)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, n]) => `  ${String(n).padStart(6)}  ${kind}`);
  const short = seeds < 200 ? [] : missing.map((m) => `  too seldom: ${m}`);
  return [
    `faults (fewest events in a seed: ${leastEvents})`,
    ...rows(faults),
    'wishes',
    ...rows(wishes),
    'ends of holds',
    ...rows(releases),
    ...short,
  ].join('\n');
}
