import type { Json } from '../api/json.js';
import { at, list, record, records, string, stringMap } from '../api/json.js';
import { ANNOTATION } from '../api/names.js';

/** One container or image volume of a Pod as it stands in this review. */
export interface PodContainer {
  kind: 'container' | 'volume' | 'ephemeral';
  /** Its name; that of a volume as `volume/NAME`, which no container can have. */
  name: string;
  image: string;
  pullPolicy: string | undefined;
  /** JSON pointer of its image; nothing else of it is ever touched. */
  pointer: string;
}

/** What rewriting reads of a raw Pod. The Pod itself stays raw JSON: a typed copy would lose fields of newer API servers. */
export interface PodView {
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
  /** Init containers (sidecars among them) first, then containers, then image volumes. */
  containers: readonly PodContainer[];
  raw: Json;
}

/** Reads a Pod; undefined where it has no metadata or no spec and so nothing could be patched. */
export function viewPod(value: unknown): PodView | undefined {
  const raw = record(value);
  const metadata = record(raw?.['metadata']);
  const spec = record(raw?.['spec']);
  if (raw === undefined || metadata === undefined || spec === undefined) return undefined;
  const containers = ['initContainers', 'containers'].flatMap((field) => readContainers(spec[field], `/spec/${field}`));
  return {
    labels: stringMap(metadata['labels']),
    annotations: stringMap(metadata['annotations']),
    containers: [...containers, ...readVolumes(spec['volumes'])],
    raw,
  };
}

/**
 * Reads the containers that an update of `pods/ephemeralcontainers` adds; undefined where it adds none. What was there before is
 * immutable, and so a change of it would have the whole request refused.
 */
export function viewEphemeral(value: unknown, old: unknown): PodView | undefined {
  const pod = viewPod(value);
  const field = 'ephemeralContainers';
  const before = new Set(records(at(old, 'spec')[field]).map((c) => c['name']));
  const all = readContainers(at(value, 'spec')[field], `/spec/${field}`, 'ephemeral');
  const containers = all.filter((c) => !before.has(c.name));
  return pod === undefined || containers.length === 0 ? undefined : { ...pod, containers };
}

/** Containers without a name or image are left to the API server, which refuses them with a message of its own. */
function readContainers(value: unknown, pointer: string, kind: PodContainer['kind'] = 'container'): PodContainer[] {
  return (list(value) ?? []).flatMap((entry, i) => {
    const container = record(entry);
    const [name, image] = [string(container?.['name']), string(container?.['image'])];
    if (name === undefined || image === undefined) return [];
    const pullPolicy = string(container?.['imagePullPolicy']);
    return [{ kind, name, image, pullPolicy, pointer: `${pointer}/${i}/image` }];
  });
}

/** Volumes with an image; an empty reference is allowed by the API server and names nothing. */
function readVolumes(value: unknown): PodContainer[] {
  return (list(value) ?? []).flatMap((entry, i) => {
    const source = at(record(entry) ?? {}, 'image');
    const [name, image] = [string(record(entry)?.['name']), string(source['reference'])];
    if (name === undefined || image === undefined || image === '') return [];
    const pullPolicy = string(source['pullPolicy']);
    return [{ kind: 'volume', name: `volume/${name}`, image, pullPolicy, pointer: `/spec/volumes/${i}/image/reference` }];
  });
}

/**
 * The sources that an incoming decisions annotation claims, by container name, where its claimed output is the image that stands
 * there. The annotation is user input (a Pod made again from `kubectl get -o yaml`, a restored backup, a forgery): each claim is only a
 * question to ask, never an answer.
 */
export function claimedSources(pod: PodView): ReadonlyMap<string, string> {
  const claims = new Map<string, string>();
  const annotation = pod.annotations[ANNOTATION.decisions];
  if (annotation === undefined) return claims;
  // Of two containers with one name the API server refuses the Pod; until then neither can claim anything.
  const images = new Map<string, string | undefined>();
  for (const { name, image } of pod.containers) images.set(name, images.has(name) ? undefined : image);
  for (const entry of records(parseJson(annotation))) {
    const [container, source, image] = [string(entry['container']), string(entry['source']), string(entry['image'])];
    if (container === undefined || source === undefined) continue;
    if (source !== image && images.get(container) === image) claims.set(container, source);
  }
  return claims;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
