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

/** Rule: component-helpers nodeaffinity; NotIn and DoesNotExist hold where the label is absent, Gt and Lt need integers. */
export function holds({ operator, values = [] }: Requirement, actual: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return actual !== undefined && values.includes(actual);
    case 'NotIn':
      return actual === undefined || !values.includes(actual);
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

function compare(actual: string | undefined, values: readonly string[], test: (a: number, b: number) => boolean): boolean {
  const [limit] = values;
  const integer = (t: string | undefined): t is string => t !== undefined && /^-?\d+$/.test(t);
  return values.length === 1 && integer(actual) && integer(limit) && test(Number(actual), Number(limit));
}

export function matchesTerm(node: NodeFacts, term: AffinityTerm): boolean {
  const { matchExpressions = [], matchFields = [] } = term;
  if (matchExpressions.length + matchFields.length === 0) return false;
  const fields = matchFields.every((r) => r.key === 'metadata.name' && holds(r, node.name));
  return fields && matchExpressions.every((r) => holds(r, node.labels[r.key]));
}

/** Node selector and required affinity of the target; terms are ORed. */
export function nodeAffinity(node: NodeFacts, terms: readonly AffinityTerm[] | undefined): string | undefined {
  if (terms === undefined || terms.some((term) => matchesTerm(node, term))) return undefined;
  return 'its labels do not match the node selector or required node affinity';
}
