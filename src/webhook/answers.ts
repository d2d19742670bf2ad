import type { Outcome } from '../api/outcomes.js';
import { format } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { findAnswer } from '../rewrite/answer.js';
import type { Answer, Question } from '../rewrite/decide.js';
import { withinBudget } from '../observe/within-budget.js';

/** Variants that nodes failed to pull for Pods of one namespace. */
export interface Quarantine {
  /** Equal where the same variants of the same namespace are meant. */
  key: string;
  /** Why a variant (its digest, or its image where Pods name no digest) is not used, or undefined. */
  messageOf: (variant: string) => string | undefined;
}

/** How long an answer is given again: the Pods of a gang come within it. What is cached below lives far longer. */
const REPEAT_MS = 1_000;
const MAX_KEPT = 2_000;
/** These say how it is just now, and are found out anew by each Pod. */
const PASSING: ReadonlySet<Outcome> = new Set(['registry-error', 'auth-denied', 'budget-exceeded', 'circuit-open']);

interface Kept {
  answer: Answer;
  since: number;
  /** Another one may be allowed to ask less. */
  registry: RegistryPort;
}

interface Running {
  answer: Promise<Answer>;
  since: number;
}

/**
 * Finds answers at registries. Each distinct question is worked on once at a time however many Pods ask: a gang of 1,000 Pods
 * arrives within a second and asks the same. Facts are cached one level below, in the registry port.
 */
export class Answers {
  readonly #options: { registry: () => RegistryPort; clock: Clock; log: Log };
  readonly #running = new Map<string, Running>();
  readonly #kept = new Map<string, Kept>();

  constructor(options: { registry: () => RegistryPort; clock: Clock; log: Log }) {
    this.#options = options;
  }

  /**
   * The answers that come within `ms`, by key of the question; the others are missing. A question that a Pod before has waited so long
   * for is not waited for again: a registry that hangs costs the Pods of one budget, not all that come until it is given up.
   * `quarantine` is that of the Pod's namespace.
   */
  ask(questions: readonly Question[], ms: number, quarantine?: Quarantine): Promise<Map<string, Answer>> {
    const known = new Map<string, Answer>();
    const open = new Map<string, Promise<Answer>>();
    for (const question of questions) {
      const id = quarantine === undefined ? question.key : `${question.key} ${quarantine.key}`;
      const kept = this.#recall(id);
      if (kept !== undefined) {
        known.set(question.key, kept);
        continue;
      }
      const { answer, since } = this.#once(id, question, quarantine);
      if (this.#options.clock.now() - since < ms) open.set(question.key, answer);
    }
    if (open.size === 0) return Promise.resolve(known);
    return withinBudget(open, ms, this.#options.clock).then((found) => new Map([...known, ...found]));
  }

  #recall(id: string): Answer | undefined {
    const kept = this.#kept.get(id);
    const age = kept === undefined ? NaN : this.#options.clock.now() - kept.since;
    // A clock that was set back must not keep an answer for ever.
    return age >= 0 && age < REPEAT_MS && kept?.registry === this.#options.registry() ? kept.answer : undefined;
  }

  #keep(id: string, kept: Kept): void {
    this.#kept.delete(id);
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined && this.#kept.size >= MAX_KEPT) this.#kept.delete(oldest);
    if (!PASSING.has(kept.answer.outcome)) this.#kept.set(id, kept);
  }

  #once(id: string, question: Question, quarantine: Quarantine | undefined): Running {
    const known = this.#running.get(id);
    if (known !== undefined) return known;
    const registry = this.#options.registry();
    const answer = this.#find(question, registry, quarantine).then((found) => {
      this.#running.delete(id);
      this.#keep(id, { answer: found, since: this.#options.clock.now(), registry });
      return found;
    });
    const running = { answer, since: this.#options.clock.now() };
    this.#running.set(id, running);
    return running;
  }

  async #find(question: Question, registry: RegistryPort, quarantine: Quarantine | undefined): Promise<Answer> {
    const { reference, policy } = question;
    try {
      const lookup = quarantine === undefined ? {} : { quarantined: quarantine.messageOf };
      return (await findAnswer(question, registry, lookup)).answer;
    } catch (err) {
      this.#options.log.error(
        { err, image: format(reference), policy: policy.name },
        'looking for a variant failed, image left alone',
      );
      return { outcome: 'registry-error', message: `looking for a variant failed: ${(err as Error).message}` };
    }
  }
}
