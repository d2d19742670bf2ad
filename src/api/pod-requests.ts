import type { Json } from './json.js';
import { at, record, records } from './json.js';
import { parseQuantity } from './quantity.js';

/** Requests by resource name in base units (cores, bytes, pieces). */
export type Requests = Record<string, number>;

/** Resources that `spec.resources` may set for a Pod as a whole (KEP-2837); all others count by container. */
const POD_LEVEL = /^(cpu|memory|hugepages-.+)$/;

function requestsOfContainer(container: Json): Requests {
  const resources = at(container, 'resources');
  // A limit without a request is the request: API server defaulting.
  return quantities({ ...record(resources['limits']), ...record(resources['requests']) });
}

/** Quantities of a raw ResourceList; those that cannot be read count as none. */
export function quantities(raw: Json): Requests {
  return Object.fromEntries(Object.entries(raw).map(([name, value]) => [name, parseQuantity(value) ?? 0]));
}

/** Adds `more` to `into`, resource by resource. */
export function addRequests(into: Requests, more: Readonly<Requests>): void {
  for (const [name, value] of Object.entries(more)) into[name] = (into[name] ?? 0) + value;
}

function raise(into: Requests, more: Readonly<Requests>): void {
  for (const [name, value] of Object.entries(more)) into[name] = Math.max(into[name] ?? 0, value);
}

/**
 * Requests of one Pod (raw `spec` of a Pod or a template): containers and sidecars added up, or what init containers need while they
 * run, whichever is more; what is set for the Pod as a whole in place of these; and its overhead.
 * Rule: component-helpers resource.PodRequests (KEP-753: sidecars count from their place in the list on; KEP-2837: Pod level).
 */
export function podRequests(spec: Json): Requests {
  const sidecars: Requests = {};
  const init: Requests = {};
  for (const container of records(spec['initContainers'])) {
    const own = requestsOfContainer(container);
    const sidecar = container['restartPolicy'] === 'Always';
    if (sidecar) addRequests(sidecars, own);
    const needed = sidecar ? { ...sidecars } : { ...own };
    if (!sidecar) addRequests(needed, sidecars);
    raise(init, needed);
  }
  const total = { ...sidecars };
  for (const container of records(spec['containers'])) addRequests(total, requestsOfContainer(container));
  raise(total, init);
  const whole = Object.entries(requestsOfPod(spec)).filter(([name]) => POD_LEVEL.test(name));
  Object.assign(total, Object.fromEntries(whole));
  addRequests(total, quantities(at(spec, 'overhead')));
  return total;
}

/**
 * What `spec.resources` asks for. A limit alone is the request of its resource only where no container requests that resource:
 * the API server takes the sum of the containers otherwise.
 */
function requestsOfPod(spec: Json): Requests {
  const { limits, requests } = at(spec, 'resources');
  const containers = [...records(spec['containers']), ...records(spec['initContainers'])];
  const asked = new Set(containers.flatMap((c) => Object.keys(requestsOfContainer(c))));
  const fromLimits = Object.entries(record(limits) ?? {}).filter(([name]) => !asked.has(name));
  return quantities({ ...Object.fromEntries(fromLimits), ...record(requests) });
}
