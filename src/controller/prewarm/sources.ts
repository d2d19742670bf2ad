import type { ImagePrewarm } from '../../api/kinds/index.js';

/** References that the spec names. */
export function sourcesOf({ spec }: Pick<ImagePrewarm, 'spec'>): ReadonlySet<string> {
  return new Set(spec.targets.flatMap((t) => t.images.map((i) => i.reference)));
}

/** Drops what is remembered of anything else, so that memory is bounded by what objects say now. */
export function keepOnly(remembered: Map<string, unknown>, keys: ReadonlySet<string>): void {
  for (const key of remembered.keys()) if (!keys.has(key)) remembered.delete(key);
}
