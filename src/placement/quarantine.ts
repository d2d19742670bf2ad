import { parseReference } from '../images/reference.js';
import type { NodeClasses, QuarantinedVariant } from './node-classes.js';

/** What a variant is known by whatever form it is written in: its digest, else the image as it stands in Pods. */
export function variantKey(image: string): string {
  const reading = parseReference(image);
  return (reading.ok ? reading.reference.digest : undefined) ?? image;
}

/**
 * The failure for which Pods of a namespace are not given `image`, or undefined. Counts for the namespace alone: who fails may be
 * a Pod with bad credentials, or one that was made to fail.
 */
export function quarantineOf(
  view: NodeClasses | undefined,
  pod: { namespace: string; image: string; now: number },
): QuarantinedVariant | undefined {
  if (view === undefined || view.quarantined.length === 0) return undefined;
  const key = variantKey(pod.image);
  return view.quarantined.find((q) => q.variant === key && q.namespace === pod.namespace && pod.now < q.until);
}
