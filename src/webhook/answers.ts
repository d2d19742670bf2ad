import { format } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
import { findAnswer } from '../rewrite/answer.js';
import type { Answer, Question } from '../rewrite/decide.js';
import { withinBudget } from './budget.js';

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

  /** The answers that come within `ms`, by key of the question; the others are missing. */
  ask(questions: readonly Question[], ms: number): Promise<Map<string, Answer>> {
    return withinBudget(new Map(questions.map((q) => [q.key, this.#once(q)])), ms, this.#options.clock);
  }

  #once(question: Question): Promise<Answer> {
    const running = this.#running.get(question.key);
    if (running !== undefined) return running;
    const started = this.#find(question).finally(() => this.#running.delete(question.key));
    this.#running.set(question.key, started);
    return started;
  }

  async #find(question: Question): Promise<Answer> {
    const { reference, policy } = question;
    try {
      return (await findAnswer(question, this.#options.registry())).answer;
    } catch (err) {
      this.#options.log.error(
        { err, image: format(reference), policy: policy.name },
        'looking for a variant failed, image left alone',
      );
      return { outcome: 'registry-error', message: `looking for a variant failed: ${(err as Error).message}` };
    }
  }
}
