import type { KubeObject } from '../../api/object.js';
import { KubeError } from '../../kube/errors.js';
import { projectPullerSet } from '../../preheat/backends/daemonset/project.js';
import type { PullerSet } from '../../preheat/world.js';

interface Mark {
  /** What was sent, or what the API server made of it. */
  set: PullerSet;
  /** Absent while nobody knows whether the write was done; whether or not, a later version tells. */
  resourceVersion?: string;
  /** Time after which the write has either been done and seen or never will be. */
  until: number;
}

/** Longest that the API server goes on with a request whose caller has gone, and some, ms; and that a cache lags behind. */
const IN_DOUBT_MS = 90_000;

/**
 * DaemonSets of pullers as the cache has them, with our own writes that it does not show yet: a plan made from before a write
 * would grant the same share of a limit once more, to other nodes. Nothing here matters after a restart, since a cache that is
 * read anew lacks nothing of ours.
 */
export class WrittenSets {
  readonly #now: () => number;
  readonly #marks = new Map<string, Mark>();

  /** @param now milliseconds that never jump */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param cached what the cache holds now */
  seen(cached: readonly PullerSet[]): PullerSet[] {
    const byKey = new Map(cached.map((s) => [keyOf(s), s]));
    for (const [key, mark] of this.#marks) {
      const set = byKey.get(key);
      if (this.#isOver(mark, set)) this.#marks.delete(key);
      else byKey.set(key, set === undefined || mark.resourceVersion !== undefined ? mark.set : both(set, mark.set));
    }
    return [...byKey.values()];
  }

  /** Sends a DaemonSet by `write`, and remembers what came of it. */
  async write<T>(object: KubeObject, write: () => Promise<T>): Promise<T> {
    const set = projectPullerSet(object);
    // Until the answer is there it is in doubt, and plans are not made meanwhile.
    try {
      const stored = await write();
      const { resourceVersion } = (stored as KubeObject | undefined)?.metadata ?? {};
      if (resourceVersion === undefined) this.#marks.delete(keyOf(set));
      else
        this.#marks.set(keyOf(set), {
          set: projectPullerSet(stored as unknown as KubeObject),
          resourceVersion,
          until: this.#now() + IN_DOUBT_MS,
        });
      return stored;
    } catch (error) {
      if (!wasRefused(error)) this.#marks.set(keyOf(set), { set, until: this.#now() + IN_DOUBT_MS });
      throw error;
    }
  }

  /** Deletes a set: what stands in the cache of it is on its way out. */
  async remove<T>(key: { namespace: string; name: string }, remove: () => Promise<T>): Promise<T> {
    const done = await remove();
    this.#marks.delete(keyOf(key));
    return done;
  }

  /** The cache heard that a set is gone. */
  gone(key: string): void {
    this.#marks.delete(key);
  }

  #isOver({ resourceVersion, set, until }: Mark, cached: PullerSet | undefined): boolean {
    if (this.#now() >= until) return true;
    if (cached === undefined) return false;
    if (resourceVersion !== undefined) return isAtLeast(cached.resourceVersion, resourceVersion);
    return set.nodes.every((n) => cached.nodes.includes(n));
  }
}

function keyOf({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}

/** Versions of one resource are numbers that grow (KEP-5504); where they are not, another one counts as a later one. */
function isAtLeast(version: string, other: string): boolean {
  if (!/^\d+$/.test(version) || !/^\d+$/.test(other)) return version !== '';
  return version.length === other.length ? version >= other : version.length > other.length;
}

/** Nobody knows which of the two stands: pulls may run on the nodes of either. */
function both(cached: PullerSet, sent: PullerSet): PullerSet {
  return { ...cached, nodes: [...new Set([...cached.nodes, ...sent.nodes])] };
}

/** Answers of status 4xx mean that the object was not written; a missing answer may mean either. */
function wasRefused(error: unknown): boolean {
  return error instanceof KubeError && error.status >= 400 && error.status < 500 && error.status !== 408;
}
