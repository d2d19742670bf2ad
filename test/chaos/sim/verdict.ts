import type { Violation } from '../invariants/index.js';
import type { ReleaseCause } from '../invariants/releases.js';
import { RELEASE_CAUSES } from '../invariants/releases.js';
import { runSeed } from './run.js';

/** What came of one seed. */
export interface Verdict {
  seed: number;
  violations: Violation[];
  hits: Record<string, number>;
  releases: Record<ReleaseCause, number>;
  /** The trace of a seed that failed; empty otherwise. */
  lines: string[];
  trace: string;
}

/** Of so many seeds one is run without faults too: it costs as much again. */
const TWIN_EVERY = 4;

/** Runs a seed with its faults, and some once more without, and compares what both came to (P7). */
export async function verdictOf(seed: number): Promise<Verdict> {
  try {
    return await judged(seed);
  } catch (error) {
    // A defect of the simulation is one seed's, and names it.
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    const releases = Object.fromEntries(RELEASE_CAUSES.map((c) => [c, 0])) as Verdict['releases'];
    return {
      seed,
      violations: [{ promise: 'P7', at: 0, object: 'the simulation', message }],
      hits: {},
      releases,
      lines: [],
      trace: '',
    };
  }
}

async function judged(seed: number): Promise<Verdict> {
  const run = await runSeed({ seed, faults: true });
  const violations = [...run.violations];
  if (seed % TWIN_EVERY === 0) {
    const calm = await runSeed({ seed, faults: false });
    violations.push(...calm.violations, ...differences(run.outcome, calm.outcome));
  }
  const { hits, releases, trace } = run;
  return { seed, violations, hits, releases, trace, lines: violations.length === 0 ? [] : run.lines };
}

function differences(faulty: readonly string[], calm: readonly string[]): Violation[] {
  const only = (a: readonly string[], b: readonly string[]): string[] => a.filter((line) => !b.includes(line));
  const found = (message: string): Violation => ({ promise: 'P7', at: 0, object: 'the end', message });
  return [
    ...only(faulty, calm).map((line) => found(`only with faults: ${line}`)),
    ...only(calm, faulty).map((line) => found(`only without faults: ${line}`)),
  ];
}
