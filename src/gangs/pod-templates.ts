import type { Json } from '../api/json.js';
import { at, record, records, string, stringMap } from '../api/json.js';
import { parseQuantity } from '../api/quantity.js';

export interface Toleration {
  key?: string;
  operator?: string;
  value?: string;
  effect?: string;
}

/** What a Pod template says about images and about the nodes its Pods may land on. */
export interface TemplateFacts {
  /** Images in order of containers (init first: they run first), each once. */
  images: string[];
  imagePullSecrets: string[];
  serviceAccountName?: string;
  runtimeClassName?: string;
  tolerations: Toleration[];
  nodeSelector: Readonly<Record<string, string>>;
  /** `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`, absent when there is no required node affinity. */
  affinityTerms?: Json[];
  /** Requests of one Pod by resource name, in base units (cores, bytes, pieces); see requestsOf. */
  requests: Record<string, number>;
  annotations: Readonly<Record<string, string>>;
}

function requestsOfContainer(container: Json): Record<string, number> {
  const resources = at(container, 'resources');
  // A limit without a request is the request: API server defaulting.
  const entries = Object.entries({ ...record(resources['limits']), ...record(resources['requests']) });
  return Object.fromEntries(entries.map(([name, value]) => [name, parseQuantity(value) ?? 0]));
}

function add(into: Record<string, number>, more: Record<string, number>): void {
  for (const [name, value] of Object.entries(more)) into[name] = (into[name] ?? 0) + value;
}

function raise(into: Record<string, number>, more: Record<string, number>): void {
  for (const [name, value] of Object.entries(more)) into[name] = Math.max(into[name] ?? 0, value);
}

/**
 * Requests of one Pod: containers and sidecars added up, or what init containers need while they run, whichever is more.
 * Rule: component-helpers resource.PodRequests (KEP-753 sidecars count from their place in the list on).
 */
function requestsOf(spec: Json): Record<string, number> {
  const sidecars: Record<string, number> = {};
  const init: Record<string, number> = {};
  for (const container of records(spec['initContainers'])) {
    const own = requestsOfContainer(container);
    if (container['restartPolicy'] === 'Always') add(sidecars, own);
    const needed = { ...own };
    if (container['restartPolicy'] !== 'Always') add(needed, sidecars);
    raise(init, needed);
  }
  const total = { ...sidecars };
  for (const container of records(spec['containers'])) add(total, requestsOfContainer(container));
  raise(total, init);
  add(total, Object.fromEntries(Object.entries(at(spec, 'overhead')).map(([n, v]) => [n, parseQuantity(v) ?? 0])));
  return total;
}

function imagesOf(spec: Json): string[] {
  const containers = [...records(spec['initContainers']), ...records(spec['containers'])];
  // imagePullPolicy Never: the node has the image or the Pod fails, so there is nothing to pull.
  const fromContainers = containers.filter((c) => c['imagePullPolicy'] !== 'Never').map((c) => string(c['image']));
  const fromVolumes = records(spec['volumes']).map((v) => string(at(v, 'image')['reference']));
  return [...new Set([...fromContainers, ...fromVolumes].filter((i) => i !== undefined && i.trim() !== ''))] as string[];
}

/** Reads a PodTemplateSpec; total: whatever is malformed counts as absent, containers without an image have none. */
export function templateFacts(template: Json): TemplateFacts {
  const spec = at(template, 'spec');
  const required = at(spec, 'affinity', 'nodeAffinity')['requiredDuringSchedulingIgnoredDuringExecution'];
  const serviceAccountName = string(spec['serviceAccountName']);
  const runtimeClassName = string(spec['runtimeClassName']);
  return {
    images: imagesOf(spec),
    imagePullSecrets: records(spec['imagePullSecrets'])
      .map((s) => string(s['name']))
      .filter((n): n is string => n !== undefined && n !== ''),
    ...(serviceAccountName ? { serviceAccountName } : {}),
    ...(runtimeClassName ? { runtimeClassName } : {}),
    tolerations: records(spec['tolerations']).map(toleration),
    nodeSelector: stringMap(spec['nodeSelector']),
    ...(record(required) === undefined ? {} : { affinityTerms: records(at(required)['nodeSelectorTerms']) }),
    requests: requestsOf(spec),
    annotations: stringMap(at(template, 'metadata')['annotations']),
  };
}

/** One toleration; fields of another type are left out. */
export function toleration(raw: Json): Toleration {
  const out: Toleration = {};
  for (const field of ['key', 'operator', 'value', 'effect'] as const) {
    const value = string(raw[field]);
    if (value !== undefined) out[field] = value;
  }
  return out;
}
