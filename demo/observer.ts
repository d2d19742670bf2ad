import type { ClusterClient, Raw } from '../test/cluster/client.js';
import type { Observation, Seen } from './gang-times.js';

/** A condition that did not hold in time; the message holds the last state that was seen. */
export class NotObserved extends Error {}

export interface WaitOptions<T> {
  what: string;
  /** Looks at the caches of the observer; anything but undefined and false ends the wait. */
  probe: () => T | undefined | false;
  timeoutMs: number;
  /** What to print of the state when time is up. */
  last: () => unknown;
}

/** Pause before a watch is begun anew. */
const RETRY_MS = 200;

/**
 * Follows some resources of the API server by watches of its own and remembers every event with the time of its arrival. All that the
 * demo says was observed comes from here.
 */
export class Observer {
  readonly observations: Observation[] = [];
  readonly #client: ClusterClient;
  readonly #signal: AbortSignal;
  readonly #objects = new Map<string, Map<string, Raw>>();
  #wake: (() => void)[] = [];

  constructor(client: ClusterClient, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#changed(), { once: true });
  }

  /** Starts to follow a kind (`v1/Pod`) under a short name; resolves when all existing objects are in. */
  async follow(resource: string, kind: string): Promise<void> {
    this.#objects.set(resource, new Map());
    let synced = false;
    let problem = 'no answer yet';
    void this.#run(resource, kind, (state) => {
      synced ||= state === undefined;
      problem = state ?? problem;
      this.#changed();
    });
    await this.wait({ what: `the first list of ${kind}`, probe: () => synced, timeoutMs: 30_000, last: () => problem });
  }

  list(resource: string): Raw[] {
    return [...(this.#objects.get(resource)?.values() ?? [])];
  }

  get(resource: string, namespace: string, name: string): Raw | undefined {
    return this.list(resource).find((o) => o.metadata.name === name && (o.metadata.namespace ?? '') === namespace);
  }

  /** Resolves with the first answer of `probe`, which is asked again after each event. */
  async wait<T>({ what, probe, timeoutMs, last }: WaitOptions<T>): Promise<T> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      this.#signal.throwIfAborted();
      const answer = probe();
      if (answer !== undefined && answer !== false) return answer;
      const left = deadline - Date.now();
      if (left <= 0)
        throw new NotObserved(
          `${what}: not observed within ${timeoutMs / 1000} s.\nLast state: ${JSON.stringify(last(), null, 2)}`,
        );
      await this.#nextEvent(left);
    }
  }

  // A watch that ends or is refused (429 while the API server fills its cache) is begun anew; its first events then are the state, and what is
  // not among them was deleted meanwhile. `report` gets undefined when the state is complete, or the problem.
  async #run(resource: string, kind: string, report: (problem?: string) => void): Promise<void> {
    while (!this.#signal.aborted) {
      try {
        await this.#watchOnce(resource, kind, () => report());
      } catch (error) {
        report(error instanceof Error ? error.message : String(error));
      }
      await this.#nextEvent(RETRY_MS);
    }
  }

  async #watchOnce(resource: string, kind: string, synced: () => void): Promise<void> {
    const first = new Set<string>();
    let complete = false;
    for await (const { type, object } of this.#client.watch(kind, { signal: this.#signal })) {
      if (type !== 'BOOKMARK') {
        first.add(object.metadata.uid);
        this.#take(resource, type, object);
        continue;
      }
      if (!complete) this.#dropAllBut(resource, first);
      complete = true;
      synced();
    }
  }

  #take(resource: string, type: Observation['type'], object: Raw): void {
    const cache = this.#objects.get(resource) ?? new Map<string, Raw>();
    const before = cache.get(object.metadata.uid);
    if (type !== 'DELETED' && before?.metadata.resourceVersion === object.metadata.resourceVersion) return;
    if (type === 'DELETED') cache.delete(object.metadata.uid);
    else cache.set(object.metadata.uid, object);
    this.observations.push({ at: Date.now(), resource, type, object: object as Seen });
    this.#changed();
  }

  #dropAllBut(resource: string, uids: ReadonlySet<string>): void {
    for (const [uid, object] of this.#objects.get(resource) ?? []) if (!uids.has(uid)) this.#take(resource, 'DELETED', object);
  }

  #changed(): void {
    const waiting = this.#wake;
    this.#wake = [];
    for (const wake of waiting) wake();
  }

  #nextEvent(ms: number): Promise<void> {
    return new Promise((done) => {
      const timer = setTimeout(done, Math.min(ms, 1000));
      this.#wake.push(() => {
        clearTimeout(timer);
        done();
      });
    });
  }
}
