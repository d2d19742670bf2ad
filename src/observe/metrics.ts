import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

/**
 * Labels of a metric. A record names the closed set of each label: every combination is exported as zero from the start, so
 * that an alert can see "never happened". An array is for values that only the code base names (a queue, a resource).
 * Names of user objects are never label values: they are unbounded.
 */
export type Labels = readonly string[] | Readonly<Record<string, readonly string[]>>;

/** Seconds; an admission answers in single milliseconds and is cut off at the budget. */
export const ADMISSION_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

function isOpen(labels: Labels): labels is readonly string[] {
  return Array.isArray(labels);
}

/** All combinations of one value per label: {a: [1, 2], b: [3]} gives {a: 1, b: 3} and {a: 2, b: 3}. */
export function combinations(sets: Readonly<Record<string, readonly string[]>>): Record<string, string>[] {
  return Object.entries(sets).reduce<Record<string, string>[]>(
    (rows, [label, values]) => rows.flatMap((row) => values.map((value) => ({ ...row, [label]: value }))),
    [{}],
  );
}

/** The metrics of one process over a registry of its own. Asking twice for one name gives the same metric. */
export class Metrics {
  readonly registry = new Registry();
  readonly #known = new Map<string, Counter | Gauge | Histogram>();

  /** Adds the usual process and Node metrics; not in unit tests, where the event-loop monitor would outlive the test. */
  withDefaults(): this {
    collectDefaultMetrics({ register: this.registry });
    return this;
  }

  counter(name: string, help: string, labels: Labels = []): Counter {
    const counter = this.#remember(
      name,
      () => new Counter({ name, help, labelNames: names(labels), registers: [this.registry] }),
    );
    if (!isOpen(labels)) for (const row of combinations(labels)) counter.inc(row, 0);
    return counter;
  }

  gauge(name: string, help: string, labels: Labels = []): Gauge {
    const gauge = this.#remember(name, () => new Gauge({ name, help, labelNames: names(labels), registers: [this.registry] }));
    // A gauge that is asked for again must keep its value: add zero, do not set it.
    if (!isOpen(labels)) for (const row of combinations(labels)) gauge.inc(row, 0);
    return gauge;
  }

  /** `buckets` are upper bounds in the unit that the name ends with. */
  histogram(name: string, help: string, labels: Labels = [], buckets: readonly number[] = ADMISSION_BUCKETS): Histogram {
    const histogram = this.#remember(
      name,
      () => new Histogram({ name, help, labelNames: names(labels), buckets: [...buckets], registers: [this.registry] }),
    );
    if (!isOpen(labels)) for (const row of combinations(labels)) histogram.zero(row);
    return histogram;
  }

  /** The page that Prometheus reads. */
  text(): Promise<string> {
    return this.registry.metrics();
  }

  #remember<M extends Counter | Gauge | Histogram>(name: string, create: () => M): M {
    const known = this.#known.get(name);
    if (known !== undefined) return known as M;
    const made = create();
    this.#known.set(name, made);
    return made;
  }
}

function names(labels: Labels): string[] {
  return isOpen(labels) ? [...labels] : Object.keys(labels);
}
