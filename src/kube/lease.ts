import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import type { KubePort } from './port.js';

export interface LeaseOptions {
  client: KubePort;
  namespace: string;
  name: string;
  identity: string;
  clock: Clock;
  log: Log;
  /** 15 s, 10 s and 2 s when absent. */
  leaseDurationMs?: number;
  renewDeadlineMs?: number;
  retryPeriodMs?: number;
  random?: () => number;
  /** Never jumps; `performance.now` when absent. */
  monotonic?: () => number;
}

export interface LeaseCallbacks {
  /** We hold the lease now; the signal aborts when it is lost or given back. */
  onStarted(held: AbortSignal): void;
  /** Somebody else may act now. The process must exit non-zero. */
  onLost(reason: string): void;
}

export class Lease {
  constructor(_options: LeaseOptions) {}
  get held(): boolean {
    return false;
  }
  /** Resolves when `signal` aborts (lease released) or the lease is lost. */
  run(_signal: AbortSignal, _callbacks: LeaseCallbacks): Promise<void> {
    return Promise.resolve();
  }
}
