import type { Metrics } from '../observe/metrics.js';

/** client-go's metric names, so that stock dashboards show our queues. Times in milliseconds, as the clock gives them. */
export interface QueueMeter {
  added(depth: number): void;
  started(waitedMs: number, depth: number): void;
  finished(workedMs: number): void;
  retried(): void;
}

const BUCKETS = [1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60];

/** @param runningSince start times of the runs in progress, asked at each scrape */
export function queueMeter(
  metrics: Metrics | undefined,
  name: string,
  now: () => number,
  runningSince: () => Iterable<number>,
): QueueMeter {
  if (metrics === undefined) return { added() {}, started() {}, finished() {}, retried() {} };
  const depth = metrics.gauge('workqueue_depth', 'Current depth of the work queue.', ['name']);
  const adds = metrics.counter('workqueue_adds_total', 'Adds handled by the work queue.', ['name']);
  const waited = metrics.histogram(
    'workqueue_queue_duration_seconds',
    'How long an item waits in the queue before it is worked on.',
    ['name'],
    BUCKETS,
  );
  const worked = metrics.histogram('workqueue_work_duration_seconds', 'How long working on an item takes.', ['name'], BUCKETS);
  const retries = metrics.counter('workqueue_retries_total', 'Retries handled by the work queue.', ['name']);
  const unfinished = metrics.gauge(
    'workqueue_unfinished_work_seconds',
    'Work in progress that no duration shows yet; large values mean stuck workers.',
    ['name'],
  );
  const longest = metrics.gauge(
    'workqueue_longest_running_processor_seconds',
    'How long the longest running item has been worked on.',
    ['name'],
  );
  depth.set({ name }, 0);
  collect(unfinished, (at) => unfinished.set({ name }, at.reduce((sum, ms) => sum + ms, 0) / 1000));
  collect(longest, (at) => longest.set({ name }, Math.max(0, ...at) / 1000));
  function collect(gauge: object, set: (ages: number[]) => void): void {
    // prom-client calls `collect` of a metric when it is scraped; several queues share one gauge, so calls are chained.
    const scraped = gauge as { collect?: () => void };
    const before = scraped.collect;
    scraped.collect = () => {
      before?.();
      set(Array.from(runningSince(), (since) => now() - since));
    };
  }
  return {
    added(size) {
      adds.inc({ name });
      depth.set({ name }, size);
    },
    started(ms, size) {
      waited.observe({ name }, ms / 1000);
      depth.set({ name }, size);
    },
    finished: (ms) => worked.observe({ name }, ms / 1000),
    retried: () => retries.inc({ name }),
  };
}
