import type { WatchPort } from '../kube/client.js';
import type { EventRecorder } from '../kube/events.js';
import type { KubePort } from '../kube/port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { Metrics } from '../observe/metrics.js';
import type { AdmissionMetrics } from './metrics.js';

export interface WatchdogOptions {
  client: KubePort & WatchPort;
  lease: { namespace: string; name: string; identity: string };
  unstampedHoldMs: () => number;
  /** How long a gate of ours may stand on a job that nobody has stamped, ms; absent where gates are not ours to take off. */
  gatedMs: () => number | undefined;
  clock: Clock;
  /** Milliseconds of a clock that is never set. */
  monotonic: () => number;
  log: Log;
  metrics: Metrics;
  admission: AdmissionMetrics;
  events: Pick<EventRecorder, 'event'>;
}

/** What is followed while the Lease is held. */
export interface Watch {
  start(): void;
  stop(): Promise<void>;
  readonly problem: string | undefined;
}

/** A deadline is compared with the wall clock at least so often, since that may jump, ms. */
export const MAX_WAIT_MS = 60_000;
/**
 * A hold whose end was refused is tried again at least so often, ms. While Kueue restarts its webhook refuses every write; what is
 * overdue by then holds quota that nobody uses.
 */
export const LONGEST_RETRY_MS = 5_000;
/**
 * A controller that lives ends a hold at its deadline, and says more than we can. Only what it leaves undone is ours: each release
 * by the watchdog is an alert.
 */
export const GRACE_MS = 3_000;
