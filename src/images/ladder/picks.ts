import { isRunnable, markOf } from '../formats/marks.js';
import type { Mark, RunnableMark } from '../formats/marks.js';
import type { Descriptor, ManifestFact, PlatformDescriptor } from '../registry-port.js';

/** A platform as far as runtimes tell images apart by it. */
export interface Place {
  /** `os/architecture[/variant]`; undefined where an image does not say. */
  platform: string | undefined;
  /** Of Windows, whose nodes run only images of their own version. */
  osVersion?: string | undefined;
}

/** What of an index belongs to one platform: children that runtimes do not tell apart by their platform. */
export interface Choice {
  place: Place;
  /** What a runtime takes that goes by the order alone, as containerd does, whatever the child is. */
  first: PlatformDescriptor;
  /** What a runtime takes that leaves out marked children; absent where all are marked. */
  plain?: PlatformDescriptor;
  /** The first child with each mark, as snapshotters with index detection take it. */
  marked: Readonly<Partial<Record<RunnableMark | 'soci', PlatformDescriptor>>>;
  /** SOCI indexes without platform, which may belong to any child. */
  unplaced: readonly Descriptor[];
  /** Everything that some runtime may run, in the order of the index. */
  images: readonly PlatformDescriptor[];
}

/** Podman, buildah and CRI-O prefer a sibling with this annotation (containers/image, manifest lists with several compressions). */
const ZSTD_SIBLING = 'io.github.containers.compression.zstd';

/** Most choices for one image of a source that are compared; real indexes have one or two. */
export const MAX_CHOICES = 8;

/** The children that an ordinary runtime picks from: not those that need a feature or are another kind of artifact. */
export function plainChildren({ manifests }: ManifestFact): readonly PlatformDescriptor[] {
  return manifests.filter((child) => markOf(child) === undefined);
}

/** Whether no runtime tells images of two platforms apart. */
export function samePlace(a: Place, b: Place): boolean {
  return a.platform === b.platform && a.osVersion === b.osVersion;
}

/**
 * What any runtime may pick from an index on a node that runs the image of `of` in an index of `listed` platforms; the choice of that very
 * platform comes first. Empty where the index has no image for it: an image for a newer CPU alone does not run on older nodes.
 *
 * Runtimes prefer the exact platform, and nodes of a newer CPU take an image that is made for it. So images for variants of the
 * architecture that `listed` lacks are in the answer too: some node would change from the image of `of` to one of those. Where the
 * platform is not known, each one of the index may be picked. More than MAX_CHOICES are cut, which callers have to refuse.
 */
export function choicesFor(index: ManifestFact, of: Place, listed: readonly Place[]): readonly Choice[] {
  if (of.platform === undefined) return cut(index, groupsOf(index.manifests));
  const exact = choiceFor(index, of);
  if (exact === undefined || exact.images.length === 0) return [];
  const architecture = of.platform.split('/').slice(0, 2).join('/');
  const isSame = ({ platform }: Place): boolean => platform === architecture || platform?.startsWith(`${architecture}/`) === true;
  const known = new Set([of, ...listed.filter(isSame)].map(keyOf));
  const others = index.manifests.filter((child) => isSame(child) && !known.has(keyOf(child)));
  return [exact, ...cut(index, groupsOf(others))];
}

/** The children of exactly one platform, or of the first one where it is not known; undefined where there are none. */
export function choiceFor(index: ManifestFact, of: Place): Choice | undefined {
  const place = of.platform === undefined ? index.manifests[0] : of;
  const [first, ...more] = place === undefined ? [] : index.manifests.filter((child) => samePlace(child, place));
  return first === undefined ? undefined : choiceOf(index, [first, ...more]);
}

/** One more than are compared is enough to refuse an index. */
function cut(index: ManifestFact, groups: readonly Group[]): readonly Choice[] {
  return groups.slice(0, MAX_CHOICES + 1).map((group) => choiceOf(index, group));
}

/** The first child of each platform. */
export function onePerPlace(children: readonly PlatformDescriptor[]): readonly PlatformDescriptor[] {
  return groupsOf(children).map(([first]) => first);
}

type Group = readonly [PlatformDescriptor, ...PlatformDescriptor[]];

function groupsOf(children: readonly PlatformDescriptor[]): readonly Group[] {
  const groups = new Map<string, [PlatformDescriptor, ...PlatformDescriptor[]]>();
  for (const child of children) {
    const key = keyOf(child);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [child]);
    else group.push(child);
  }
  return [...groups.values()];
}

function choiceOf({ unplaced = [] }: ManifestFact, group: Group): Choice {
  const [first] = group;
  const firstOf = (mark: Mark | undefined): PlatformDescriptor | undefined => group.find((child) => markOf(child) === mark);
  const plain = firstOf(undefined);
  const [nydus, overlaybd, soci] = [firstOf('nydus'), firstOf('overlaybd'), firstOf('soci')];
  const picked = [
    first,
    plain,
    group.find((child) => markOf(child) === undefined && child.annotations[ZSTD_SIBLING] === 'true'),
    nydus,
    // Snapshotters of different age look for one mark of Nydus or the other.
    group.find((child) => markOf(child) === 'nydus' && child.osFeatures.length > 0),
    group.find((child) => markOf(child) === 'nydus' && child.osFeatures.length === 0),
    overlaybd,
  ];
  return {
    place: first,
    first,
    ...(plain === undefined ? {} : { plain }),
    marked: {
      ...(nydus === undefined ? {} : { nydus }),
      ...(overlaybd === undefined ? {} : { overlaybd }),
      ...(soci === undefined ? {} : { soci }),
    },
    unplaced,
    images: group.filter((child) => picked.includes(child) && isRunnable(markOf(child))),
  };
}

function keyOf({ platform, osVersion = '' }: Place): string {
  return `${platform ?? ''} ${osVersion}`;
}
