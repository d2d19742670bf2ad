import { format } from '../images/reference.js';
import type { RegistryPort } from '../images/registry-port.js';
import { resolveSource } from '../images/resolve.js';
import { findVariant } from '../images/variant.js';
import type { Clock } from '../observe/clock.js';
import type { Log } from '../observe/log.js';
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

  async #find({ reference, policy }: Question): Promise<Answer> {
    const port = this.#options.registry();
    const image = format(reference);
    try {
      const source = await resolveSource(image, port);
      if (!source.ok) return refusal(source.outcome, { message: source.message });
      const { variants: rules, freshness, output } = policy.spec;
      const found = await findVariant({ source, rules, freshness, output, port });
      const details = { sourceDigest: source.digest, format: found.format, message: found.message };
      if (found.outcome === 'accelerated' && found.image !== undefined)
        return { ...details, outcome: 'accelerated', image: found.image };
      return refusal(found.outcome, details);
    } catch (err) {
      this.#options.log.error({ err, image, policy: policy.name }, 'looking for a variant failed, image left alone');
      return { outcome: 'registry-error', message: `looking for a variant failed: ${(err as Error).message}` };
    }
  }
}

/** An outcome that leaves the image alone, whatever word came with it: only a named image may change a Pod. */
function refusal(outcome: string, details: Omit<Answer, 'outcome' | 'image'>): Answer {
  const safe = outcome === 'accelerated' || outcome === 'pinned' ? 'no-candidate' : outcome;
  return { ...details, outcome: safe as Exclude<Answer['outcome'], 'accelerated'> };
}
