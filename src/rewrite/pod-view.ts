import type { Json } from '../api/json.js';
import { at, list, record, records, string, stringMap } from '../api/json.js';

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
