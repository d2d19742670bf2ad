import { record } from '../api/json.js';
import { ANNOTATION, LABEL } from '../api/names.js';
import type { Verdict } from './decide.js';
import type { PodView } from './pod-view.js';

/** RFC 6902 operations; `test` is missing on purpose: one that fails makes the API server refuse the Pod. */
export type PatchOp = { op: 'add' | 'replace'; path: string; value: unknown } | { op: 'remove'; path: string };

/**
 * Total bytes of annotations above which the decisions are left out. The API server refuses a Pod above 256 KiB, and a
 * later mutating webhook may need the rest.
 */
export const MAX_ANNOTATION_BYTES = 200 * 1024;

/**
 * The smallest patch that carries out the verdicts: images that change, the decisions annotation, and the label of Pods that run
 * a variant. Every path was seen in this very review, so the patch always applies. Empty when nothing changes.
 */
export function buildPatch(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
  const accelerated = verdicts.some(({ decision }) => decision.outcome === 'accelerated');
  return [...imageOps(verdicts), ...annotationOps(pod, verdicts), ...(accelerated ? labelOps(pod) : [])];
}

/** The images that change, alone: all that a subresource lets through. */
export function imageOps(verdicts: readonly Verdict[]): PatchOp[] {
  return verdicts.flatMap(({ decision, container }) => {
    return decision.image === container.image ? [] : [{ op: 'replace', path: container.pointer, value: decision.image } as const];
  });
}

/** Removes a decisions annotation that came in with a Pod about which nothing is decided. */
export function forgetDecisions(pod: PodView): PatchOp[] {
  return annotationOps(pod, []);
}

function annotationOps(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
  const key = ANNOTATION.decisions;
  const present = pod.annotations[key];
  const wanted = verdicts.length === 0 ? undefined : JSON.stringify(verdicts.map((v) => v.decision));
  if (wanted !== undefined && bytesOf(pod.annotations, key) + Buffer.byteLength(key + wanted) <= MAX_ANNOTATION_BYTES) {
    return present === wanted ? [] : addKey(pod, 'annotations', key, wanted);
  }
  // What stands there was written by somebody else, or no longer fits: it must not pass for a decision of ours.
  return metadataMap(pod, 'annotations').keys.has(key) ? [{ op: 'remove', path: pointer('metadata', 'annotations', key) }] : [];
}

/**
 * A label that is there already stays, whatever its value: a ReplicaSet may select by it, and a Pod that no longer matches its
 * owner's selector is made again and again.
 */
function labelOps(pod: PodView): PatchOp[] {
  return metadataMap(pod, 'labels').keys.has(LABEL.accelerated) ? [] : addKey(pod, 'labels', LABEL.accelerated, 'true');
}

function addKey(pod: PodView, map: 'annotations' | 'labels', key: string, value: string): PatchOp[] {
  switch (metadataMap(pod, map).state) {
    case 'map':
      return [{ op: 'add', path: pointer('metadata', map, key), value }];
    case 'none':
      return [{ op: 'add', path: pointer('metadata', map), value: { [key]: value } }];
    case 'other':
      return [];
  }
}

/** Absent and null maps are added whole; something that is no map is for the API server to refuse. */
function metadataMap(
  pod: PodView,
  map: 'annotations' | 'labels',
): { state: 'map' | 'none' | 'other'; keys: ReadonlySet<string> } {
  const value = record(pod.raw['metadata'])?.[map];
  const present = record(value);
  if (present !== undefined) return { state: 'map', keys: new Set(Object.keys(present)) };
  return { state: value === undefined || value === null ? 'none' : 'other', keys: new Set() };
}

/** JSON pointer of a path. Rule: RFC 6901 section 3, `~` is written ~0 and `/` ~1. */
export function pointer(...path: readonly string[]): string {
  return path.map((part) => `/${part.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

function bytesOf(annotations: Readonly<Record<string, string>>, except: string): number {
  return Object.entries(annotations).reduce(
    (sum, [key, value]) => (key === except ? sum : sum + Buffer.byteLength(key) + Buffer.byteLength(value)),
    0,
  );
}
