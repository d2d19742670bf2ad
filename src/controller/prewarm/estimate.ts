import type { ImagePrewarmStatus } from '../../api/kinds/image-prewarm.js';
import { formatTime } from '../../api/duration.js';
import type { Rates, Remaining } from '../../preheat/deadline.js';
import { remainingMs } from '../../preheat/deadline.js';
import type { Progress } from '../../preheat/planner.js';
import type { Lifecycle } from './lifecycle.js';
import type { PrewarmSnapshot } from './snapshot.js';

/** Most compressed bytes that a node has to pull for one image of the record, one after the other. */
function bytesOf(status: ImagePrewarmStatus | undefined): number {
  return Math.max(0, ...(status?.targets ?? []).flatMap((t) => t.images.map((i) => i.sizeBytes ?? 0)));
}

/** All that is to be pulled, as if it began now. */
export function wholeWork(status: ImagePrewarmStatus | undefined, progress: Progress, concurrency: number): Remaining {
  const { desired, warm, seenMs } = progress;
  return { runningMs: [], waiting: desired - warm, concurrency, bytes: bytesOf(status), seenMs };
}

/**
 * When all nodes will be warm, as an ISO time; undefined where nothing says so.
 * It moves only when it is off by a tenth of what is left or five seconds, whichever is more: each write of a status wakes every
 * watcher. What is only observed keeps the time that it had when it was first thought of, so that it can be compared with what happened.
 */
export function estimate(
  status: ImagePrewarmStatus,
  { prewarm, progress, concurrency }: PrewarmSnapshot,
  { now, rates, lifecycle }: { now: number; rates: Rates; lifecycle: Lifecycle },
): string | undefined {
  if (progress === undefined) return undefined;
  const before = Date.parse(prewarm.status?.estimatedCompletionTime ?? '');
  if (lifecycle.why === 'Observing') {
    const left = remainingMs(wholeWork(status, progress, concurrency), rates);
    return formatTime(isSameWork(prewarm.status, status) && !Number.isNaN(before) ? before : now + left);
  }
  if (!lifecycle.mayPull || progress.pulling === 0) return undefined;
  const runningMs = progress.runningSince.map((since) => Math.max(0, now - since));
  const { pending: waiting, seenMs } = progress;
  const left = remainingMs({ runningMs, waiting, concurrency, bytes: bytesOf(status), seenMs }, rates);
  const near = Math.abs(before - (now + left)) < Math.max(5000, left / 10);
  return formatTime(near ? before : now + left);
}

function isSameWork(before: ImagePrewarmStatus | undefined, after: ImagePrewarmStatus): boolean {
  return before?.nodes?.desired === after.nodes?.desired && bytesOf(before) === bytesOf(after);
}
