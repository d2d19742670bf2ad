import type { Json } from '../api/json.js';
import { at, record, records, string, stringMap } from '../api/json.js';
import { podRequests } from '../api/pod-requests.js';

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
  /** Requests of one Pod by resource name, in base units (cores, bytes, pieces); see podRequests. */
  requests: Record<string, number>;
  annotations: Readonly<Record<string, string>>;
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
    requests: podRequests(spec),
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
