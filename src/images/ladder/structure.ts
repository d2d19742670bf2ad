import type { ImageFormat } from '../formats/format.js';
import type { Proof } from './freshness.js';
import { short } from './freshness.js';
import type { ImageConfig, ManifestFact, Trait } from '../registry-port.js';

/** The manifests of source and variant for one platform, and their configs, which cost a call each and are read only if needed. */
export interface Pair {
  source: ManifestFact;
  variant: ManifestFact;
  configs: () => Promise<readonly [source: ImageConfig, variant: ImageConfig]>;
}

/** Traits that make a container run otherwise with the same files. */
const RUN_TRAITS: readonly Trait[] = [
  'environment',
  'command',
  'entrypoint',
  'labels',
  'user',
  'workingDir',
  'volumes',
  'stopSignal',
];
const TRAITS: readonly Trait[] = ['created', 'history', ...RUN_TRAITS];

/** Compares what a variant is made of with its source, as far as its format keeps that. Rejects if a config that is needed cannot be read. */
export async function compareStructure(format: ImageFormat, pair: Pair): Promise<Proof> {
  if (format.structure?.kind === 'layers') return sameLayers(pair);
  if (format.structure?.kind === 'listed') return listedLayers(pair, format.structure.of(pair.variant));
  return format.structure === undefined ? noRecord('') : sameContents(pair, format.structure.always);
}

/** The variant is the source with something beside it. */
function sameLayers({ source, variant }: Pair): Proof {
  if (source.config?.digest !== variant.config?.digest) return stale('its config is not that of the source');
  const differs = firstDifference(digests(source), digests(variant));
  if (differs !== undefined) return stale(`layer ${differs} is not that of the source`);
  return exact(`its config and ${variant.layers.length} layers are those of the source`);
}

/** The variant reads the layers of the source. Layers alone are not the program: an image can be built again with another command. */
async function listedLayers(pair: Pair, listed: readonly string[] | undefined): Promise<Proof> {
  if (listed === undefined) return noRecord('');
  const layers = digests(pair.source);
  const differs = firstDifference(layers, listed);
  if (differs !== undefined) {
    const [wants, has] = [listed[differs], layers[differs]].map((digest) => (digest === undefined ? 'nothing' : short(digest)));
    return stale(`at layer ${differs} it reads ${wants}, the source has ${has}`);
  }
  const other = differing(await pair.configs(), RUN_TRAITS);
  return other.length > 0
    ? stale(`it reads the layers of the source, but its config differs in ${other.join(', ')}`)
    : exact(`the ${listed.length} layers that it reads are those of the source, and so is its config`);
}

/** Other bytes, which unpack to the same: the config lists the digests of the unpacked layers. */
async function sameContents(pair: Pair, always: boolean): Promise<Proof> {
  const { source, variant } = pair;
  const sameCount = source.layers.length === variant.layers.length;
  if (source.config !== undefined && source.config.digest === variant.config?.digest && sameCount)
    return exact('its config is that of the source, and with it the digests of the unpacked layers');
  const configs = await pair.configs();
  const [ours, theirs] = configs;
  if (ours.diffIds.length === 0 || theirs.diffIds.length !== variant.layers.length)
    return noRecord(', and its config does not list its unpacked layers');
  const differs = firstDifference(ours.diffIds, theirs.diffIds);
  if (differs !== undefined && always) return stale(`unpacked layer ${differs} is not that of the source`);
  if (differs !== undefined) return noRecord(', and its converter changed the unpacked layers');
  const other = differing(configs, RUN_TRAITS);
  return other.length > 0
    ? stale(`it unpacks to the layers of the source, but its config differs in ${other.join(', ')}`)
    : exact(`its ${theirs.diffIds.length} unpacked layers and its config are those of the source`);
}

/**
 * Compares what converters leave alone. It proves nothing: a build of the same Dockerfile in the same second could differ. Without a
 * real time of creation it does not even make it probable.
 */
export async function compareTraits(format: ImageFormat, pair: Pair): Promise<Proof> {
  if (format.traits === undefined) return noRecord('');
  const more = pair.variant.layers.length - pair.source.layers.length;
  if (more < 0 || more > format.traits.extraLayers)
    return stale(`it has ${pair.variant.layers.length} layers, the source has ${pair.source.layers.length}`);
  const configs = await pair.configs();
  const other = differing(configs, TRAITS);
  if (other.length > 0) return stale(`its config differs from that of the source in ${other.join(', ')}`);
  if (configs[0].traits.created === undefined)
    return noRecord(', and both were created at a fixed time, so nothing makes it probable either');
  return {
    verdict: 'probable',
    rung: 'traits',
    detail: 'time of creation, history, number of layers and all that the config says of running it equal those of the source',
  };
}

function differing([ours, theirs]: readonly [ImageConfig, ImageConfig], traits: readonly Trait[]): readonly Trait[] {
  return traits.filter((trait) => ours.traits[trait] !== theirs.traits[trait]);
}

/** Index of the first difference of two lists, or undefined where they are equal. */
function firstDifference(a: readonly string[], b: readonly string[]): number | undefined {
  const length = Math.max(a.length, b.length);
  for (let i = 0; i < length; i += 1) if (a[i] !== b[i]) return i;
  return undefined;
}

function digests({ layers }: ManifestFact): readonly string[] {
  return layers.map((layer) => layer.digest);
}

function exact(detail: string): Proof {
  return { verdict: 'exact', rung: 'structure', detail };
}

function stale(what: string): Proof {
  return { verdict: 'stale', detail: `${what}; convert the image again` };
}

/** What is said where no rung decides. */
export function noRecord(more: string): Proof {
  return {
    verdict: 'unknown',
    detail: `the variant does not record its source${more}; write a record with harbinger record SOURCE VARIANT`,
  };
}
