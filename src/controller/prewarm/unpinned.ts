import { LABEL } from '../../api/names.js';
import type { HarbingerConfig } from '../../config/schema.js';

/**
 * Why Pods of a gang are not given the images that are recorded and warmed for it, and what to do; undefined where they are. The
 * webhook never sees Pods of a namespace that is out of its scope, while opting in to prewarming works in any.
 */
export function unpinnedBecause(
  namespace: string,
  labels: Readonly<Record<string, string>>,
  scope: HarbingerConfig['scope'],
): string | undefined {
  const label = labels[LABEL.accelerate];
  if (scope === 'AllNamespaces' ? label !== 'disabled' : label === 'enabled') return undefined;
  const way =
    scope === 'AllNamespaces' ? `remove label ${LABEL.accelerate}=disabled from it` : `label it ${LABEL.accelerate}=enabled`;
  return `namespace ${namespace} is out of the webhook's scope, so Pods of the gang are not pinned to these digests and a tag that moves gives them other images; ${way} before the gang starts`;
}
