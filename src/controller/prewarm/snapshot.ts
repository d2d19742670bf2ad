import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { Outcome } from '../../api/outcomes.js';
import type { FailureReason } from '../../api/reasons.js';
import type { OptIn } from '../../gangs/opt-in.js';
import type { Gang } from '../../gangs/shape.js';
import type { Progress } from '../../preheat/planner.js';

/** The gang of an ImagePrewarm as its reconciler sees it. */
export interface GangView {
  gang: Gang;
  optIn: OptIn;
  /** Whether one of our checks on it is Ready: its Pods may come at any moment, so the record must not change. */
  checkReady: boolean;
  /** Whether one of our checks stands on it. */
  checked: boolean;
  /** Epoch ms at which the hold on it ends, where one is stamped for the present reservation. */
  deadline?: number | undefined;
  /** Place in the queue, 0 is the head; absent once quota is reserved. */
  position?: number | undefined;
}

/** What became of looking an image up. */
export type Lookup =
  | { ok: true; digest: string; resolved: string; outcome: Outcome; sizeBytes: number; message?: string; at: number }
  | { ok: false; reason: FailureReason; outcome: Outcome; message: string; at: number };

/** All that the decision about one ImagePrewarm depends on. */
export interface PrewarmSnapshot {
  prewarm: ImagePrewarm;
  gang?: GangView | undefined;
  /** Absent until the first plan that knows this generation. */
  progress?: Progress | undefined;
  /** Why the spec cannot be used, and why nodes are out, from the candidates. */
  candidates: { problem?: string; reasons: Record<string, number>; desired: number };
  /** Latest lookups by source, as far as this process made them. */
  lookups: ReadonlyMap<string, Lookup>;
  /** Rates of the configuration and what is derived from them, ms. */
  deadlineMs: number;
  concurrency: number;
}
