import type { Outcome } from '../api/outcomes.js';
import { OUTCOMES } from '../api/outcomes.js';
import type { Metrics } from '../observe/metrics.js';
import { ADMISSION_BUCKETS } from '../observe/metrics.js';
import type { ShedReason } from './overload.js';
import { SHED_REASONS } from './overload.js';

export const REQUEST_RESULTS = ['mutated', 'unchanged', 'shed', 'garbage', 'failed', 'hung-up'] as const;
export type RequestResult = (typeof REQUEST_RESULTS)[number];

/** Names of policies that become label values; whoever has more is told about the rest together. */
const MAX_POLICIES = 100;
/** What the watchdog ends: holds by checks, stamped or not, and gates of jobs. */
const WATCHDOG_RELEASES = ['DeadlineExceeded', 'Unstamped', 'GateExpired'] as const;

/** What the webhook tells Prometheus. Labels come from closed sets but for the first hundred policies; Pods and images are in the log. */
export class AdmissionMetrics {
  readonly #requests;
  readonly #seconds;
  readonly #decisions;
  readonly #shed;
  readonly #released;
  readonly #badPolicies;
  readonly #unproven;
  readonly #policies = new Set<string>();
  readonly #monotonic: () => number;

  /** @param monotonic milliseconds that never jump, for example `performance.now` */
  constructor(metrics: Metrics, monotonic: () => number) {
    this.#monotonic = monotonic;
    this.#requests = metrics.counter('harbinger_admission_requests_total', 'Admission reviews by result.', {
      result: REQUEST_RESULTS,
    });
    this.#seconds = metrics.histogram(
      'harbinger_admission_duration_seconds',
      'Time from a review to its answer, by result.',
      { result: REQUEST_RESULTS },
      ADMISSION_BUCKETS,
    );
    this.#decisions = metrics.counter(
      'harbinger_admission_decisions_total',
      'Decisions about container images, by outcome, format of the variant and policy.',
      ['outcome', 'format', 'policy'],
    );
    for (const outcome of OUTCOMES) this.#decisions.inc({ outcome, format: 'none', policy: 'none' }, 0);
    this.#unproven = metrics.counter(
      'harbinger_admission_unproven_patches_total',
      'Patches that were not sent because they might not have applied: defects of Harbinger.',
    );
    this.#shed = metrics.counter('harbinger_admission_shed_total', 'Admission reviews answered unread, by what ran out.', {
      reason: SHED_REASONS,
    });
    this.#released = metrics.counter('harbinger_watchdog_releases_total', 'Held gangs that the watchdog let go.', {
      reason: WATCHDOG_RELEASES,
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
      this.#seconds.observe({ result }, (this.#monotonic() - from) / 1000);
    };
  }

  /** `policy` is the name of an AccelerationPolicy that exists; absent where none decided. */
  decision(
    outcome: Outcome,
    { format = 'none', policy }: { format?: string | undefined; policy?: string | undefined } = {},
  ): void {
    this.#decisions.inc({ outcome, format, policy: policy === undefined ? 'none' : this.#labelOf(policy) });
  }

  unproven(): void {
    this.#unproven.inc();
  }

  #labelOf(policy: string): string {
    if (this.#policies.size < MAX_POLICIES) this.#policies.add(policy);
    return this.#policies.has(policy) ? policy : 'other';
  }

  shed(reason: ShedReason): void {
    this.#shed.inc({ reason });
  }

  released(reason: (typeof WATCHDOG_RELEASES)[number]): void {
    this.#released.inc({ reason });
  }

  badPolicies(count: number): void {
    this.#badPolicies.set(count);
  }
}
