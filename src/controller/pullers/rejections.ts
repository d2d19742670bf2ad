import { at, string, time } from '../../api/json.js';
import type { KubeObject } from '../../api/object.js';
import type { KubePort } from '../../kube/port.js';
import { RESOURCE } from '../../kube/resources.js';
import type { PullerSet } from '../../preheat/world.js';

/** What the DaemonSet controller last said of a set that gets no Pods; undefined where it said nothing or may not be asked. */
export type ReadRejection = (set: Pick<PullerSet, 'namespace' | 'uid'>) => Promise<string | undefined>;

/** Events of one page: a set has one a reason and message, however often it happened. */
const PAGE = 50;

/**
 * Reads events of DaemonSets in namespaces of tenants one set at a time. Following them everywhere would need the right to read the
 * events of all tenants; this needs it only where ClusterRole harbinger-workload-pullers is bound.
 */
export function rejectionReader(client: Pick<KubePort, 'list'>): ReadRejection {
  return async ({ namespace, uid }) => {
    const selector = { namespace, fieldSelector: `regarding.kind=DaemonSet,regarding.uid=${uid},type=Warning`, limit: PAGE };
    let latest: Told | undefined;
    try {
      for await (const page of client.list(RESOURCE.events, selector))
        latest = latestOf([...(latest === undefined ? [] : [latest]), ...page.map(told)]);
    } catch {
      // It only explains; the failure itself is told without it.
      return undefined;
    }
    return latest?.note;
  };
}

/** One complaint, as an event tells it. */
export interface Told {
  /** Epoch ms. */
  at: number;
  note: string;
}

/** Reads an event. One that happens again keeps its place and its name, and only its times change. */
export function told(event: KubeObject): Told {
  const times = [at(event, 'series')['lastObservedTime'], at(event)['deprecatedLastTimestamp'], at(event)['eventTime']];
  const { reason, note } = at(event);
  return { at: times.map(time).find((t) => t !== undefined) ?? 0, note: `${string(reason) ?? ''}: ${string(note) ?? ''}` };
}

/** The latest by the time at which it last happened, whatever the order; of several at once the last. */
export function latestOf<T extends Told>(all: readonly T[]): T | undefined {
  return all.reduce<T | undefined>((latest, one) => (latest === undefined || one.at >= latest.at ? one : latest), undefined);
}
