import type { ImagePrewarmStatus } from '../api/kinds/image-prewarm.js';
import type { ImagePrewarm } from '../api/kinds/index.js';
import { READY_REASONS, RELEASE_REASONS } from '../api/reasons.js';
import type { Metrics } from '../observe/metrics.js';

const NODE_STATES = ['warm', 'pulling', 'pending', 'failed'] as const;

/** Seconds from the first pull of a prewarm to all nodes warm: a small image on a LAN to 100 GB over a slow registry. */
const WARM_BUCKETS = [5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];

/** What an operator watches over all gangs; names of gangs are no labels, they are unbounded. */
export class PrewarmMetrics {
  readonly #nodes;
  readonly #prewarms;
  readonly #inFlight;
  readonly #released;
  readonly #seconds;

  constructor(metrics: Metrics) {
    this.#nodes = metrics.gauge('harbinger_prewarm_nodes', 'Nodes that ImagePrewarms want, by state.', { state: NODE_STATES });
    this.#inFlight = metrics.gauge('harbinger_pulls_in_flight', 'Pulls that count against the limits now.');
    this.#prewarms = metrics.gauge('harbinger_prewarms', 'ImagePrewarms by reason of condition Ready.', {
      reason: READY_REASONS,
    });
    this.#released = metrics.counter('harbinger_gangs_released_total', 'Gangs that were let go, by reason.', {
      reason: RELEASE_REASONS,
    });
    this.#seconds = metrics.histogram(
      'harbinger_prewarm_duration_seconds',
      'From the first pull to all nodes warm.',
      {},
      WARM_BUCKETS,
    );
  }

  /** Counts all ImagePrewarms anew: a gauge that is derived cannot drift. */
  count(prewarms: readonly ImagePrewarm[], inFlight: number): void {
    this.#inFlight.set({}, inFlight);
    const reasonOf = ({ status }: ImagePrewarm) => status?.conditions?.find((c) => c.type === 'Ready')?.reason ?? 'Pending';
    const reasons = new Map<string, number>();
    const nodes = { warm: 0, pulling: 0, pending: 0, failed: 0 };
    for (const prewarm of prewarms) {
      const reason = reasonOf(prewarm);
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      // A gang that has its images keeps its last sums for people; nothing is wanted for it any more.
      if (reason !== 'Finished') for (const state of NODE_STATES) nodes[state] += prewarm.status?.nodes?.[state] ?? 0;
    }
    for (const reason of READY_REASONS) this.#prewarms.set({ reason }, reasons.get(reason) ?? 0);
    for (const state of NODE_STATES) this.#nodes.set({ state }, nodes[state]);
  }

  /** After a status was written: counts a release and the time to warm, each once in the life of an object. */
  wrote(before: ImagePrewarmStatus | undefined, after: ImagePrewarmStatus): void {
    const released = (status: ImagePrewarmStatus | undefined) =>
      status?.conditions?.find((c) => c.type === 'Released' && c.status === 'True')?.reason;
    const reason = released(after);
    if (reason !== undefined && released(before) === undefined) this.#released.inc({ reason });
    // An edit begins another try, which has times of its own.
    const { startTime, completionTime } = after;
    if (completionTime === undefined || startTime === undefined || completionTime === before?.completionTime) return;
    const seconds = (Date.parse(completionTime) - Date.parse(startTime)) / 1000;
    if (seconds >= 0) this.#seconds.observe(seconds);
  }
}
