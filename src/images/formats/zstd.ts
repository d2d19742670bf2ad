import type { ImageFormat } from './format.js';
import { everyLayer, isZstd, pickPlain } from './layers.js';

/** Plain zstd layers: not lazy, but unpacked several times as fast as gzip. Converters keep what is inside the layers. */
export const zstd: ImageFormat = {
  name: 'zstd',
  records: [],
  structure: { kind: 'contents', always: true },
  traits: { extraLayers: 0 },
  lazy: false,
  pick: pickPlain,
  identify({ manifest }) {
    return everyLayer(manifest, isZstd, { all: 'are zstd', none: 'no layer is zstd', are: 'zstd' });
  },
  docs: {
    title: 'zstd',
    found: ['tagSuffix', 'repositoryTemplate', 'index'],
    shownBy: 'media type `application/vnd.oci.image.layer.v1.tar+zstd` on **every** layer',
    record: 'none; unpacked layers and config equal those of the source',
    portable: 'yes, if the runtime knows zstd (containerd 1.5)',
  },
};
