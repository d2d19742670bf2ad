/** One measured number, as `.out/bench/NAME.json` lists it. */
export interface Measurement {
  name: string;
  /** Median of all repeats. */
  value: number;
  unit: string;
  repeats: number;
  min: number;
  max: number;
}

/** Fewer say nothing about how far a number spreads. */
const LEAST_REPEATS = 3;

/** Sums repeats of one measurement up, rounded to three digits after the point; throws for fewer than three. */
export function measurement(name: string, unit: string, samples: readonly number[]): Measurement {
  if (samples.length < LEAST_REPEATS) throw new Error(`${name}: ${samples.length} repeats, at least ${LEAST_REPEATS} are needed`);
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (index: number): number => Math.round((sorted[index] ?? NaN) * 1000) / 1000;
  const last = sorted.length - 1;
  return { name, value: at(Math.floor(last / 2)), unit, repeats: sorted.length, min: at(0), max: at(last) };
}
