import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { Format } from '../../api/kinds/acceleration-policy.js';
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
  /** Whether the Job that may have opted it in is being deleted or gone: what it said cannot be asked any more. */
  jobGone?: boolean | undefined;
  /** Share of warm nodes that is enough for its checks, in percent; 100 where none says less. */
  minWarmPercent?: number | undefined;
  /** Epoch ms at which the hold on it ends, where one is stamped for the present reservation. */
  deadline?: number | undefined;
  /** Place in the queue, 0 is the head; absent once quota is reserved. */
  position?: number | undefined;
}

/** An image that was looked up. */
export interface FoundImage {
  ok: true;
  /** Of the source. */
  digest: string;
  /** What Pods are to be given. */
  resolved: string;
  outcome: Outcome;
  /** Of the variant, where it is one. */
  format?: Format | undefined;
  portable?: boolean | undefined;
  /** Absent where the registry denied the controller a look. */
  sizeBytes?: number | undefined;
  /** Whose credentials could read it; absent where Harbinger's own or none were enough. */
  pulledWith?: 'Harbinger' | 'Workload' | undefined;
  message?: string;
  /** Epoch ms. */
  at: number;
}

/** What became of looking an image up. */
export type Lookup = FoundImage | { ok: false; reason: FailureReason; outcome: Outcome; message: string; at: number };

/** What became of looking for nodes, over all targets. */
export interface CandidateSums {
  /** Why the spec cannot be used. */
  problem?: string;
  /** How many nodes each reason keeps out: of the targets in `empty`, or of all. */
  reasons: Record<string, number>;
  /** How many nodes have to be warm. */
  desired: number;
  /** Targets that want nodes and for which there are none: what is warm for others does not help their Pods. */
  empty: string[];
}

/** All that the decision about one ImagePrewarm depends on. */
export interface PrewarmSnapshot {
  prewarm: ImagePrewarm;
  gang?: GangView | undefined;
  /** Absent until the first plan that knows this generation. */
  progress?: Progress | undefined;
  candidates: CandidateSums;
  /** Latest lookups by source, as far as this process made them. */
  lookups: ReadonlyMap<string, Lookup>;
  /** Why the variant on record must not be given to Pods any more, by source. */
  unusable: ReadonlyMap<string, string>;
  /** Rates of the configuration and what is derived from them, ms. */
  deadlineMs: number;
  concurrency: number;
  /** The mode of the configuration where it is not On: no gang is held then. */
  mode?: 'Observe' | 'Off' | undefined;
  /** Images of the gang for which the object has no room, as `podSet: image`. */
  leftOut?: readonly string[] | undefined;
  /** Why Pods of the gang will not be given the recorded images, for the people who opted it in; absent where they will. */
  unpinned?: string | undefined;
}
