import { present } from '../../api/json.js';
import type { Json } from '../../api/json.js';
import { DNS_SUBDOMAIN } from '../../api/kinds/common.js';
import type { NodeAssignment } from '../../gangs/shape.js';
import type { AffinityTerm, Requirement } from '../../placement/filters/node-affinity.js';
import { isTooLarge } from '../../placement/filters/node-affinity.js';
import type { FlavorView } from './sources/kueue.js';
import { flavorTerm } from './sources/kueue.js';

/** Bounds of the CRD; what exceeds them is cut in the direction of warming more than needed. */
const MAX = { terms: 20, requirements: 50, names: 5_000, values: 1_000 } as const;
const HOSTNAME = 'kubernetes.io/hostname';

/** What there is in the cluster, and what was said of it before. */
export interface KnownNodes {
  /** Names of the nodes with this value of the label `kubernetes.io/hostname`: one, or none while the node is not there. */
  byHostname: (hostname: string) => readonly string[];
  exists: (name: string) => boolean;
  /** Names that the ImagePrewarm has. */
  before: readonly string[];
}

/**
 * Names of the nodes that a queue assigned one by one, in order. Values are those of the label, which need not be the name. Undefined
 * where it assigned something else, and where none of them was ever known. One that is not there stays in the list, by the name that
 * it had or else by its value: a gang that lost a node is not warm, and one that comes back must not be another spec.
 */
export function assignedNames(assignment: NodeAssignment | undefined, nodes: KnownNodes): string[] | undefined {
  if (assignment?.levels.at(-1) !== HOSTNAME) return undefined;
  const hosts = [...new Set(assignment.domains.filter((d) => d.count > 0).map((d) => d.values.at(-1) ?? ''))];
  const known = new Set(hosts.flatMap((host) => nodes.byHostname(host)));
  if (known.size + nodes.before.length === 0) return undefined;
  const unknown = hosts.filter((host) => nodes.byHostname(host).length === 0);
  const lost = nodes.before.filter((name) => !known.has(name) && !nodes.exists(name));
  const names = [...known, ...(lost.length === unknown.length ? lost : unknown)].filter((name) => DNS_SUBDOMAIN.test(name));
  return names.length === 0 ? undefined : [...new Set(names)].slice(0, MAX.names).sort();
}

/**
 * Node selector, required affinity, flavor labels and assigned domains as ORed terms; undefined: any node. With too many of them the
 * terms give a superset: first domains are joined level by level, then flavors are left out.
 */
export function affinityOf(
  own: { selector: Readonly<Record<string, string>>; terms?: readonly Json[] | undefined },
  flavors: readonly FlavorView[],
  assignment: NodeAssignment | undefined,
): AffinityTerm[] | undefined {
  const selector = flavorTerm(own.selector);
  const byFlavor = flavors.map((f) => flavorTerm(f.nodeLabels));
  const flavorTerms = byFlavor.length === 0 || byFlavor.includes(undefined) ? [undefined] : dedupe(byFlavor);
  const product = (...factors: readonly (readonly Maybe[])[]): AffinityTerm[] =>
    factors
      .reduce<Maybe[][]>((sofar, terms) => sofar.flatMap((s) => terms.map((t) => [...s, t])), [[selector]])
      .map((terms) => join(...terms));
  // A term without requirements matches no node, and must not gain some here.
  const matching = (own.terms as readonly AffinityTerm[] | undefined)?.filter((t) => !isEmpty(t));
  if (matching?.length === 0) return [];
  const ownTerms = matching === undefined || matching.length > MAX.terms ? [undefined] : matching.map((t) => bounded(t));
  const exact = domainTerms(assignment);
  const joined = exact.length * ownTerms.length * flavorTerms.length > MAX.terms ? [joinedDomains(assignment)] : exact;
  const fewer = joined.length * ownTerms.length * flavorTerms.length > MAX.terms ? [undefined] : flavorTerms;
  const terms = product(ownTerms, fewer, joined);
  return terms.some(isEmpty) || isTooLarge(terms) ? undefined : terms;
}

/** Requirements of a term are ANDed: without some of them it matches more. */
function bounded({ matchExpressions = [], matchFields = [] }: AffinityTerm): AffinityTerm {
  const fits = ({ values }: Requirement): boolean => (values?.length ?? 0) <= MAX.values;
  return { matchExpressions: matchExpressions.filter(fits), matchFields: matchFields.filter(fits) };
}

function isEmpty({ matchExpressions = [], matchFields = [] }: AffinityTerm): boolean {
  return matchExpressions.length + matchFields.length === 0;
}

type Maybe = AffinityTerm | undefined;

/** Domains of a level above the node: those with all outer levels in common make one term. */
function domainTerms(assignment: NodeAssignment | undefined): Maybe[] {
  if (assignment === undefined) return [undefined];
  const groups = new Map<string, string[]>();
  for (const { values } of assignment.domains) {
    const outer = JSON.stringify(values.slice(0, -1));
    groups.set(outer, [...(groups.get(outer) ?? []), values.at(-1) ?? '']);
    if (groups.size > MAX.terms) return [joinedDomains(assignment)];
  }
  return [...groups].map(([outer, last]) => term(assignment.levels, [...(JSON.parse(outer) as string[]).map((v) => [v]), last]));
}

function joinedDomains(assignment: NodeAssignment | undefined): Maybe {
  if (assignment === undefined) return undefined;
  return term(
    assignment.levels,
    assignment.levels.map((_, i) => assignment.domains.map((d) => d.values[i] ?? '')),
  );
}

function term(levels: readonly string[], values: readonly (readonly string[])[]): Maybe {
  const expressions = levels.flatMap((key, i) => {
    const distinct = [...new Set(values[i])].sort();
    return distinct.length > MAX.values ? [] : [{ key, operator: 'In' as const, values: distinct }];
  });
  return expressions.length === 0 ? undefined : { matchExpressions: expressions };
}

function dedupe(terms: readonly Maybe[]): Maybe[] {
  return [...new Map(terms.map((t) => [JSON.stringify(t), t])).values()];
}

function join(...terms: Maybe[]): AffinityTerm {
  const expressions = terms.flatMap((t) => t?.matchExpressions ?? []);
  const fields = terms.flatMap((t) => t?.matchFields ?? []);
  return present<AffinityTerm>({
    matchExpressions: expressions.length === 0 ? undefined : expressions.slice(0, MAX.requirements),
    matchFields: fields.length === 0 ? undefined : fields.slice(0, MAX.requirements),
  });
}
