import type { History } from './history.js';
import { livesOf } from './history.js';
import { checksOf, conditionOf, turnedTo } from './read.js';

/** Every way in which a hold can end; `SentBack` lets no gang go, and `Watchdog` is the webhook's, with the controller dead. */
export const RELEASE_CAUSES = [
  'WarmVerified',
  'DeadlineExceeded',
  'Hopeless',
  'OptedOut',
  'QuotaReservedCold',
  'SwitchedOff',
  'SentBack',
  'Watchdog',
] as const;
export type ReleaseCause = (typeof RELEASE_CAUSES)[number];

/** How often holds ended, by cause: conditions Released that turned True, and checks that say Retry or that the watchdog set. */
export function releasesOf(history: History): Record<ReleaseCause, number> {
  const counts = Object.fromEntries(RELEASE_CAUSES.map((c) => [c, 0])) as Record<ReleaseCause, number>;
  for (const { versions } of livesOf(history, 'ImagePrewarm')) {
    versions.forEach(({ object }, i) => {
      const [now, before] = [conditionOf(object, 'Released'), versions[i - 1]?.object];
      const cause = RELEASE_CAUSES.find((c) => c === now?.reason);
      const was = before === undefined ? undefined : conditionOf(before, 'Released')?.reason;
      if (now?.status === 'True' && cause !== undefined && was !== cause) counts[cause] += 1;
    });
  }
  for (const { versions } of livesOf(history, 'Workload')) {
    versions.forEach(({ object }, i) => {
      const before = versions[i - 1]?.object;
      const turned = checksOf(object).filter((c) => c.state === 'Ready' && WATCHDOG.test(c.message));
      if (turned.some((c) => before !== undefined && checksOf(before).some((b) => b.name === c.name && b.state !== 'Ready')))
        counts.Watchdog += 1;
      if (before !== undefined && turnedTo(object, before, 'Retry').length > 0) counts.SentBack += 1;
    });
  }
  return counts;
}

/** How the watchdog begins its messages; the controller's are sentences. */
const WATCHDOG = /^(DeadlineExceeded|Unstamped): /;
