import type { Format } from '../api/kinds/acceleration-policy.js';

/** What is known of the nodes that a Pod can land on, as far as the choice of an image depends on it. */
export interface Landing {
  /** Platforms (`linux/amd64`) of those nodes; undefined where they are not known: then an image needs all that its source has. */
  platforms: readonly string[] | undefined;
  /** Why one of the nodes of now cannot run an image of the format that plain nodes cannot; formats that all of them run are absent. */
  now: Readonly<Partial<Record<Format, string>>>;
  /** Why a node that joins later may not; absent where the Pod's own required selectors imply a declared capability. */
  later: Readonly<Partial<Record<Format, string>>>;
  /** Equal for equal landings. */
  key: string;
}

/** Why nodes may be unable to run a format that is not portable, or undefined where each of them is proven to. */
export function obstacleTo(format: Format, landing: Landing | undefined, nodePoolClosed: boolean): string | undefined {
  if (landing === undefined) return 'the nodes that the Pod can land on are not known';
  return landing.now[format] ?? (nodePoolClosed ? undefined : landing.later[format]);
}
