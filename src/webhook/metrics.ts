import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Outcome } from '../api/outcomes.js';
import { OUTCOMES } from '../api/outcomes.js';
import type { Metrics } from '../observe/metrics.js';
import { ADMISSION_BUCKETS } from '../observe/metrics.js';
import type { ShedReason } from './overload.js';
import { SHED_REASONS } from './overload.js';

export const REQUEST_RESULTS = ['mutated', 'unchanged', 'shed', 'garbage', 'failed', 'hung-up'] as const;
export type RequestResult = (typeof REQUEST_RESULTS)[number];

/** What the webhook tells Prometheus. Labels come from closed sets; names of Pods, images and policies are in the log. */
export class AdmissionMetrics {
  readonly #requests;
  readonly #seconds;
  readonly #decisions;
  readonly #shed;
  readonly #released;
  readonly #badPolicies;
  readonly #monotonic: () => number;

  /** @param monotonic milliseconds that never jump, for example `performance.now` */
  constructor(metrics: Metrics, monotonic: () => number) {
    this.#monotonic = monotonic;
    this.#requests = metrics.counter('harbinger_admission_requests_total', 'Admission reviews by result.', {
      result: REQUEST_RESULTS,
    });
    this.#seconds = metrics.histogram(
      'harbinger_admission_duration_seconds',
      'Time from a review to its answer.',
      [],
      ADMISSION_BUCKETS,
    );
    this.#decisions = metrics.counter('harbinger_admission_decisions_total', 'Decisions about container images.', {
      outcome: OUTCOMES,
      format: ['none', ...FORMATS],
    });
    this.#shed = metrics.counter('harbinger_admission_shed_total', 'Admission reviews answered unread, by what ran out.', {
      reason: SHED_REASONS,
    });
    this.#released = metrics.counter('harbinger_watchdog_releases_total', 'Held gangs that the watchdog let go.', {
      reason: ['DeadlineExceeded', 'Unstamped'],
    });
    this.#badPolicies = metrics.gauge(
      'harbinger_policies_invalid',
      'AccelerationPolicies that are ignored because they are invalid.',
    );
  }

  /** Starts the clock of one review; the returned function stops it. */
  start(): (result: RequestResult) => void {
    const from = this.#monotonic();
    return (result) => {
      this.#requests.inc({ result });
      this.#seconds.observe((this.#monotonic() - from) / 1000);
    };
  }

  decision(outcome: Outcome, format: string | undefined): void {
    this.#decisions.inc({ outcome, format: format ?? 'none' });
  }

  shed(reason: ShedReason): void {
    this.#shed.inc({ reason });
  }

  released(reason: 'DeadlineExceeded' | 'Unstamped'): void {
    this.#released.inc({ reason });
  }

  badPolicies(count: number): void {
    this.#badPolicies.set(count);
  }
}
