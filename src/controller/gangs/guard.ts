import { KubeError } from '../../kube/errors.js';

/** An object as it was read: its key and the version that a write tests for. */
export interface SeenObject {
  key: string;
  resourceVersion: string;
}

interface Mark {
  resourceVersion: string;
  /** Time after which a write of which nothing was heard has either been done or never will be. */
  until: number;
}

/** Longest that the API server goes on with a request whose caller has gone: its default request timeout of 60 s, and some, ms. */
const IN_DOUBT_MS = 90_000;

/** Answers of status 4xx mean that the object was not written; a missing answer may mean either. */
function wasRefused(error: unknown): boolean {
  return error instanceof KubeError && error.status >= 400 && error.status < 500 && error.status !== 408;
}

/** Writes that were begun, by key; each counts until the object shows another version than the one it was written over. */
class Marks {
  readonly #now: () => number;
  readonly #marks = new Map<string, Mark>();

  constructor(now: () => number) {
    this.#now = now;
  }

  has({ key, resourceVersion }: SeenObject): boolean {
    const mark = this.#marks.get(key);
    return mark !== undefined && mark.resourceVersion === resourceVersion && this.#now() < mark.until;
  }

  set({ key, resourceVersion }: SeenObject): void {
    this.#marks.set(key, { resourceVersion, until: Number.POSITIVE_INFINITY });
  }

  delete(key: string): void {
    this.#marks.delete(key);
  }

  /** The write failed: it does not count if it was refused, and for a while if nobody knows. */
  failed(key: string, error: unknown): void {
    const mark = this.#marks.get(key);
    if (wasRefused(error)) this.#marks.delete(key);
    else if (mark !== undefined) this.#marks.set(key, { ...mark, until: this.#now() + IN_DOUBT_MS });
  }
}

/**
 * Keeps two writers of this process apart for one gang: one that lets the gang go, one that changes the record of what it runs.
 * Caches show writes a moment later, over a connection that is half open minutes later; until then each side asks here what the
 * other one has begun. It holds nothing that matters after a restart: then both start from what the API server says.
 */
export class Guard {
  readonly #ready: Marks;
  readonly #moving: Marks;

  /** @param now milliseconds that never jump */
  constructor(now: () => number) {
    this.#ready = new Marks(now);
    this.#moving = new Marks(now);
  }

  /** A check of the Workload is about to become Ready. */
  lettingGo(workload: SeenObject): void {
    this.#ready.set(workload);
  }

  /** The write of the check has failed. */
  notLetGo(key: string, error: unknown): void {
    this.#ready.failed(key, error);
  }

  /** Whether this version of the Workload is one that a write of ours is about to replace by one whose check is Ready. */
  isLettingGo(workload: SeenObject): boolean {
    return this.#ready.has(workload);
  }

  /** The status of an ImagePrewarm is about to say that it is not Ready. */
  changing(prewarm: SeenObject): void {
    this.#moving.set(prewarm);
  }

  /** The write of the status has failed. */
  notChanged(key: string, error: unknown): void {
    this.#moving.failed(key, error);
  }

  /** Whether this version of the ImagePrewarm is one that a write of ours is about to replace. */
  isChanging(prewarm: SeenObject): boolean {
    return this.#moving.has(prewarm);
  }

  /** The Workload is gone. */
  forgetWorkload(key: string): void {
    this.#ready.delete(key);
  }

  /** The ImagePrewarm is gone, or stays as it is. */
  forgetPrewarm(key: string): void {
    this.#moving.delete(key);
  }
}
