import { at, string, time } from '../api/json.js';
import type { KubePort } from '../kube/port.js';
import { RESOURCE } from '../kube/resources.js';
import type { PullerSet } from '../preheat/world.js';

/** What the DaemonSet controller last said of a set that gets no Pods; undefined where it said nothing or may not be asked. */
export type ReadRejection = (set: Pick<PullerSet, 'namespace' | 'name'>) => Promise<string | undefined>;

/** Events of one page: a set has one a reason and message, however often it happened. */
const PAGE = 50;

/**
 * Reads events of DaemonSets in namespaces of tenants one set at a time. Following them everywhere would need the right to read the
 * events of all tenants; this needs it only where ClusterRole harbinger-workload-pullers is bound.
 */
export function rejectionReader(client: Pick<KubePort, 'list'>): ReadRejection {
  return async ({ namespace, name }) => {
    const selector = { namespace, fieldSelector: `regarding.kind=DaemonSet,regarding.name=${name},type=Warning`, limit: PAGE };
    const latest: { seen: number; note: string } = { seen: 0, note: '' };
    try {
      for await (const page of client.list(RESOURCE.events, selector)) {
        for (const event of page) {
          const seen =
            time(at(event, 'series')['lastObservedTime']) ??
            time(at(event)['deprecatedLastTimestamp']) ??
            time(at(event)['eventTime']) ??
            0;
          if (seen < latest.seen) continue;
          latest.seen = seen;
          latest.note = `${string(at(event)['reason']) ?? ''}: ${string(at(event)['note']) ?? ''}`;
        }
      }
    } catch {
      // It only explains; the failure itself is told without it.
      return undefined;
    }
    return latest.note === '' ? undefined : latest.note;
  };
}
