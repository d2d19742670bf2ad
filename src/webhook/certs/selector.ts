import { at, list, records } from '../../api/json.js';
import type { Json } from '../../api/json.js';
import { LABEL } from '../../api/names.js';
import type { Scope } from '../../rewrite/scope.js';

/** What the selector of a webhook entry does with the label of namespaces; `other` where it does neither of what Harbinger installs. */
export type Selected = 'labelled' | 'not-disabled' | 'all' | 'other';

const KEY = LABEL.accelerate;

/** Reads the namespaceSelector of an entry of a MutatingWebhookConfiguration. */
export function selectedBy(webhook: Json): Selected {
  const selector = at(webhook, 'namespaceSelector');
  const label = at(selector, 'matchLabels')[KEY];
  const terms = records(selector['matchExpressions']).filter((term) => term['key'] === KEY);
  if (terms.length === 0) return label === undefined ? 'all' : label === 'enabled' ? 'labelled' : 'other';
  const [term] = terms;
  if (term === undefined || terms.length > 1 || label !== undefined) return 'other';
  const says = `${String(term['operator'])} ${(list(term['values']) ?? []).map(String).join(',')}`;
  if (says === 'In enabled') return 'labelled';
  return says === 'NotIn disabled' ? 'not-disabled' : 'other';
}

/** How a selector and the configured scope disagree, and what to do; undefined where they agree or the selector is somebody's own. */
export function selectorProblem(scope: Scope, selected: Selected): string | undefined {
  if (scope === 'AllNamespaces' && selected === 'labelled')
    return `scope is AllNamespaces, but the namespaceSelector lets only Pods of namespaces labelled ${KEY}=enabled through; change its term to {key: ${KEY}, operator: NotIn, values: [disabled]}`;
  if (scope === 'LabelledNamespaces' && (selected === 'all' || selected === 'not-disabled'))
    return `scope is LabelledNamespaces, but the namespaceSelector lets Pods of all namespaces through, which costs each of them a call for nothing; change its term to {key: ${KEY}, operator: In, values: [enabled]}`;
  return undefined;
}
