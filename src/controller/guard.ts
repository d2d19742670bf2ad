import type { Clock } from '../observe/clock.js';

/** How long a write of ours may take to show in the cache, ms. */
const IN_DOUBT_MS = 10_000;

/**
 * Keeps two writers of this process apart for one gang: one that lets the gang go, one that changes the record of what it runs.
 * Caches show writes a moment later; in between each side asks here what the other one has begun. It holds nothing that matters
 * after a restart: then both start from what the API server says.
 */
export class Guard {
  readonly #clock: Clock;
  readonly #ready = new Map<string, number>();
  readonly #moving = new Map<string, string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A check of the Workload is about to become Ready. */
  lettingGo(workloadUid: string): void {
    for (const [uid, until] of this.#ready) if (this.#clock.now() >= until) this.#ready.delete(uid);
    this.#ready.set(workloadUid, this.#clock.now() + IN_DOUBT_MS);
  }

  /** A check of the Workload is about to become Pending: only what the API server says counts from now on. */
  takingBack(workloadUid: string): void {
    this.#ready.delete(workloadUid);
  }

  isLettingGo(workloadUid: string): boolean {
    return this.#clock.now() < (this.#ready.get(workloadUid) ?? 0);
  }

  /** The status of an ImagePrewarm that was read at `resourceVersion` is about to say that it is not Ready. */
  changing(key: string, resourceVersion: string): void {
    this.#moving.set(key, resourceVersion);
  }

  /** Whether the cached object at `resourceVersion` is one that a write of ours is about to replace. */
  isChanging(key: string, resourceVersion: string): boolean {
    if (this.#moving.get(key) === resourceVersion) return true;
    this.#moving.delete(key);
    return false;
  }
}
