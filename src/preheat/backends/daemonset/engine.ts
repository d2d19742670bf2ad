import type { DaemonSet } from './manifest.js';
import type { PullerSet } from '../../world.js';
import { templatePrint } from './print.js';
import type { Altered, EngineStep } from './steps.js';

export interface EnginePort {
  create(object: DaemonSet): Promise<unknown>;
  update(object: DaemonSet): Promise<unknown>;
  delete(set: { namespace: string; name: string; uid: string }): Promise<unknown>;
  /** Reads what the API server stored. */
  stored(object: unknown): Pick<PullerSet, 'image' | 'print'> | undefined;
  /**
   * Why the API server will not have what was sent, in its words; undefined for a failure that may pass by itself.
   * @param failure how many attempts in a row have failed, this one among them
   */
  refusal(error: unknown, failure: { step: EngineStep; failures: number }): string | undefined;
  /** Whether sets are to be made without image volumes where the API server drops them. */
  fallsBack(): boolean;
  /** Hears once that the API server drops them. */
  dropped(set: string): void;
  /** Hears that the API server keeps another template than was sent, whenever it is another one than before. */
  altered(set: string): void;
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

/** Most sets of which is remembered that they were altered; of one that is forgotten one needless edit is made. */
const MAX_ALTERED = 5_000;
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
  /** By `namespace/name` of the set; see StepOptions. */
  readonly #altered = new Map<string, Altered>();
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

  /** How many sets it has in mind: none for longer than something is to be waited for, unless their template was altered. */
  get remembered(): number {
    return new Set([...this.#edited.keys(), ...this.#troubles.keys(), ...this.#altered.keys()]).size;
  }

  /** What the API server made of the template of a set when it was last written; undefined where it kept it. Not known after a restart. */
  altered({ namespace, name }: Pick<PullerSet, 'namespace' | 'name'>): Altered | undefined {
    return this.#altered.get(`${namespace}/${name}`);
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
    // A refused set is granted nothing, so no step stands for it; its next attempt needs a plan all the same. For others the step tells.
    const asked = new Map(steps.map((s) => [nameOf(s), s]));
    for (const [name, t] of this.#troubles) {
      const step = asked.get(name);
      waits.push(step === undefined ? left(t.at, t.delayMs, now) : this.#waitFor(step, now));
    }
    // What was just learnt asks for other steps at once.
    if (keptVolumes && this.dropsImageVolumes && this.#port.fallsBack()) waits.push(0);
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  /** Edits that hold up nothing any more, and troubles that are due and for which nothing is wanted. */
  #forget(steps: readonly EngineStep[], now: number): void {
    for (const [name, edit] of this.#edited) if (editPause(edit, now) <= 0) this.#edited.delete(name);
    const names = new Set(steps.map(nameOf));
    for (const [name, t] of this.#troubles) if (left(t.at, t.delayMs, now) <= 0 && !names.has(name)) this.#troubles.delete(name);
  }

  #waitFor(step: EngineStep, now: number): number {
    const [trouble, edited] = [this.#troubles.get(nameOf(step)), this.#edited.get(nameOf(step))];
    const pause = trouble === undefined ? 0 : left(trouble.at, trouble.delayMs, now);
    if (step.do !== 'update' || edited === undefined) return pause;
    return Math.max(pause, editPause(edited, now));
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
      this.#altered.delete(name);
      await this.#port.delete(step.set);
      return;
    }
    const { nodes } = step;
    this.#edited.set(name, { at: now, nodes });
    const answer = await (step.do === 'create' ? this.#port.create(step.object) : this.#port.update(step.object));
    const stored = this.#port.stored(answer);
    if (stored !== undefined) this.#compare(name, step, stored.print);
    // An API server without image volumes drops the field without a word: the Pods would run and prove nothing.
    const kept = stored?.image === step.image;
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

  #compare(name: string, { do: by, object }: Extract<EngineStep, { object: unknown }>, stored: string): void {
    const sent = templatePrint(object.spec.template);
    const before = this.#altered.get(name);
    this.#altered.delete(name);
    if (stored === sent) return;
    this.#altered.set(name, { sent, stored, by });
    const [oldest] = this.#altered.keys();
    if (this.#altered.size > MAX_ALTERED && oldest !== undefined) this.#altered.delete(oldest);
    if (before?.stored !== stored) this.#port.altered(name);
  }
}

/** What is left of the pause after an edit. */
function editPause({ at, nodes }: { at: number; nodes: number }, now: number): number {
  return left(at, EDIT_INTERVAL_MS + EDIT_INTERVAL_PER_NODE_MS * nodes, now);
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
