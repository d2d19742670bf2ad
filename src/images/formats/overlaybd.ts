import type { Descriptor, ManifestFact } from '../registry-port.js';
import type { ImageFormat } from './format.js';

const PREFIX = 'containerd.io/snapshot/overlaybd/';
const BLOB_DIGEST = `${PREFIX}blob-digest`;
/** Layer of the source that a TurboOCI layer reads, and its name of the time when the format was called FastOCI. */
const TARGETS = [`${PREFIX}turbo-oci/target-digest`, `${PREFIX}fastoci/target-digest`];

/**
 * OverlayBD, native and TurboOCI (legacy FastOCI). Media types are ordinary, so a plain node pulls it without an error and then fails to
 * start the container: the worst of all ways, and why every node has to be proven capable.
 */
export const overlaybd: ImageFormat = {
  name: 'overlaybd',
  records: [],
  structure: { kind: 'listed', of: targetLayers },
  // Without mkfs the converter puts a constant base layer in front.
  traits: { extraLayers: 1 },
  lazy: true,
  pick({ plain, marked }) {
    const image = marked.overlaybd ?? plain;
    return image === undefined ? {} : { image };
  },
  borrows: ({ layers }) => layers.some((layer) => targetOf(layer) !== undefined),
  identify({ manifest: { layers } }) {
    const marked = layers.filter((layer) => layer.annotations[BLOB_DIGEST] !== undefined || targetOf(layer) !== undefined);
    if (layers.length === 0) return { is: false, detail: 'the manifest has no layers' };
    if (marked.length === 0) return { is: false, detail: `no layer has the annotation ${BLOB_DIGEST}` };
    if (marked.length < layers.length)
      return { is: false, detail: `only ${marked.length} of ${layers.length} layers are OverlayBD; convert the whole image` };
    const turbo = layers.filter((layer) => targetOf(layer) !== undefined).length;
    const kind = turbo === 0 ? 'OverlayBD' : `OverlayBD, ${turbo} of them TurboOCI over layers of the source`;
    return { is: true, detail: `all ${layers.length} layers are ${kind}`, portable: false };
  },
  docs: {
    title: 'OverlayBD, TurboOCI',
    found: ['tagSuffix', 'repositoryTemplate', 'index', 'referrers'],
    shownBy:
      'annotation `containerd.io/snapshot/overlaybd/blob-digest` or `…/turbo-oci/target-digest` (legacy `…/fastoci/…`) on **every** layer',
    record: '`subject` with `--referrer`, else none; TurboOCI: list of target digests and config equal those of the source',
    portable: 'no: pulled without an error, then fails to start',
  },
};

function targetOf(layer: Descriptor): string | undefined {
  return TARGETS.map((key) => layer.annotations[key]).find((target) => target !== undefined);
}

/** Layers of the source that a TurboOCI image reads; undefined where a layer other than the base layer has its data itself. */
function targetLayers({ layers }: ManifestFact): readonly string[] | undefined {
  const targets = layers.map(targetOf);
  const read = targets[0] === undefined ? targets.slice(1) : targets;
  const named = read.filter((target) => target !== undefined);
  return named.length === 0 || named.length < read.length ? undefined : named;
}
