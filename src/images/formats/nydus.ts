import type { Descriptor, ManifestFact } from '../registry-port.js';
import type { Identification, ImageFormat } from './format.js';

const SNAPSHOT = 'containerd.io/snapshot/';
const BOOTSTRAP = `${SNAPSHOT}nydus-bootstrap`;
const BLOB = `${SNAPSHOT}nydus-blob`;
const BLOB_TYPE = 'application/vnd.oci.image.layer.nydus.blob.v1';
/** Original layer that a layer of a zran (oci-ref) image reads. */
const REF = `${SNAPSHOT}nydus-ref`;
const CACHE = `${SNAPSHOT}nydus-cache`;

/**
 * Nydus, as acceld and nydusify write it: blobs, then a bootstrap. Plain nodes cannot pull it. In a merged index an ordinary image for the
 * same platform stands beside it; then plain nodes run that one, and both have to be proven.
 */
export const nydus: ImageFormat = {
  name: 'nydus',
  records: [`${SNAPSHOT}nydus-source-digest`],
  structure: { kind: 'listed', of: referredLayers },
  lazy: true,
  pick({ plain, marked: { nydus: marked } }) {
    if (plain === undefined) return marked === undefined ? {} : { image: marked };
    return marked === undefined ? { image: plain } : { image: plain, companion: marked };
  },
  borrows: ({ layers }) => layers.some((layer) => layer.annotations[REF] !== undefined),
  identify({ manifest, companion }) {
    if (companion === undefined) return alone(manifest);
    if (problemOf(manifest) === undefined)
      return { is: true, detail: 'a Nydus index without an ordinary image', portable: false };
    return { is: true, detail: 'a merged index: plain nodes run the ordinary image in it', portable: true };
  },
  docs: {
    title: 'Nydus',
    found: ['tagSuffix', 'repositoryTemplate', 'referrers'],
    shownBy:
      'last layer annotated `containerd.io/snapshot/nydus-bootstrap`, all others Nydus blobs; merged: a sibling of the same platform with artifact type `application/vnd.nydus.image.manifest.v1+json` or feature `nydus.remoteimage.v1`',
    record: 'annotation `containerd.io/snapshot/nydus-source-digest` (legacy: Harbor key), `subject`; zran: list of `nydus-ref`',
    portable: 'merged index with the ordinary image first: yes; else no, pull fails',
  },
};

function alone(manifest: ManifestFact): Identification {
  const problem = problemOf(manifest);
  if (problem !== undefined) return { is: false, detail: problem };
  const refs = referredLayers(manifest);
  const detail = `${manifest.layers.length - 1} blobs and a bootstrap`;
  return {
    is: true,
    detail: refs === undefined ? detail : `${detail}, reading the layers of the source (zran)`,
    portable: false,
  };
}

/** Why a manifest is no Nydus image. A source digest on it proves nothing: caches of converters carry it on their layers. */
function problemOf({ layers, annotations }: ManifestFact): string | undefined {
  const last = layers.at(-1);
  if (last === undefined) return 'the manifest has no layers';
  const bootstraps = layers.filter(isBootstrap).length;
  if (annotations[CACHE] !== undefined || bootstraps > 1) return 'it is the cache of a converter, which cannot be run';
  if (!isBootstrap(last)) {
    return layers.some(isBlob)
      ? 'it has Nydus blobs but its last layer is no bootstrap, as in the cache of a converter (cache_tag)'
      : `its last layer has no annotation ${BOOTSTRAP}`;
  }
  const odd = layers.slice(0, -1).findIndex((layer) => !isBlob(layer));
  return odd < 0 ? undefined : `layer ${odd} is no Nydus blob`;
}

function isBootstrap(layer: Descriptor): boolean {
  return layer.annotations[BOOTSTRAP] !== undefined && !isBlob(layer);
}

function isBlob(layer: Descriptor): boolean {
  return layer.mediaType === BLOB_TYPE || layer.annotations[BLOB] !== undefined;
}

/** Layers of the source that a zran image reads; undefined for one that has all data itself. */
function referredLayers({ layers }: ManifestFact): readonly string[] | undefined {
  const refs = layers.slice(0, -1).map((layer) => layer.annotations[REF]);
  const named = refs.filter((ref) => ref !== undefined);
  return named.length === 0 || named.length < refs.length ? undefined : named;
}
