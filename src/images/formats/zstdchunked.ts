import type { ImageFormat } from './format.js';
import { everyLayer, isZstd, pickPlain } from './layers.js';

/** Position of the table of contents: of containers/storage (podman, buildah, skopeo), and of stargz-snapshotter (acceld, nerdctl). */
const POSITIONS = ['io.github.containers.zstd-chunked.manifest-position', 'io.containers.zstd-chunked.manifest-position'];

/** zstd:chunked: ordinary zstd layers with a table of contents at the end. Any node whose runtime knows zstd runs it. */
export const zstdchunked: ImageFormat = {
  name: 'zstdchunked',
  records: [],
  structure: { kind: 'contents', always: false },
  traits: { extraLayers: 0 },
  lazy: true,
  pick: pickPlain,
  identify({ manifest }) {
    return everyLayer(manifest, (layer) => isZstd(layer) && POSITIONS.some((key) => layer.annotations[key] !== undefined), {
      all: 'are zstd with a table of contents',
      none: 'no layer is zstd with the annotation manifest-position of zstd:chunked',
      are: 'zstd:chunked',
    });
  },
  docs: {
    title: 'zstd:chunked',
    found: ['tagSuffix', 'repositoryTemplate', 'index'],
    shownBy:
      'media type `…tar+zstd` and `io.github.containers.zstd-chunked.manifest-position` or `io.containers.zstd-chunked.manifest-position` on **every** layer',
    record: 'none; podman, buildah, skopeo: unpacked layers and config equal those of the source',
    portable: 'yes, if the runtime knows zstd (containerd 1.5)',
  },
};
