import type { KubeObject } from '../../../src/api/object.js';

/** An object as the API server gave it. */
export type Raw = KubeObject & Record<string, unknown>;

/** One change of one object, as a watch told it. */
export interface Change {
  /** Epoch ms at which it was stored, or seen first where only a watch was there to tell. */
  at: number;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: Raw;
}

/** Changes of all objects in the order in which they were made. */
export type History = readonly Change[];

/** What the disk of a machine really had: told by kubelets, never by the objects under test. */
export interface ImageTruth {
  at: number;
  node: string;
  /** `sha256:...` of what was asked for. */
  digest: string;
  there: boolean;
}

/** A stretch in which the kubelet of a machine said nothing, whatever became of it. */
export interface Silence extends Period {
  node: string;
}

/** A pull for a puller Pod that really ran on a machine, from its first byte to its last. */
export interface PullTruth {
  node: string;
  digest: string;
  /** Host of the registry. */
  registry: string;
  from: number;
  /** Infinity while it runs. */
  to: number;
  begunBy: BegunBy;
}

/**
 * Who began a pull: the planner, by its grant; a kubelet that tried once more after a failure, at a time of its own choice; or a person
 * who wrote the node into a DaemonSet of pullers.
 */
export type BegunBy = 'planner' | 'kubelet' | 'person';

/** A stretch of time, epoch ms. */
export interface Period {
  from: number;
  to: number;
}

/** A promise that was not kept. */
export interface Violation {
  promise: 'P3' | 'P4' | 'P5' | 'P6' | 'P7' | 'budgets';
  /** Epoch ms. */
  at: number;
  /** `Kind namespace/name`. */
  object: string;
  message: string;
}

/** The life of one object: its versions in order, and when it went. */
export interface Life {
  uid: string;
  kind: string;
  versions: { at: number; object: Raw }[];
  /** Infinity while it lives. */
  goneAt: number;
}

/** The lives of all objects of a kind, by UID: a name that is used again is another object. */
export function livesOf(history: History, kind: string): Life[] {
  const lives = new Map<string, Life>();
  for (const { at, type, object } of history) {
    if (object.kind !== kind) continue;
    const uid = object.metadata.uid ?? '';
    const life = lives.get(uid) ?? { uid, kind, versions: [], goneAt: Number.POSITIVE_INFINITY };
    lives.set(uid, life);
    if (type === 'DELETED') life.goneAt = at;
    else life.versions.push({ at, object });
  }
  return [...lives.values()].filter((l) => l.versions.length > 0);
}

/** The version that stood at a time; undefined before it was made and after it went. */
export function versionAt({ versions, goneAt }: Life, at: number): Raw | undefined {
  if (at >= goneAt) return undefined;
  return versions.findLast((v) => v.at <= at)?.object;
}

/** Every version that stood at some time of a period. */
export function standing({ versions, goneAt }: Life, { from, to }: Period): Raw[] {
  return versions.flatMap((v, i) => (v.at <= to && (versions[i + 1]?.at ?? goneAt) > from ? [v.object] : []));
}

/** `Kind namespace/name`, for messages. */
export function nameOf({ kind, metadata: { namespace, name } }: Raw): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;
}

/** Of a period what no other one covers, in ms. */
export function uncovered({ from, to }: Period, covers: readonly Period[]): number {
  const sorted = [...covers].sort((a, b) => a.from - b.from);
  let [left, at] = [0, from];
  for (const cover of sorted) {
    if (cover.to <= at || cover.from >= to) continue;
    left += Math.max(0, cover.from - at);
    at = Math.max(at, cover.to);
  }
  return left + Math.max(0, to - at);
}
