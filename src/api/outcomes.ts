/**
 * The closed set of answers for one container image. The same words stand in the decisions annotation, in metrics, in logs and
 * in `harbinger explain`; docs/reasons.md says what to do about each.
 */
export const OUTCOMES = [
  'accelerated',
  'pinned',
  'already-accelerated',
  'no-policy',
  'no-candidate',
  'variant-missing',
  'variant-stale',
  'freshness-unknown',
  'variant-unrecognised',
  'platform-missing',
  'node-incapable',
  'registry-error',
  'auth-denied',
  'budget-exceeded',
  'circuit-open',
  'too-large',
  'skipped-opt-out',
  'skipped-container',
  'skipped-pull-never',
  'skipped-mirror-pod',
  'skipped-own-pod',
  'skipped-owner',
  'skipped-gitops',
  'skipped-audit',
  'unparsable',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Outcomes that leave the image as the user wrote it. */
export type LeavingOutcome = Exclude<Outcome, 'accelerated' | 'pinned'>;

/** True where the image in the Pod is changed by the outcome. */
export function changesImage(outcome: Outcome): boolean {
  return outcome === 'accelerated' || outcome === 'pinned';
}

/** One container's decision as it is written to the Pod and printed by `explain`. */
export interface Decision {
  container: string;
  /** The image as the user wrote it. */
  source: string;
  outcome: Outcome;
  /** The image that stands in the Pod afterwards; equal to `source` unless `changesImage(outcome)`. */
  image: string;
  /** Digest of the source manifest or index, where it was resolved. */
  sourceDigest?: string;
  format?: string;
  policy?: string;
  /** Namespaced name of the ImagePrewarm whose record was used. */
  prewarm?: string;
  /** One sentence for people. */
  message?: string;
}
