/** Ready reasons under which the counts of warm nodes say nothing about the images that the gang would run now. */
const SAYS_NOTHING: ReadonlySet<string> = new Set([
  'ImageMoved',
  'ResolvingImages',
  'Invalid',
  'NoCandidateNodes',
  'Pending',
  'Suspended',
  'Finished',
]);

/**
 * Whether part of the nodes being warm is enough to let a gang go, by `minWarmPercent` of its check. It helps most where the last
 * nodes fail for good, so failures do not count against it.
 * @param warmth counts, and the reason of condition Ready
 */
export function isEnough(warmth: { warm: number; desired: number; reason: string }, minWarmPercent: number): boolean {
  const { warm, desired, reason } = warmth;
  return minWarmPercent < 100 && desired > 0 && warm * 100 >= desired * minWarmPercent && !SAYS_NOTHING.has(reason);
}
