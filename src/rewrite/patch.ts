import { record } from '../api/json.js';
import { ANNOTATION, LABEL } from '../api/names.js';
import type { Verdict } from './situation.js';
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
 * a variant. Every path was seen in this very review, so the patch always applies. Empty when nothing changes. Without verdicts only a
 * decisions annotation goes that came in with the Pod.
 */
export function buildPatch(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
  return [...imageOps(verdicts), ...annotationOps(pod, verdicts), ...labelOps(pod, verdicts)];
}

/** The images that change, alone: all that a subresource lets through. */
export function imageOps(verdicts: readonly Verdict[]): PatchOp[] {
  return verdicts.flatMap(({ decision, container }) => {
    return decision.image === container.image ? [] : [{ op: 'replace', path: container.pointer, value: decision.image } as const];
  });
}

function annotationOps(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
  const key = ANNOTATION.decisions;
  const present = pod.annotations[key];
  // A Pod that opted out carries nothing of ours, but for what could not be taken back.
  const decisions = verdicts.map((v) => v.decision).filter(({ outcome }) => outcome !== 'skipped-opt-out');
  const wanted = decisions.length === 0 ? undefined : JSON.stringify(decisions);
  if (wanted !== undefined && bytesOf(pod.annotations, key) + Buffer.byteLength(key + wanted) <= MAX_ANNOTATION_BYTES) {
    return present === wanted ? [] : addKey(pod, 'annotations', key, wanted);
  }
  // What stands there was written by somebody else, or no longer fits: it must not pass for a decision of ours.
  return metadataMap(pod, 'annotations').has(key) ? [{ op: 'remove', path: pointer('metadata', 'annotations', key) }] : [];
}

/**
 * A label that is there already stays, whatever its value: a ReplicaSet may select by it, and a Pod that no longer matches its
 * owner's selector is made again and again. Ours goes where this call takes back the last variant. A variant that nobody confirms earns
 * no label, and loses none.
 */
function labelOps(pod: PodView, verdicts: readonly Verdict[]): PatchOp[] {
  const key = LABEL.accelerated;
  const variants = verdicts.filter(({ decision }) => decision.outcome === 'accelerated');
  if (variants.some((v) => v.unconfirmed === undefined))
    return metadataMap(pod, 'labels').has(key) ? [] : addKey(pod, 'labels', key, 'true');
  const over = variants.length === 0 && verdicts.some((v) => v.takenBack === true) && pod.labels[key] === 'true';
  return over ? [{ op: 'remove', path: pointer('metadata', 'labels', key) }] : [];
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
): { state: 'map' | 'none' | 'other'; has: (key: string) => boolean } {
  const value = record(pod.raw['metadata'])?.[map];
  const present = record(value);
  if (present !== undefined) return { state: 'map', has: (key) => Object.hasOwn(present, key) };
  return { state: value === undefined || value === null ? 'none' : 'other', has: () => false };
}

/** JSON pointer of a path. Rule: RFC 6901 section 3, `~` is written ~0 and `/` ~1. */
export function pointer(...path: readonly string[]): string {
  return path.map((part) => `/${/[~/]/.test(part) ? part.replaceAll('~', '~0').replaceAll('/', '~1') : part}`).join('');
}

function bytesOf(annotations: Readonly<Record<string, string>>, except: string): number {
  return Object.entries(annotations).reduce(
    (sum, [key, value]) => (key === except ? sum : sum + Buffer.byteLength(key) + Buffer.byteLength(value)),
    0,
  );
}
