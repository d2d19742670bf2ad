import { format } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { findAnswer } from '../rewrite/answer.js';
import type { Answer, Question } from '../rewrite/decide.js';
import { withinBudget } from './budget.js';

/** Variants that nodes failed to pull for Pods of one namespace. */
export interface Quarantine {
  /** Equal where the same variants of the same namespace are meant. */
  key: string;
  /** Why a variant (its digest, or its image where Pods name no digest) is not used, or undefined. */
  messageOf: (variant: string) => string | undefined;
}

/**
 * Finds answers at registries. Each distinct question is worked on once at a time however many Pods ask: a gang of 1,000 Pods
 * arrives within a second and asks the same. Facts are cached one level below, in the registry port.
 */
export class Answers {
  readonly #options: { registry: () => RegistryPort; clock: Clock; log: Log };
  readonly #running = new Map<string, Promise<Answer>>();

  constructor(options: { registry: () => RegistryPort; clock: Clock; log: Log }) {
    this.#options = options;
  }

  /** The answers that come within `ms`, by key of the question; the others are missing. `quarantine` is that of the Pod's namespace. */
  ask(questions: readonly Question[], ms: number, quarantine?: Quarantine): Promise<Map<string, Answer>> {
    return withinBudget(new Map(questions.map((q) => [q.key, this.#once(q, quarantine)])), ms, this.#options.clock);
  }

  #once(question: Question, quarantine: Quarantine | undefined): Promise<Answer> {
    const key = quarantine === undefined ? question.key : `${question.key} ${quarantine.key}`;
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = this.#find(question, quarantine).finally(() => this.#running.delete(key));
    this.#running.set(key, started);
    return started;
  }

  async #find(question: Question, quarantine: Quarantine | undefined): Promise<Answer> {
    const { reference, policy } = question;
    try {
      const lookup = quarantine === undefined ? {} : { quarantined: quarantine.messageOf };
      return (await findAnswer(question, this.#options.registry(), lookup)).answer;
    } catch (err) {
      this.#options.log.error(
        { err, image: format(reference), policy: policy.name },
        'looking for a variant failed, image left alone',
      );
      return { outcome: 'registry-error', message: `looking for a variant failed: ${(err as Error).message}` };
    }
  }
}
