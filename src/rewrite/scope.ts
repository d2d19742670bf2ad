import { LABEL } from '../api/names.js';
import type { NamespaceFacts } from './skip.js';

/** Whether the webhook serves namespaces that are labelled for it, or all but those that are labelled against it. */
export type Scope = 'LabelledNamespaces' | 'AllNamespaces';

/**
 * Why Pods of a namespace are out of the webhook's reach, as a clause, and the way in; undefined where they are in it. The selector of
 * the webhook configuration says the same.
 */
export function outOfScope(
  scope: Scope,
  { name, labels }: Pick<NamespaceFacts, 'name' | 'labels'>,
): { problem: string; way: string } | undefined {
  const key = LABEL.accelerate;
  if (scope === 'LabelledNamespaces')
    return labels[key] === 'enabled'
      ? undefined
      : { problem: `namespace ${name} is not labelled ${key}=enabled`, way: `label it ${key}=enabled` };
  return labels[key] === 'disabled'
    ? { problem: `namespace ${name} is labelled ${key}=disabled`, way: `remove label ${key}=disabled from it` }
    : undefined;
}
