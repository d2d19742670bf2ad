import type { AffinityTerm } from './filters/node-affinity.js';
import { requirementsOf } from './filters/node-affinity.js';

/** What people write by hand: so few requirements are always weighed. */
const SMALL = 32;
/** Comparisons of large ones in one plan: fractions of a second. A plan is made in one go, and nothing else happens meanwhile. */
const MOST = 5_000_000;
/** Of these for one namespace, so that whoever has one does not take the others' exactness: more than the largest on 5,000 nodes. */
const MOST_OF_NAMESPACE = 2_000_000;

/** Counts what one plan spends on large affinities. Objects that come first are served first, in an order that lasts. */
export class AffinityWork {
  #spent = 0;
  readonly #ofNamespaces = new Map<string, number>();

  /** Whether terms may be compared with so many nodes still, and if so counts it. */
  spend(namespace: string, terms: readonly AffinityTerm[] | undefined, nodes: number): boolean {
    const requirements = terms === undefined ? 0 : requirementsOf(terms);
    if (requirements <= SMALL) return true;
    const comparisons = requirements * nodes;
    const ofNamespace = (this.#ofNamespaces.get(namespace) ?? 0) + comparisons;
    if (this.#spent + comparisons > MOST || ofNamespace > MOST_OF_NAMESPACE) return false;
    this.#spent += comparisons;
    this.#ofNamespaces.set(namespace, ofNamespace);
    return true;
  }
}
