import { runsOn } from '../platform.js';
import { atDigest } from '../reference.js';
import type { Reference } from '../reference.js';
import type { LookupOptions, ManifestFact, RegistryPort } from '../registry-port.js';
import { platformOf } from '../resolve.js';
import type { SourcePlatform } from '../resolve.js';

export interface Counterparts {
  registry: RegistryPort;
  lookup?: LookupOptions;
  /** The image of the source, and the name that it is read under. */
  of: SourcePlatform;
  source: Reference;
  /** The image of the variant, and the name that it is read under. */
  image: ManifestFact;
  candidate: Reference;
}

/**
 * What speaks against an image of a variant being for the platform of its source, if anything; `certain` where both tell theirs. An index
 * may list an image under any platform, and a variant without index lists none, so the configs are asked: nodes go by what they pull.
 * Throws RegistryError where the manifest of the source cannot be read; a config that cannot be read does not tell.
 */
export async function otherPlatform({
  registry,
  lookup = {},
  of,
  source,
  image,
  candidate,
}: Counterparts): Promise<{ certain: boolean; text?: string }> {
  const told = async (from: Reference, { config }: ManifestFact): Promise<string | undefined> =>
    config === undefined ? undefined : platformOf(registry, from, config.digest, lookup);
  const manifest = of.manifest ?? (await registry.manifest(atDigest(source, of.digest), lookup));
  // One config is one platform; nothing has to be read.
  if (manifest.config !== undefined && manifest.config.digest === image.config?.digest) return { certain: false };
  const [wanted = of.platform, offered] = await Promise.all([told(source, manifest), told(candidate, image)]);
  return against(wanted, offered);
}

function against(wanted: string | undefined, offered: string | undefined): { certain: boolean; text?: string } {
  if (wanted === offered) return { certain: false };
  const text = `for ${offered ?? 'a platform that its config does not tell'}, and its source for ${wanted ?? 'one that is not told'}`;
  if (wanted === undefined || offered === undefined) return { certain: false, text };
  return runsOn(offered, wanted) || runsOn(wanted, offered) ? { certain: false } : { certain: true, text };
}
