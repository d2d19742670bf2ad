/**
 * Accelerated tags of Alibaba's registry (ACR). The same suffix stands for an index over the source and for a full copy in another
 * format, by a setting of the registry, and neither is documented to record its source.
 */
const SUFFIXES = ['_containerd_accelerated', '_accelerated'];

/** What people should know when a variant has such a tag and is left alone; undefined for other tags. */
export function vendorNote(tag: string | undefined): string | undefined {
  const suffix = SUFFIXES.find((end) => tag?.endsWith(end) === true);
  if (suffix === undefined) return undefined;
  return `tags that end in ${suffix} are made by Alibaba's registry, which keeps no record of the source; write one with harbinger record`;
}
