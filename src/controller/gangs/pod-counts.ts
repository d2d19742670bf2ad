import { gangIndex } from '../../gangs/identity.js';
import type { Headcount } from '../../gangs/shape.js';
import type { PodUse } from '../../placement/usage.js';

/** How many Pods of a gang are at work. */
export interface PodCount {
  running: number;
  /** Ran to their end, and are still there. */
  done: number;
}

/** @param at see gangIndex */
type CountHandler = (at: string, now: PodCount, before: PodCount) => void;

const NONE: PodCount = { running: 0, done: 0 };

/** Sums over the Pods of each gang, kept up by every change of a Pod: nobody walks over all Pods to learn whether a gang runs. */
export class GangCounts {
  readonly #counts = new Map<string, PodCount>();
  readonly #handlers: CountHandler[] = [];

  /** Takes in a change of one Pod; `undefined` for one that came or went. */
  note(now: PodUse | undefined, before: PodUse | undefined): void {
    // Of most changes of Pods that is all there is to do.
    if (fieldOf(now) === fieldOf(before) && now?.shape === before?.shape && now?.queuedAs === before?.queuedAs) return;
    const changes = new Map<string, PodCount>();
    add(changes, before, -1);
    add(changes, now, 1);
    for (const [at, { running, done }] of changes) if (running !== 0 || done !== 0) this.#change(at, running, done);
  }

  /** What there is of the Pods that a key of their gang is known by; see gangKeys. */
  of(namespace: string, key: string): PodCount {
    return this.#counts.get(gangIndex(namespace, key)) ?? NONE;
  }

  onChange(handler: CountHandler): void {
    this.#handlers.push(handler);
  }

  #change(at: string, running: number, done: number): void {
    const before = this.#counts.get(at) ?? NONE;
    const now = { running: before.running + running, done: before.done + done };
    if (now.running === 0 && now.done === 0) this.#counts.delete(at);
    else this.#counts.set(at, now);
    for (const handler of this.#handlers) handler(at, now, before);
  }
}

/**
 * Whether a gang runs as a whole. Pods that ran to their end did start, so they count until Kueue is told that they need no room any
 * more. Pods that failed do not: another one is made in their place, and may meet a node that has no image yet.
 */
export function allRun({ admitted, left, again }: Headcount, { running, done }: PodCount): boolean {
  return running >= left || (!again && running + done >= admitted);
}

function fieldOf(use: PodUse | undefined): keyof PodCount | undefined {
  return use?.state === 'running' || use?.state === 'done' ? use.state : undefined;
}

function add(changes: Map<string, PodCount>, use: PodUse | undefined, sign: 1 | -1): void {
  const field = fieldOf(use);
  if (use === undefined || field === undefined) return;
  const keys = use.queuedAs === undefined ? use.shape.gangs : [use.queuedAs, ...use.shape.gangs];
  for (const key of new Set(keys)) {
    const at = gangIndex(use.namespace, key);
    const change = changes.get(at) ?? { ...NONE };
    change[field] += sign;
    changes.set(at, change);
  }
}
