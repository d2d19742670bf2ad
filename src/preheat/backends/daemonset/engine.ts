import type { Plan } from '../../planner.js';
import type { PullerSet } from '../../world.js';
import type { DaemonSet, ManifestOptions } from './manifest.js';
import { pullerManifest, pullerSetName } from './manifest.js';

type Grant = Plan['grants'] extends Map<string, infer G> ? G : never;

/** One change to the DaemonSets of pullers. */
export type EngineStep =
  | { do: 'create' | 'update'; hash: string; object: DaemonSet; image: string }
  | { do: 'delete'; set: { name: string; uid: string } };

export interface StepOptions extends ManifestOptions {
  /** Whether all pulls of an image failed and nothing of it is under way, so that making its Pods anew costs nothing. */
  idle?: (hash: string) => boolean;
}

/**
 * The steps from the sets that exist to those that the plan wants: the union of all grants, nothing else. Level-triggered and
 * pure: a set that nobody wants goes, one that was edited by hand is put right.
 */
export function engineSteps(grants: Plan['grants'], sets: readonly PullerSet[], options: StepOptions): EngineStep[] {
  const byHash = new Map(sets.map((s) => [s.hash, s]));
  const steps: EngineStep[] = [];
  for (const grant of grants.values()) {
    const step = stepFor(grant, byHash.get(grant.puller.hash), options);
    if (step !== undefined) steps.push(step);
  }
  for (const set of sets) {
    // A set of another name with our label is a stranger's or an older version's: nobody wants it either.
    const wanted = grants.get(set.hash)?.puller;
    if (!set.deleting && (wanted === undefined || pullerSetName(wanted) !== set.name)) steps.push({ do: 'delete', set });
  }
  return steps;
}

function stepFor({ puller, nodes }: Grant, existing: PullerSet | undefined, options: StepOptions): EngineStep | undefined {
  if (existing?.deleting === true) return undefined;
  // Pods keep the secrets they were made with: where all of them fail, only new ones can do better.
  if (existing !== undefined && !sameSecrets(existing, options) && options.idle?.(puller.hash) === true)
    return { do: 'delete', set: existing };
  if (existing !== undefined && asWanted(existing, { image: puller.image, nodes, options })) return undefined;
  return {
    do: existing === undefined ? 'create' : 'update',
    hash: puller.hash,
    object: pullerManifest(puller, nodes, options),
    image: puller.image,
  };
}

function asWanted(
  set: PullerSet,
  { image, nodes, options }: { image: string; nodes: ReadonlySet<string>; options: ManifestOptions },
): boolean {
  const sameNodes = set.nodes.length === nodes.size && set.nodes.every((n) => nodes.has(n));
  return sameNodes && set.image === image && set.program === options.program && sameSecrets(set, options);
}

function sameSecrets(set: PullerSet, { pullSecrets = [] }: ManifestOptions): boolean {
  return set.pullSecrets.length === pullSecrets.length && set.pullSecrets.every((name, i) => name === pullSecrets[i]);
}

export interface EnginePort {
  create(object: DaemonSet): Promise<unknown>;
  update(object: DaemonSet): Promise<unknown>;
  delete(set: { name: string; uid: string }): Promise<unknown>;
  /** Reads the reference of the image volume from what the API server stored. */
  storedImage(object: unknown): string | undefined;
  /** Why the API server will not have what was sent, in its words; undefined for a failure that may pass by itself. */
  refusal(error: unknown): string | undefined;
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

/** Shortest time between two edits of one set, ms: each edit is a ControllerRevision and a walk over all nodes. */
const EDIT_INTERVAL_MS = 1_000;
/** First and longest pause before a set is tried again, ms: what was refused needs a person, what failed only time. */
const PAUSE_MS = { refused: [5_000, 300_000], failed: [1_000, 60_000] } as const;

/** Carries out steps, not faster than the DaemonSet controller should be asked to follow. Each set fails for itself alone. */
export class Engine {
  readonly #port: EnginePort;
  readonly #edited = new Map<string, number>();
  /** By name of the set; gone with the next success. */
  readonly #troubles = new Map<string, Trouble>();
  /** Why pullers cannot be made on this cluster; undefined when they can. */
  problem: string | undefined;

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
    for (const step of steps) {
      const wait = this.#waitFor(step, now);
      if (wait > 0) waits.push(wait);
      else await this.#try(step, now);
    }
    // A refused set is granted nothing, so no step stands for it; its next attempt needs a plan all the same.
    waits.push(...[...this.#troubles.values()].map((t) => t.delayMs - Math.max(0, now - t.at)));
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
    return step.do === 'update' && edited !== undefined ? Math.max(pause, left(edited, EDIT_INTERVAL_MS, now)) : pause;
  }

  async #try(step: EngineStep, now: number): Promise<void> {
    const name = nameOf(step);
    try {
      await this.#step(step, now);
      this.#troubles.delete(name);
    } catch (error) {
      const refusal = error instanceof Unkept ? error.message : this.#port.refusal(error);
      const failures = (this.#troubles.get(name)?.failures ?? 0) + 1;
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
    this.#edited.set(name, now);
    const stored = await (step.do === 'create' ? this.#port.create(step.object) : this.#port.update(step.object));
    // An API server without image volumes drops the field without a word: the Pods would run and prove nothing.
    this.problem =
      this.#port.storedImage(stored) === step.image
        ? undefined
        : `the API server does not keep image volumes (DaemonSet ${name}): Kubernetes 1.35 or newer, or the feature gate ImageVolume, is needed`;
    if (this.problem !== undefined) throw new Unkept(this.problem);
  }
}

/** The API server took the object and left the image volume out. */
class Unkept extends Error {
  override readonly name = 'Unkept';
}

function nameOf(step: EngineStep): string {
  return step.do === 'delete' ? step.set.name : step.object.metadata.name;
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
