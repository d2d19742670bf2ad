import { outOfScope } from '../../rewrite/scope.js';
import type { Scope } from '../../rewrite/scope.js';

/**
 * Why Pods of a gang are not given the images that are recorded and warmed for it, and what to do; undefined where they are. The
 * webhook never sees Pods of a namespace that is out of its scope, while opting in to prewarming works in any.
 */
export function unpinnedBecause(namespace: string, labels: Readonly<Record<string, string>>, scope: Scope): string | undefined {
  const out = outOfScope(scope, { name: namespace, labels });
  if (out === undefined) return undefined;
  return `namespace ${namespace} is out of the webhook's scope, so Pods of the gang are not pinned to these digests and a tag that moves gives them other images; ${out.way} before the gang starts`;
}
