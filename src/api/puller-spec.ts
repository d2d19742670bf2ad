import type { Json } from './json.js';
import { at, list, records, string } from './json.js';

/** Whether the kubelet mounts the image as a volume, or runs it as a container with our program. */
export type PullMethod = 'ImageVolume' | 'Container';

/** Name of the volume that is the image. */
export const IMAGE_VOLUME = 'image';
/** Name of the container that runs the image. */
export const IMAGE_CONTAINER = 'image';

/** How the Pods of a spec have the image pulled, and which; no image where they pull none that they could prove. */
export interface Warming {
  method: PullMethod;
  image?: string;
}

/** Reads a Pod spec as one of a puller. A volume without a source, which is what an old API server keeps, warms nothing. */
export function warmingOf(spec: Json): Warming {
  const volume = records(spec['volumes']).find((v) => v['name'] === IMAGE_VOLUME);
  const container = records(spec['containers']).find((c) => c['name'] === IMAGE_CONTAINER);
  const method = volume === undefined && container !== undefined ? 'Container' : 'ImageVolume';
  const image = method === 'Container' ? string(container?.['image']) : string(at(volume, 'image')['reference']);
  return image === undefined ? { method } : { method, image };
}

/** Names of the nodes to which a puller's spec, or the affinity that the DaemonSet controller wrote for a Pod, is bound. */
export function pullerNodes(spec: Json): string[] {
  const required = at(spec, 'affinity', 'nodeAffinity', 'requiredDuringSchedulingIgnoredDuringExecution');
  const fields = records(required['nodeSelectorTerms']).flatMap((term) => records(term['matchFields']));
  return fields.flatMap((f) => list(f['values']) ?? []).filter((v) => typeof v === 'string');
}
