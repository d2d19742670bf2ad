import type { GangOwner } from './owners.js';
import type { WorkloadView } from './kueue.js';

/** A gang that nobody queues in the shape of one that Kueue does: it has no checks, so nothing can hold it. */
export function genericView({ gang, resourceVersion }: Pick<GangOwner, 'gang' | 'resourceVersion'>): WorkloadView {
  const { admitted, finished, active } = gang.state;
  return {
    key: gang.key,
    resourceVersion,
    gang,
    hold: { admitted, finished, active, evicted: false, checks: [] },
    hasAnnotations: true,
  };
}
