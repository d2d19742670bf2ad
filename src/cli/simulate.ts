import { changesImage } from '../api/outcomes.js';
import type { Decision, Outcome } from '../api/outcomes.js';
import type { Explainer, Explanation } from './explain.js';
import type { PodQuestion } from './ground.js';
import type { Entry, Manifest, Problem } from './manifests.js';
import { namespaceOf, titleOf } from './objects.js';
import { podsOf } from './pods-of.js';

/** What would become of the Pods of one object, for one Pod template in it. */
export interface SimulatedPod {
  object: string;
  file: string;
  line: number;
  namespace: string;
  /** Why the webhook would not look at the Pod at all. */
  unseen?: string;
  /** Why it is not known whether the webhook would change the Pod. */
  unsure?: string;
  images: readonly Decision[];
}

/** Distinct images and their bytes. */
export interface Count {
  images: number;
  bytes: number;
}

export interface Summary {
  objects: number;
  pods: number;
  /** Containers and image volumes. */
  containers: number;
  /** Distinct images by outcome; `unseen` are those of Pods that the webhook does not look at, `owner-unknown` those without a verdict. */
  byOutcome: Readonly<Record<string, Count>>;
  /** Containers whose image would be changed, would be left although a policy speaks of it, and what could not be read or looked up. */
  changed: number;
  left: number;
  problems: number;
}

export type Item = { pod: SimulatedPod } | { problem: Problem };

export interface SimulateOptions {
  explainer: Pick<Explainer, 'pod'>;
  /** Namespace of objects that name none. */
  namespace?: string | undefined;
}

/** Outcomes that say nothing against the image: nobody wanted it changed. */
const INDIFFERENT: ReadonlySet<Outcome> = new Set(['no-policy', 'already-accelerated']);
/** Outcomes of look-ups that did not come to an end. */
const FAILED: ReadonlySet<Outcome> = new Set(['unparsable', 'registry-error', 'auth-denied', 'budget-exceeded', 'circuit-open']);
/** Objects that are judged at once: as many questions are on their way to registries. */
const WINDOW = 16;

/** Judges manifests as they come, in their order, and adds up. */
export class Simulation {
  readonly #options: SimulateOptions;
  readonly #counts = new Map<string, Count>();
  readonly #seen = new Set<string>();
  #objects = 0;
  #pods = 0;
  #containers = 0;
  #changed = 0;
  #left = 0;
  #problems = 0;

  constructor(options: SimulateOptions) {
    this.#options = options;
  }

  get summary(): Summary {
    const byOutcome = Object.fromEntries([...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1)));
    const [objects, pods, containers] = [this.#objects, this.#pods, this.#containers];
    return { objects, pods, containers, byOutcome, changed: this.#changed, left: this.#left, problems: this.#problems };
  }

  /** At most a window of objects is held at a time, however large the folder. */
  async *run(entries: AsyncIterable<Entry>): AsyncGenerator<Item> {
    let window: Promise<Item[]>[] = [];
    for await (const entry of entries) {
      if ('problem' in entry) {
        this.#problems++;
        window.push(Promise.resolve([entry]));
      } else window.push(this.#judge(entry.manifest));
      if (window.length < WINDOW) continue;
      for (const items of await Promise.all(window)) yield* items;
      window = [];
    }
    for (const items of await Promise.all(window)) yield* items;
  }

  async #judge(manifest: Manifest): Promise<Item[]> {
    const { object } = manifest;
    const pods = podsOf(object);
    if (pods.length > 0) this.#objects++;
    const namespace = namespaceOf(object, this.#options.namespace);
    return Promise.all(
      pods.map(({ path, ...pod }) => this.#pod(manifest, titleOf(object, path, this.#options.namespace), { namespace, ...pod })),
    );
  }

  async #pod({ file, line }: Manifest, title: string, question: PodQuestion): Promise<Item> {
    this.#pods++;
    try {
      const { namespace, unseen, unsure, containers } = await this.#options.explainer.pod(question);
      const open = unseen === undefined ? (unsure === undefined ? undefined : 'owner-unknown') : 'unseen';
      for (const explanation of containers) this.#count(explanation, open);
      const images = containers.map(({ decision }) => decision);
      const why = { ...(unseen === undefined ? {} : { unseen }), ...(unsure === undefined ? {} : { unsure }) };
      return { pod: { object: title, file, line, namespace, ...why, images } };
    } catch (error) {
      this.#problems++;
      return { problem: { file, line, message: `${title}: ${(error as Error).message}` } };
    }
  }

  #count({ decision, already, sizeBytes = 0 }: Explanation, open: 'unseen' | 'owner-unknown' | undefined): void {
    const { outcome, source } = decision;
    this.#containers++;
    if (open === undefined) {
      if (changesImage(outcome) && !already) this.#changed++;
      if (isLeft(outcome)) this.#left++;
      if (FAILED.has(outcome)) this.#problems++;
    }
    const name = open ?? outcome;
    const key = `${name} ${source}`;
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const { images, bytes } = this.#counts.get(name) ?? { images: 0, bytes: 0 };
    this.#counts.set(name, { images: images + 1, bytes: bytes + sizeBytes });
  }
}

/** Whoever skips a Pod, a container or a policy on purpose has been heard. */
function isLeft(outcome: Outcome): boolean {
  return !changesImage(outcome) && !INDIFFERENT.has(outcome) && !outcome.startsWith('skipped-');
}
