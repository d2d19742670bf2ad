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

/** What the work that is left follows from. */
type Work = Pick<PrewarmSnapshot, 'prewarm' | 'concurrency'> & { progress: Progress };

/** Nodes that may pull in a first wave; what begins with one node goes on from what is warm already (`pullWindow`). */
function firstWave({ prewarm: { spec }, progress }: Work): number | undefined {
  const { rampUp = 'SlowStart' } = spec.pull ?? {};
  if (rampUp === 'Immediate' || (rampUp === 'SeedThenAll' && progress.warm > 0)) return undefined;
  return 1 + progress.warm;
}

/** All that is to be pulled, as if it began now. */
export function wholeWork(status: ImagePrewarmStatus | undefined, work: Work): Remaining {
  const { desired, warm, seenMs } = work.progress;
  const { concurrency } = work;
  return { runningMs: [], waiting: desired - warm, concurrency, first: firstWave(work), bytes: bytesOf(status), seenMs };
}

/** What is left of pulls that have begun, and those to come: each that succeeds lets one more begin. */
function workLeft(status: ImagePrewarmStatus, work: Work, now: number): Remaining {
  const { pending: waiting, runningSince, seenMs } = work.progress;
  const runningMs = runningSince.map((since) => Math.max(0, now - since));
  const wave = firstWave(work);
  const first = wave === undefined ? undefined : wave + runningMs.length;
  return { runningMs, waiting, concurrency: work.concurrency, first, bytes: bytesOf(status), seenMs };
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
  const work = { prewarm, progress, concurrency };
  const before = Date.parse(prewarm.status?.estimatedCompletionTime ?? '');
  if (lifecycle.why === 'Observing') {
    const left = remainingMs(wholeWork(status, work), rates);
    return formatTime(isSameWork(prewarm.status, status) && !Number.isNaN(before) ? before : now + left);
  }
  if (!lifecycle.mayPull || progress.pulling === 0) return undefined;
  const left = remainingMs(workLeft(status, work, now), rates);
  const near = Math.abs(before - (now + left)) < Math.max(5000, left / 10);
  return formatTime(near ? before : now + left);
}

function isSameWork(before: ImagePrewarmStatus | undefined, after: ImagePrewarmStatus): boolean {
  return before?.nodes?.desired === after.nodes?.desired && bytesOf(before) === bytesOf(after);
}
