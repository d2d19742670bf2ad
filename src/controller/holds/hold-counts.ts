import type { HoldEndReason } from '../../api/reasons.js';
import { HOLD_ENDS } from '../../api/reasons.js';
import { heldChecks } from '../../gangs/hold.js';
import type { Clock, Timer } from '../../observe/clock.js';
import type { Metrics } from '../../observe/metrics.js';
import type { Caches } from '../caches.js';
import type { WorkloadView } from '../gangs/sources/kueue.js';
import { gpusOf } from './held-gpus.js';

/** By what a gang is held: a check with quota reserved, or a gate without. */
export const HOLDS = ['Check', 'Gate'] as const;
export type HoldKind = (typeof HOLDS)[number];

/** How often is looked, ms: the error of a sum is at most one interval per hold. */
const INTERVAL_MS = 5_000;
/** ClusterQueues beyond the first hundred count as `other`: whoever may make queues must not be able to fill a metrics server. */
const MAX_QUEUES = 100;

export interface HoldCountsOptions {
  caches: Pick<Caches, 'workloads' | 'ownChecks'>;
  /** Only the process that leads counts: a sum over replicas must not count twice. */
  leading: () => boolean;
  clock: Clock;
  metrics: Metrics;
}

/** Counts what holds cost: gangs that are held now, GPUs that stood idle for it, and what ended it. */
export class HoldCounts {
  readonly #options: HoldCountsOptions;
  readonly #held;
  readonly #gpuSeconds;
  readonly #ended;
  readonly #queues = new Set<string>();
  #timer: Timer | undefined;
  #last: number | undefined;

  constructor(options: HoldCountsOptions) {
    const { metrics } = options;
    this.#options = options;
    this.#held = metrics.gauge('harbinger_held_gangs', 'Gangs that Harbinger keeps from starting now, by what holds them.', {
      hold: HOLDS,
    });
    this.#gpuSeconds = metrics.counter(
      'harbinger_held_gpu_seconds_total',
      'GPUs of gangs that had quota and were held for their images, times seconds.',
      ['queue'],
    );
    this.#ended = metrics.counter('harbinger_holds_ended_total', 'Holds that Harbinger ended, by reason.', {
      hold: HOLDS,
      reason: HOLD_ENDS,
    });
  }

  start(): void {
    this.#timer = this.#options.clock.setTimeout(() => {
      this.tick();
      this.start();
    }, INTERVAL_MS);
  }

  stop(): void {
    this.#timer?.cancel();
  }

  /** A hold ended by a write of ours. */
  ended(hold: HoldKind, reason: HoldEndReason): void {
    this.#ended.inc({ hold, reason });
  }

  /** Looks at all gangs. A pause that is too long, or a clock that was set, counts as one interval. */
  tick(): void {
    const { clock, leading, caches } = this.#options;
    const now = clock.now();
    const since = now - (this.#last ?? now);
    const seconds = Math.min(Math.max(0, since), 2 * INTERVAL_MS) / 1000;
    this.#last = now;
    if (!leading()) return;
    const names = new Set(caches.ownChecks().map((c) => c.name));
    const workloads = caches.workloads.list();
    const held = workloads.filter((w) => isHeldByUs(w, names));
    this.#held.set({ hold: 'Check' }, held.length);
    this.#held.set({ hold: 'Gate' }, workloads.filter((w) => w.gate !== undefined && w.hold.active).length);
    for (const { gang } of held) this.#gpuSeconds.inc({ queue: this.#labelOf(gang.clusterQueue ?? '') }, gpusOf(gang) * seconds);
  }

  #labelOf(queue: string): string {
    if (this.#queues.has(queue)) return queue;
    if (this.#queues.size >= MAX_QUEUES) return 'other';
    this.#queues.add(queue);
    return queue;
  }
}

/** Whether ours is the reason: where another check is open too, the gang would wait without us as well. */
export function isHeldByUs({ hold }: Pick<WorkloadView, 'hold'>, names: ReadonlySet<string>): boolean {
  return heldChecks(hold, names).length > 0 && hold.checks.every((c) => c.state === 'Ready' || names.has(c.name));
}
