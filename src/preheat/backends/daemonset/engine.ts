import type { Plan } from '../../planner.js';
import type { PullerSet } from '../../world.js';
import type { DaemonSet, ManifestOptions } from './manifest.js';
import { pullerManifest, pullerSetName } from './manifest.js';

/** One change to the DaemonSets of pullers. */
export type EngineStep =
  | { do: 'create'; object: DaemonSet; image: string }
  | { do: 'update'; object: DaemonSet; image: string }
  | { do: 'delete'; set: { name: string; uid: string } };

/**
 * The steps from the sets that exist to those that the plan wants: the union of all grants, nothing else. Level-triggered and
 * pure: a set that nobody wants goes, one that was edited by hand is put right.
 */
export function engineSteps(grants: Plan['grants'], sets: readonly PullerSet[], options: ManifestOptions): EngineStep[] {
  const byHash = new Map(sets.map((s) => [s.hash, s]));
  const steps: EngineStep[] = [];
  for (const { puller, nodes } of grants.values()) {
    const existing = byHash.get(puller.hash);
    if (existing?.deleting === true) continue;
    if (existing === undefined) steps.push({ do: 'create', object: pullerManifest(puller, nodes, options), image: puller.image });
    else if (!asWanted(existing, { image: puller.image, nodes, program: options.program })) {
      steps.push({ do: 'update', object: pullerManifest(puller, nodes, options), image: puller.image });
    }
  }
  for (const set of sets) {
    // A set of another name with our label is a stranger's or an older version's: nobody wants it either.
    const wanted = grants.get(set.hash)?.puller;
    if (!set.deleting && (wanted === undefined || pullerSetName(wanted) !== set.name)) steps.push({ do: 'delete', set });
  }
  return steps;
}

function asWanted(set: PullerSet, wanted: { image: string; nodes: ReadonlySet<string>; program: string }): boolean {
  const sameNodes = set.nodes.length === wanted.nodes.size && set.nodes.every((n) => wanted.nodes.has(n));
  return sameNodes && set.image === wanted.image && set.program === wanted.program;
}

export interface EnginePort {
  create(object: DaemonSet): Promise<unknown>;
  update(object: DaemonSet): Promise<unknown>;
  delete(set: { name: string; uid: string }): Promise<unknown>;
  /** Reads the reference of the image volume from what the API server stored. */
  storedImage(object: unknown): string | undefined;
}

/** Shortest time between two edits of one set, ms: each edit is a ControllerRevision and a walk over all nodes. */
const EDIT_INTERVAL_MS = 1_000;

/** Carries out steps, not faster than the DaemonSet controller should be asked to follow. */
export class Engine {
  readonly #port: EnginePort;
  readonly #edited = new Map<string, number>();
  /** Why pullers cannot be made on this cluster; undefined when they can. */
  problem: string | undefined;

  constructor(port: EnginePort) {
    this.#port = port;
  }

  /**
   * Resolves with the ms after which the rest is due, or undefined when all is done. A step that fails does not keep the others
   * from being tried; the first error is thrown at the end.
   */
  async run(steps: readonly EngineStep[], now: number): Promise<number | undefined> {
    let after: number | undefined;
    let failure: unknown;
    for (const step of steps) {
      const wait = step.do === 'update' ? this.#waitFor(step.object.metadata.name, now) : 0;
      if (wait > 0) {
        after = Math.min(after ?? wait, wait);
        continue;
      }
      try {
        await this.#step(step, now);
      } catch (error) {
        failure ??= error;
      }
    }
    if (failure !== undefined) throw failure as Error;
    return after;
  }

  #waitFor(name: string, now: number): number {
    const last = this.#edited.get(name);
    // A clock that was set back must not block edits until it has caught up.
    return last === undefined || now < last ? 0 : Math.max(0, last + EDIT_INTERVAL_MS - now);
  }

  async #step(step: EngineStep, now: number): Promise<void> {
    if (step.do === 'delete') {
      this.#edited.delete(step.set.name);
      await this.#port.delete(step.set);
      return;
    }
    const { name } = step.object.metadata;
    this.#edited.set(name, now);
    const stored = await (step.do === 'create' ? this.#port.create(step.object) : this.#port.update(step.object));
    // An API server without image volumes drops the field without a word: the Pods would run and prove nothing.
    this.problem = this.#port.storedImage(stored) === step.image ? undefined : `the API server does not keep image volumes (DaemonSet ${name}): Kubernetes 1.36, or the feature gate ImageVolume, is needed`;
    if (this.problem !== undefined) throw new Error(this.problem);
  }
}
