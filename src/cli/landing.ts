import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import type { Landing } from '../placement/landing.js';
import type { Obstacles } from '../placement/obstacles.js';

/** What the person at the shell says of the nodes. */
export interface Assumptions {
  /** Platforms of the nodes (`linux/amd64`); empty where nothing is said. */
  platforms: readonly string[];
  /** Formats that all nodes are taken to run. */
  capable: readonly Format[];
}

const UNKNOWN = 'the nodes are not known; tell them by --nodes FILE, or --assume-capable FORMAT';

/**
 * A landing with what was said instead of what is known. Without anything known, a format that needs a capable node has an
 * obstacle, as it has in a cluster whose nodes are not known.
 */
export function assume(known: Landing | undefined, { platforms, capable }: Assumptions): Landing {
  const base: Landing = known ?? { platforms: undefined, now: everyFormat(), later: everyFormat(), key: 'unknown' };
  if (platforms.length === 0 && capable.length === 0) return base;
  const without = (obstacles: Obstacles): Obstacles =>
    Object.fromEntries(Object.entries(obstacles).filter(([format]) => !capable.some((c) => c === format)));
  return {
    platforms: platforms.length === 0 ? base.platforms : platforms,
    fixed: platforms.length === 0 ? base.fixed : platforms,
    now: without(base.now),
    later: without(base.later),
    private: { now: without(base.private?.now ?? everyFormat()), later: without(base.private?.later ?? everyFormat()) },
    key: [base.key, ...platforms, ...capable].join(' '),
  };
}

function everyFormat(): Obstacles {
  return Object.fromEntries(FORMATS.map((format) => [format, UNKNOWN]));
}
