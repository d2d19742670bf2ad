import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { Reference } from '../../images/reference.js';
import type { RegistryPort } from '../../images/registry-port.js';
import type { Clock } from '../../observe/clock.js';
import type { RuntimeClassFacts } from '../../placement/capability.js';
import type { Landing } from '../../placement/landing.js';
import type { NodeClasses } from '../../placement/node-classes.js';
import { quarantineOf } from '../../placement/quarantine.js';
import type { Policy } from '../../rewrite/policy-match.js';
import { inOrder, pickPolicy } from '../../rewrite/policy-match.js';
import { landingOfSource } from '../nodes/target-landing.js';

/** What is known beside an ImagePrewarm when an image is chosen for it. */
export interface VariantFacts {
  registry: () => RegistryPort;
  policies: () => Policy[];
  namespaceLabels: (namespace: string) => Readonly<Record<string, string>>;
  /** The nodes as they are known now; undefined while too little is known to say anything. */
  nodeClasses: () => NodeClasses | undefined;
  runtimeClass: (name: string) => RuntimeClassFacts | undefined;
  clock: Clock;
}

/** What decides which image Pods of one ImagePrewarm can be given; the first choice and each later look at it stand on the same. */
export class VariantGround {
  readonly #facts: VariantFacts;
  readonly #prewarm: ImagePrewarm;

  constructor(facts: VariantFacts, prewarm: ImagePrewarm) {
    this.#facts = facts;
    this.#prewarm = prewarm;
  }

  /** The policy that decides about an image of its Pods. */
  policyFor(reference: Reference): Policy | undefined {
    const { policies, namespaceLabels } = this.#facts;
    return pickPolicy(inOrder(policies()), namespaceLabels(this.#namespace), reference);
  }

  landingOf(source: string): Landing | undefined {
    const { nodeClasses, runtimeClass, clock } = this.#facts;
    return landingOfSource(this.#prewarm, source, { view: nodeClasses(), runtimeClass, now: clock.now() });
  }

  /** Why its Pods are not given an image that nodes failed to pull, or undefined. */
  quarantined(image: string): string | undefined {
    const { nodeClasses, clock } = this.#facts;
    return quarantineOf(nodeClasses(), { namespace: this.#namespace, image, now: clock.now() })?.message;
  }

  get #namespace(): string {
    return this.#prewarm.metadata.namespace ?? '';
  }
}
