import { integer } from '../integer.js';
import type { NodeFacts } from '../node-facts.js';

export interface Requirement {
  key: string;
  operator: string;
  values?: readonly string[] | undefined;
}

/** One node selector term: its requirements are ANDed. A term without requirements matches no node. */
export interface AffinityTerm {
  matchExpressions?: readonly Requirement[] | undefined;
  matchFields?: readonly Requirement[] | undefined;
}

/** More than this is not weighed by anybody: the terms count as none, and every node as one that they select. */
const MAX = { requirements: 256, values: 20_000 } as const;

/** How many requirements the terms have; each is compared with every node. */
export function requirementsOf(terms: readonly AffinityTerm[]): number {
  return terms.reduce(
    (sum, { matchExpressions = [], matchFields = [] }) => sum + matchExpressions.length + matchFields.length,
    0,
  );
}

/** Whether terms are too large to be compared with thousands of nodes in every plan: whoever may make a Job writes them. */
export function isTooLarge(terms: readonly AffinityTerm[]): boolean {
  if (requirementsOf(terms) > MAX.requirements) return true;
  const values = terms.flatMap((t) => (t.matchExpressions ?? []).map((r) => r.values?.length ?? 0));
  return values.reduce((sum, n) => sum + n, 0) > MAX.values;
}

/** So few are found fastest by looking at each. */
const FEW = 8;
/** Made once of each list, since objects of caches are replaced and never changed. */
const SETS = new WeakMap<readonly string[], ReadonlySet<string>>();

function isListed(values: readonly string[], actual: string): boolean {
  if (values.length <= FEW) return values.includes(actual);
  const set = SETS.get(values) ?? new Set(values);
  SETS.set(values, set);
  return set.has(actual);
}

/** Rule: component-helpers nodeaffinity; NotIn and DoesNotExist hold where the label is absent, Gt and Lt need integers. */
export function holds({ operator, values = [] }: Requirement, actual: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return actual !== undefined && isListed(values, actual);
    case 'NotIn':
      return actual === undefined || !isListed(values, actual);
    case 'Exists':
      return actual !== undefined;
    case 'DoesNotExist':
      return actual === undefined;
    case 'Gt':
      return compare(actual, values, (a, b) => a > b);
    case 'Lt':
      return compare(actual, values, (a, b) => a < b);
    default:
      return false;
  }
}

function compare(actual: string | undefined, values: readonly string[], test: (a: bigint, b: bigint) => boolean): boolean {
  const [a, b] = [integer(actual), integer(values[0])];
  return values.length === 1 && a !== undefined && b !== undefined && test(a, b);
}

/** Rule: component-helpers nodeSelectorRequirementsAsFieldSelector; the name is the only field, and one value is named. */
function fieldHolds(requirement: Requirement, name: string): boolean {
  const { key, operator, values = [] } = requirement;
  return (
    key === 'metadata.name' && (operator === 'In' || operator === 'NotIn') && values.length === 1 && holds(requirement, name)
  );
}

export function matchesTerm(node: NodeFacts, term: AffinityTerm): boolean {
  const { matchExpressions = [], matchFields = [] } = term;
  if (matchExpressions.length + matchFields.length === 0) return false;
  const label = (key: string): string | undefined => (Object.hasOwn(node.labels, key) ? node.labels[key] : undefined);
  return matchFields.every((r) => fieldHolds(r, node.name)) && matchExpressions.every((r) => holds(r, label(r.key)));
}

/** Node selector and required affinity of the target; terms are ORed. */
export function nodeAffinity(node: NodeFacts, terms: readonly AffinityTerm[] | undefined): string | undefined {
  if (terms === undefined || terms.some((term) => matchesTerm(node, term))) return undefined;
  return 'its labels do not match the node selector or required node affinity';
}

/** Nodes that the RuntimeClass of the target does not select. */
export function runtimeClassNodes(node: NodeFacts, selector: Readonly<Record<string, string>> = {}): string | undefined {
  const missing = Object.entries(selector).find(([key, value]) => !Object.hasOwn(node.labels, key) || node.labels[key] !== value);
  return missing === undefined ? undefined : `its RuntimeClass asks for nodes with ${missing.join('=')}`;
}
