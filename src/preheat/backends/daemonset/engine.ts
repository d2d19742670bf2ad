import type { DaemonSet } from './manifest.js';
import type { EngineStep } from './steps.js';

export interface EnginePort {
  create(object: DaemonSet): Promise<unknown>;
  update(object: DaemonSet): Promise<unknown>;
  delete(set: { namespace: string; name: string; uid: string }): Promise<unknown>;
  /** Reads the reference of the image to be warmed from what the API server stored. */
  storedImage(object: unknown): string | undefined;
  /**
   * Why the API server will not have what was sent, in its words; undefined for a failure that may pass by itself.
   * @param failure how many attempts in a row have failed, this one among them
   */
  refusal(error: unknown, failure: { step: EngineStep; failures: number }): string | undefined;
  /** Whether sets are to be made without image volumes where the API server drops them. */
  fallsBack(): boolean;
  /** Hears once that the API server drops them. */
  dropped(set: string): void;
  /** Hears of every step that failed, for the log. */
  failed(failure: { set: string; error: unknown; retryInMs: number }): void;
}

/** What the last attempt at one set came to. */
interface Trouble {
  hash: string | undefined;
  at: number;
  delayMs: number;
  failures: number;
  refusal: string | undefined;
}

/** Shortest time between two edits of one set, ms: each edit is a ControllerRevision and a walk over all nodes, so more for more nodes. */
const EDIT_INTERVAL_MS = 1_000;
const EDIT_INTERVAL_PER_NODE_MS = 4;
/** First and longest pause before a set is tried again, ms: what was refused needs a person, what failed only time. */
const PAUSE_MS = { refused: [5_000, 300_000], failed: [1_000, 60_000] } as const;

/** Carries out steps, not faster than the DaemonSet controller should be asked to follow. Each set fails for itself alone. */
export class Engine {
  readonly #port: EnginePort;
  /** By `namespace/name` of the set. */
  readonly #edited = new Map<string, { at: number; nodes: number }>();
  /** By `namespace/name` of the set; gone with the next success. */
  readonly #troubles = new Map<string, Trouble>();
  /** Why pullers cannot be made on this cluster; undefined when they can. */
  problem: string | undefined;
  /** The API server was seen to leave image volumes out. Learnt anew after a restart, since it may have been upgraded meanwhile. */
  dropsImageVolumes = false;

  constructor(port: EnginePort) {
    this.#port = port;
  }

  /**
   * Why pullers are refused, by hash, as long as they are not due to be tried again: a planner that knows begins nothing with
   * them, and one that does not grants them anew.
   */
  refused(now: number): ReadonlyMap<string, string> {
    const all = [...this.#troubles.values()].filter((t) => left(t.at, t.delayMs, now) > 0);
    return new Map(
      all.flatMap(({ hash, refusal }) => (hash === undefined || refusal === undefined ? [] : [[hash, refusal] as const])),
    );
  }

  /** Resolves with the ms after which something is due, or undefined when all is done; never rejects. */
  async run(steps: readonly EngineStep[], now: number): Promise<number | undefined> {
    this.#forget(steps, now);
    const waits: number[] = [];
    const keptVolumes = !this.dropsImageVolumes;
    for (const step of steps) {
      const wait = this.#waitFor(step, now);
      if (wait > 0) waits.push(wait);
      else await this.#try(step, now);
    }
    // A refused set is granted nothing, so no step stands for it; its next attempt needs a plan all the same.
    waits.push(...[...this.#troubles.values()].map((t) => t.delayMs - Math.max(0, now - t.at)));
    // What was just learnt asks for other steps at once.
    if (keptVolumes && this.dropsImageVolumes && this.#port.fallsBack()) waits.push(0);
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  /** Troubles that are due and for which nothing is wanted any more. */
  #forget(steps: readonly EngineStep[], now: number): void {
    const names = new Set(steps.map(nameOf));
    for (const [name, t] of this.#troubles) if (left(t.at, t.delayMs, now) <= 0 && !names.has(name)) this.#troubles.delete(name);
  }

  #waitFor(step: EngineStep, now: number): number {
    const [trouble, edited] = [this.#troubles.get(nameOf(step)), this.#edited.get(nameOf(step))];
    const pause = trouble === undefined ? 0 : left(trouble.at, trouble.delayMs, now);
    if (step.do !== 'update' || edited === undefined) return pause;
    return Math.max(pause, left(edited.at, EDIT_INTERVAL_MS + EDIT_INTERVAL_PER_NODE_MS * edited.nodes, now));
  }

  async #try(step: EngineStep, now: number): Promise<void> {
    const name = nameOf(step);
    try {
      await this.#step(step, now);
      this.#troubles.delete(name);
    } catch (error) {
      const failures = (this.#troubles.get(name)?.failures ?? 0) + 1;
      const refusal = error instanceof Unkept ? error.message : this.#port.refusal(error, { step, failures });
      const delayMs = pauseMs(error, { failures, refused: refusal !== undefined });
      this.#troubles.set(name, { hash: step.do === 'delete' ? undefined : step.hash, at: now, delayMs, failures, refusal });
      this.#port.failed({ set: name, error, retryInMs: delayMs });
    }
  }

  async #step(step: EngineStep, now: number): Promise<void> {
    const name = nameOf(step);
    if (step.do === 'delete') {
      this.#edited.delete(name);
      await this.#port.delete(step.set);
      return;
    }
    const { nodes } = step;
    this.#edited.set(name, { at: now, nodes });
    const stored = await (step.do === 'create' ? this.#port.create(step.object) : this.#port.update(step.object));
    // An API server without image volumes drops the field without a word: the Pods would run and prove nothing.
    const kept = this.#port.storedImage(stored) === step.image;
    if (!kept && !this.dropsImageVolumes) {
      this.dropsImageVolumes = true;
      this.#port.dropped(name);
    }
    this.problem =
      kept || this.#port.fallsBack()
        ? undefined
        : `the API server does not keep image volumes (DaemonSet ${name}): Kubernetes 1.35 or newer, the feature gate ImageVolume, or pullers.method Auto or Container is needed`;
    if (this.problem !== undefined) throw new Unkept(this.problem);
  }
}

/** The API server took the object and left the image volume out. */
class Unkept extends Error {
  override readonly name = 'Unkept';
}

function nameOf(step: EngineStep): string {
  const { namespace, name } = step.do === 'delete' ? step.set : step.object.metadata;
  return `${namespace ?? ''}/${name}`;
}

/** What is left of a pause. A clock that was set back must not block until it has caught up. */
function left(at: number, pause: number, now: number): number {
  return now < at ? 0 : Math.max(0, at + pause - now);
}

function pauseMs(error: unknown, { failures, refused }: { failures: number; refused: boolean }): number {
  const [first, longest] = refused ? PAUSE_MS.refused : PAUSE_MS.failed;
  const asked = (error as { retryAfterMs?: unknown } | undefined)?.retryAfterMs;
  return Math.max(Math.min(longest, first * 2 ** Math.min(failures - 1, 20)), typeof asked === 'number' ? asked : 0);
}
