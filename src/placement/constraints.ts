import { createHash } from 'node:crypto';
import type { Json } from '../api/json.js';
import { at, list, record, records, string, stringMap } from '../api/json.js';
import type { AffinityTerm, Requirement } from './filters/node-affinity.js';
import type { TolerationLike } from './filters/taints.js';

/** What a Pod demands of nodes, as far as it decides where it can land for good. */
export interface Constraints {
  nodeSelector: Readonly<Record<string, string>>;
  /** Required node affinity; ORed. Absent: any node; empty: none. */
  terms?: readonly AffinityTerm[];
  tolerations: readonly TolerationLike[];
}

/** Demands (requirements, values, tolerations) of one Pod above which they are not looked at: 500 classes are compared with each. */
const MAX_DEMANDS = 500;
const EVERYTHING: TolerationLike = { operator: 'Exists' };
/** Demands nothing and shuns nothing: can land anywhere. */
const ANYWHERE: Constraints = { nodeSelector: {}, tolerations: [EVERYTHING] };

/**
 * Reads `spec` of a Pod or of a Pod template, raw; total. Pods with too many demands count as if they had none. Taints do not
 * stop a Pod whose node is named already, and a gated Pod may be given tolerations before it is let go (Kueue does, for flavors).
 */
export function constraintsOf(podSpec: Json): Constraints {
  const required = at(podSpec, 'affinity', 'nodeAffinity')['requiredDuringSchedulingIgnoredDuringExecution'];
  const rawTerms = record(required) === undefined ? undefined : records(at(required)['nodeSelectorTerms']);
  const rawTolerations = records(podSpec['tolerations']);
  const nodeSelector = stringMap(podSpec['nodeSelector']);
  const demands =
    Object.keys(nodeSelector).length + rawTolerations.length + (rawTerms ?? []).reduce((sum, t) => sum + demandsOf(t), 0);
  if (demands > MAX_DEMANDS) return ANYWHERE;
  const free = string(podSpec['nodeName']) !== undefined || records(podSpec['schedulingGates']).length > 0;
  return {
    nodeSelector,
    ...(rawTerms === undefined ? {} : { terms: rawTerms.map(readTerm) }),
    tolerations: free ? [EVERYTHING] : rawTolerations.map(readToleration),
  };
}

function demandsOf(term: Json): number {
  const requirements = [...records(term['matchExpressions']), ...records(term['matchFields'])];
  return 1 + requirements.reduce((sum, r) => sum + 1 + (list(r['values'])?.length ?? 0), 0);
}

function readTerm(raw: Json): AffinityTerm {
  return {
    matchExpressions: records(raw['matchExpressions']).map(readRequirement),
    matchFields: records(raw['matchFields']).map(readRequirement),
  };
}

function readRequirement(raw: Json): Requirement {
  const values = (list(raw['values']) ?? []).filter((v): v is string => typeof v === 'string');
  return { key: string(raw['key']) ?? '', operator: string(raw['operator']) ?? '', values };
}

/** One toleration of raw JSON; fields of another type are left out. */
export function readToleration(raw: Json): TolerationLike {
  const [key, operator, value, effect] = [raw['key'], raw['operator'], raw['value'], raw['effect']].map(string);
  return { key, operator, value, effect };
}

/** Longest key that is kept as it is; hashing costs more than it saves for the few demands of most Pods. */
const MAX_PLAIN_KEY = 200;

/** Equal for Pods with equal demands on nodes; short, whatever the Pod says. */
export function constraintKey({ nodeSelector, terms, tolerations }: Constraints): string {
  const selector = Object.entries(nodeSelector).sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([selector, terms ?? null, tolerations]);
  // A hash has 22 characters and no brackets, so it is never taken for a text.
  if (text.length <= MAX_PLAIN_KEY) return text;
  return createHash('sha256').update(text).digest('base64url').slice(0, 22);
}
