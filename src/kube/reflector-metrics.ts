import type { Metrics } from '../observe/metrics.js';
import type { RelistCause } from './decide-next.js';

/** What a reflector counts; all under `harbinger_kube_`, labelled by resource. */
export interface ReflectorMeter {
  listed(cause: RelistCause, ok: boolean): void;
  watched(ok: boolean): void;
  event(type: string): void;
  contact(nowMs: number): void;
  cached(objects: number): void;
  handlerFailed(): void;
}

const silent: ReflectorMeter = { listed() {}, watched() {}, event() {}, contact() {}, cached() {}, handlerFailed() {} };

/** @param resource `workloads.kueue.x-k8s.io`: a closed set, since only the code names resources */
export function reflectorMeter(metrics: Metrics | undefined, resource: string): ReflectorMeter {
  if (metrics === undefined) return silent;
  const lists = metrics.counter('harbinger_kube_lists_total', 'Full lists of a resource by result.', ['resource', 'result']);
  const relists = metrics.counter('harbinger_kube_relists_total', 'Full lists of a resource by cause.', ['resource', 'cause']);
  const watches = metrics.counter('harbinger_kube_watches_total', 'Watches that ended, by result.', ['resource', 'result']);
  const events = metrics.counter('harbinger_kube_watch_events_total', 'Watch events by type.', ['resource', 'type']);
  const contact = metrics.gauge(
    'harbinger_kube_last_contact_timestamp_seconds',
    'When the API server was last heard of about a resource.',
    ['resource'],
  );
  const cached = metrics.gauge('harbinger_kube_cached_objects', 'Objects of a resource in the cache.', ['resource']);
  const failures = metrics.counter('harbinger_kube_handler_errors_total', 'Objects or changes on which our own code threw.', [
    'resource',
  ]);
  const result = (ok: boolean): string => (ok ? 'ok' : 'error');
  return {
    listed(cause, ok) {
      lists.inc({ resource, result: result(ok) });
      relists.inc({ resource, cause });
    },
    watched: (ok) => watches.inc({ resource, result: result(ok) }),
    event: (type) => events.inc({ resource, type }),
    contact: (nowMs) => contact.set({ resource }, nowMs / 1000),
    cached: (objects) => cached.set({ resource }, objects),
    handlerFailed: () => failures.inc({ resource }),
  };
}
