import type { ClusterClient, Raw } from './client.js';
import { GiveUp, notYet, until } from './until.js';

/**
 * Every version of one object from now on, by a watch: a state that lasts for less than a look at the object takes is not missed, and
 * what came before a failure can be printed. It ends with the API server's connection, so it is not for tests that restart one.
 */
export class History {
  readonly #versions: Raw[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #next = 0;
  #problem: Error | undefined;

  /** Follows the objects of `kind` that `mine` accepts; the object need not exist yet. */
  constructor(client: ClusterClient, kind: string, namespace: string, mine: (object: Raw) => boolean) {
    this.#running = this.#follow(client.watch(kind, { namespace, signal: this.#stop.signal }), mine).catch((error: Error) => {
      if (!this.#stop.signal.aborted) this.#problem = error;
    });
  }

  /** The first version that `check` accepts, not older than the one of the last call; prints all since then when there is none. */
  async reaches(what: string, check: (object: Raw) => boolean, timeoutMs = 30_000): Promise<Raw> {
    return until(
      what,
      () => {
        const at = this.#versions.findIndex((version, i) => i >= this.#next && check(version));
        if (at >= 0) {
          this.#next = at;
          return this.#versions[at] as Raw;
        }
        if (this.#problem !== undefined) throw new GiveUp(`the watch ended: ${this.#problem.message}`);
        return notYet(this.#versions.slice(this.#next).map((version) => version['status']));
      },
      { timeoutMs },
    );
  }

  /** All so far, for what has to be true of each of them. */
  get versions(): readonly Raw[] {
    return this.#versions;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #follow(events: AsyncGenerator<{ type: string; object: Raw }>, mine: (object: Raw) => boolean): Promise<void> {
    for await (const { type, object } of events) if (type !== 'BOOKMARK' && mine(object)) this.#versions.push(object);
    throw new Error('the server closed it');
  }
}
