import type { LeavingOutcome } from '../../api/outcomes.js';
import type { VariantAnswer } from './question.js';

/** One thing that was looked at on the way to a decision; `explain` prints them in order. */
export interface Step {
  /** Short name of the question, e.g. `source`, `candidate`, `format`, `freshness`. */
  step: string;
  /** The variant that the step is about; absent where it is about the source. */
  candidate?: string;
  detail: string;
  verdict: 'yes' | 'no' | 'unknown' | 'skip';
  /** Milliseconds that the step took, where time was measured. */
  ms?: number;
}

export type Miss = Exclude<VariantAnswer, { outcome: 'accelerated' }>;

/** Which miss is told when several rules missed: what could not be answered first, then the nearest miss. */
const NEAREST: readonly LeavingOutcome[] = [
  'auth-denied',
  'circuit-open',
  'budget-exceeded',
  'registry-error',
  'node-incapable',
  'variant-stale',
  'freshness-unknown',
  'variant-unrecognised',
  'platform-missing',
  'already-accelerated',
  'variant-missing',
  'no-candidate',
];
/** Outcomes by which nothing is known, as opposed to a known no. */
const UNANSWERED: ReadonlySet<LeavingOutcome> = new Set<LeavingOutcome>([
  'auth-denied',
  'circuit-open',
  'budget-exceeded',
  'registry-error',
  'freshness-unknown',
]);

/** The one of two misses that people should be told. The first of equals wins: policies name what they like best first. */
export function nearer(a: Miss | undefined, b: Miss): Miss {
  return a === undefined || NEAREST.indexOf(b.outcome) < NEAREST.indexOf(a.outcome) ? b : a;
}

/** The evidence of one candidate, or of a rule that has none. */
export class Trail {
  readonly steps: Step[] = [];
  readonly candidate: string | undefined;
  readonly #now: (() => number) | undefined;
  #last: number | undefined;

  constructor(candidate: string | undefined, now: (() => number) | undefined) {
    this.candidate = candidate;
    this.#now = now;
    this.#last = now?.();
  }

  /** A trail for one part of the same candidate, which may be looked at beside others; `join` puts it in order. */
  branch(): Trail {
    return new Trail(this.candidate, this.#now);
  }

  join(branch: Trail): void {
    this.steps.push(...branch.steps);
    this.#elapsed();
  }

  note(step: string, verdict: Step['verdict'], detail: string): void {
    const ms = this.#elapsed();
    this.steps.push({
      step,
      ...(this.candidate === undefined ? {} : { candidate: this.candidate }),
      detail,
      verdict,
      ...(ms === undefined ? {} : { ms }),
    });
  }

  /** Ends the candidate. The message names it, as it stands alone in logs and annotations. */
  miss(outcome: LeavingOutcome, step: string, detail: string): Miss {
    this.note(step, outcome === 'no-candidate' ? 'skip' : UNANSWERED.has(outcome) ? 'unknown' : 'no', detail);
    return { outcome, message: this.candidate === undefined ? detail : `${this.candidate}: ${detail}`, evidence: this.steps };
  }

  /** Milliseconds since the last step, to a tenth. */
  #elapsed(): number | undefined {
    if (this.#now === undefined) return undefined;
    const at = this.#now();
    const ms = Math.round((at - (this.#last ?? at)) * 10) / 10;
    this.#last = at;
    return ms;
  }
}
