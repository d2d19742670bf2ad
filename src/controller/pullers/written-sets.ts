import type { KubeObject } from '../../api/object.js';
import { KubeError } from '../../kube/errors.js';
import { projectPullerSet } from '../../preheat/backends/daemonset/project.js';
import type { PullerSet } from '../../preheat/world.js';

/** What the API server made of a write. */
interface Stored {
  set: PullerSet;
  resourceVersion: string;
  /** Time after which the cache has shown it or never will. */
  until: number;
}

/** Writes of one set of which nobody knows whether they were done. */
interface Doubt {
  /** What was sent last. */
  set: PullerSet;
  /** Nodes that they name, with the time after which a write of them has either been done and seen or never will be. */
  nodes: Map<string, number>;
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
  readonly #stored = new Map<string, Stored>();
  readonly #doubts = new Map<string, Doubt>();

  /** @param now milliseconds that never jump */
  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * With what the API server said that it stored: what is still to be written is judged by this, so that a write without an answer is
   * sent again.
   * @param cached what the cache holds now
   */
  known(cached: readonly PullerSet[]): PullerSet[] {
    const byKey = new Map(cached.map((s) => [keyOf(s), s]));
    for (const [key, stored] of this.#stored) {
      if (this.#isOver(stored, byKey.get(key))) this.#stored.delete(key);
      else byKey.set(key, stored.set);
    }
    return [...byKey.values()];
  }

  /**
   * With what may have been stored, besides: pulls may run on the nodes of each such write, so limits are judged by this.
   * @param cached what the cache holds now
   */
  seen(cached: readonly PullerSet[]): PullerSet[] {
    const byKey = new Map(this.known(cached).map((s) => [keyOf(s), s]));
    for (const [key, { set: sent, nodes }] of this.#doubts) {
      // Of one that is gone the UID that was sent is no longer that of anything.
      const set = byKey.get(key) ?? { ...sent, uid: '', nodes: [] };
      // One that was seen on a set once is in doubt no more, whatever becomes of it after that.
      for (const [node, until] of nodes) if (this.#now() >= until || set.nodes.includes(node)) nodes.delete(node);
      const doubtful = [...nodes.keys()];
      if (doubtful.length === 0) this.#doubts.delete(key);
      else byKey.set(key, { ...set, nodes: [...set.nodes, ...doubtful], doubtful });
    }
    return [...byKey.values()];
  }

  /** Whether a set may have been written by us without our knowing. */
  inDoubt(name: { namespace?: string | undefined; name: string }): boolean {
    return [...(this.#doubts.get(keyOf(name))?.nodes.values() ?? [])].some((until) => this.#now() < until);
  }

  /** Sends a DaemonSet by `write`, and remembers what came of it. */
  async write<T>(object: KubeObject, write: () => Promise<T>): Promise<T> {
    const set = projectPullerSet(object);
    const key = keyOf(set);
    // Until the answer is there it is in doubt, and plans are not made meanwhile.
    try {
      const answer = await write();
      const { resourceVersion } = (answer as KubeObject | undefined)?.metadata ?? {};
      if (resourceVersion === undefined) this.#stored.delete(key);
      else
        this.#stored.set(key, { set: projectPullerSet(answer as unknown as KubeObject), resourceVersion, until: this.#until() });
      return answer;
    } catch (error) {
      if (!wasRefused(error)) this.#doubt(key, set);
      throw error;
    }
  }

  /** Deletes a set: what stands in the cache of it is on its way out. */
  async remove<T>(name: { namespace: string; name: string }, remove: () => Promise<T>): Promise<T> {
    const done = await remove();
    this.gone(keyOf(name));
    return done;
  }

  /** The cache heard that a set is gone. What was in doubt stays so: it may have begun pulls before, and a set may yet be made by it. */
  gone(key: string): void {
    this.#stored.delete(key);
  }

  #doubt(key: string, set: PullerSet): void {
    const nodes = new Map(this.#doubts.get(key)?.nodes);
    for (const node of set.nodes) nodes.set(node, this.#until());
    this.#doubts.set(key, { set, nodes });
  }

  #until(): number {
    return this.#now() + IN_DOUBT_MS;
  }

  #isOver({ resourceVersion, until }: Stored, cached: PullerSet | undefined): boolean {
    return this.#now() >= until || (cached !== undefined && isAtLeast(cached.resourceVersion, resourceVersion));
  }
}

function keyOf({ namespace = '', name }: { namespace?: string | undefined; name: string }): string {
  return `${namespace}/${name}`;
}

/** Versions of one resource are numbers that grow (KEP-5504); where they are not, another one counts as a later one. */
function isAtLeast(version: string, other: string): boolean {
  if (!/^\d+$/.test(version) || !/^\d+$/.test(other)) return version !== '';
  return version.length === other.length ? version >= other : version.length > other.length;
}

/** Answers of status 4xx mean that the object was not written; a missing answer may mean either. */
function wasRefused(error: unknown): boolean {
  return error instanceof KubeError && error.status >= 400 && error.status < 500 && error.status !== 408;
}
