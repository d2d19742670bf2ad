import { createHash } from 'node:crypto';
import { parseReference } from '../images/reference.js';

/** What one DaemonSet of pullers warms: one image by digest, unpacked by the snapshotter of one runtime class. */
export interface Puller {
  /** Identity: equal for equal (image, runtimeClassName), so that gangs and tenants share pulls. */
  hash: string;
  /** `registry/repository@digest`. */
  image: string;
  runtimeClassName?: string;
  /** Host that the per-registry limit counts. */
  registry: string;
  /** Compressed bytes of one platform; 0 where unknown. */
  bytes: number;
}

/**
 * The puller of an image.
 * @param image `registry/repository@digest`; anything else is refused with undefined: bytes that are not pinned prove nothing
 */
export function pullerOf(
  image: string,
  options: { runtimeClassName?: string | undefined; bytes?: number | undefined } = {},
): Puller | undefined {
  const parsed = parseReference(image);
  if (!parsed.ok || parsed.reference.digest === undefined) return undefined;
  const { runtimeClassName = '', bytes = 0 } = options;
  const hash = createHash('sha256').update(`${image}\n${runtimeClassName}`).digest('hex').slice(0, 16);
  return { hash, image, registry: parsed.reference.registry, bytes, ...(runtimeClassName === '' ? {} : { runtimeClassName }) };
}
