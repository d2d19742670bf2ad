import type { Log } from '../../observe/log.js';
import { isOurs } from '../../preheat/ownership.js';
import type { Caches } from '../caches.js';

/**
 * Says once for each DaemonSet of pullers that its Pods ask for resources. They are made without, so that gangs of whole-node Pods fit
 * beside them; who adds some keeps such gangs from the nodes, and nothing else would tell why they wait.
 * @param own Harbinger's own namespace
 */
export function tellGreedy(caches: Pick<Caches, 'pods' | 'sets'>, own: string, log: Pick<Log, 'warn'>): void {
  const told = new Set<string>();
  caches.pods.onChange((_key, pod) => {
    if (pod?.asks === undefined) return;
    const set = caches.sets.list().find((s) => s.uid === pod.ownerUid && s.namespace === pod.namespace && isOurs(s, own));
    const key = `${pod.namespace}/${set?.name ?? ''}`;
    if (set === undefined || told.has(key)) return;
    told.add(key);
    log.warn(
      { set: key, pod: pod.name, asks: pod.asks },
      'pullers ask for resources that they were not made with, so gangs that need whole nodes do not fit beside them: a mutating webhook, a LimitRange or the overhead of a RuntimeClass adds them; see docs/runbook.md',
    );
  });
  caches.sets.onChange((key, set) => {
    if (set === undefined) told.delete(key);
  });
}
