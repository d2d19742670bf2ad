import { clip } from '../../api/conditions.js';
import { formatTime } from '../../api/duration.js';
import type { KubeObject } from '../../api/object.js';
import { projectPullerSet } from '../../preheat/backends/daemonset/project.js';
import type { World } from '../../preheat/planner.js';
import type { PullerSet } from '../../preheat/world.js';
import { POD_GRACE_MS } from '../../preheat/world.js';
import { isOfServer } from './refusal.js';

/** Writes of one set that fail one after the other. */
interface Streak {
  /** What was sent last. */
  set: PullerSet;
  /** Of the clock that never jumps, and epoch ms for people: worked out from the other it would differ from plan to plan. */
  since: number;
  sinceTime: number;
  tries: number;
  words: string;
}

/** A set that cannot be written for now. */
export interface FailingWrite {
  set: PullerSet;
  message: string;
}

/** Fewer tries than these, or a shorter time than that for a Pod, are a hiccup: a webhook or an API server that restarts. */
const TRIES = 2;
const MAX_WORDS = 600;

/** Follows writes of DaemonSets of pullers that fail for a reason that is not of the set: for the time being none of its Pods can be had. */
export class FailingWrites {
  readonly #clocks: { now: () => number; monotonic: () => number };
  readonly #streaks = new Map<string, Streak>();

  /** @param clocks now: epoch ms; monotonic: ms that never jump */
  constructor(clocks: { now: () => number; monotonic: () => number }) {
    this.#clocks = clocks;
  }

  /** Sends a DaemonSet by `write`, and remembers whether that fails. */
  async follow<T>(object: KubeObject, write: () => Promise<T>): Promise<T> {
    const set = projectPullerSet(object);
    const key = keyOf(set);
    const [since, sinceTime] = [this.#clocks.monotonic(), this.#clocks.now()];
    try {
      const answer = await write();
      this.#streaks.delete(key);
      return answer;
    } catch (error) {
      const before = this.#streaks.get(key) ?? { since, sinceTime, tries: 0 };
      if (isOfServer(error)) this.#streaks.set(key, { ...before, set, tries: before.tries + 1, words: wordsOf(error as Error) });
      else this.#streaks.delete(key);
      throw error;
    }
  }

  /** Forgets sets of which nothing is to be written any more. */
  keep(wanted: readonly KubeObject[]): void {
    const keys = new Set(wanted.map(({ metadata }) => keyOf(metadata)));
    for (const key of this.#streaks.keys()) if (!keys.has(key)) this.#streaks.delete(key);
  }

  /** Those that have failed for longer than a hiccup. What they say changes only with the words of the API server. */
  told(): FailingWrite[] {
    const now = this.#clocks.monotonic();
    return [...this.#streaks]
      .filter(([, { tries, since }]) => tries >= TRIES && now - since >= POD_GRACE_MS)
      .map(([key, { set, sinceTime, words }]) => ({
        set,
        message: `DaemonSet ${key} cannot be written since ${formatTime(sinceTime)}: ${clip(words, MAX_WORDS)}; ${wayOut(words, set)}`,
      }));
  }
}

/**
 * Shows nodes that wait for such a write as what they are, nodes that get no Pod: the planner begins nothing more of the image, keeps
 * one of them on which to see that it is over, and says why.
 */
export function withFailing(world: World, failing: readonly FailingWrite[]): World {
  const pulls = new Map(world.pulls);
  for (const { set, message } of failing) {
    const states = new Map(pulls.get(set.hash));
    for (const [node, { state, doubtful, inFlight }] of states) {
      const waits = doubtful === true || (state === 'absent' && set.nodes.includes(node));
      if (waits && world.nodes.has(node))
        states.set(node, { state: 'failed', inFlight, doubtful: true, overdue: true, reason: 'NoPod', message });
    }
    pulls.set(set.hash, states);
  }
  return { ...world, pulls };
}

/** Without the end of the connection that is another one at each try: the status would be written anew each time. */
function wordsOf({ message }: Error): string {
  return message.replaceAll(/[\w.:[\]]+:\d+->/g, '');
}

function wayOut(words: string, { namespace }: PullerSet): string {
  return /failed calling webhook/i.test(words)
    ? `mend that admission webhook, or leave DaemonSets of namespace ${namespace} out of its rules; it is tried again every minute`
    : 'it is tried again every minute; if it stays so, look at the API server, its etcd and the network between';
}

function keyOf({ namespace = '', name }: { namespace?: string | undefined; name: string }): string {
  return `${namespace}/${name}`;
}
