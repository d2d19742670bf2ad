export { writeArchive } from './archive.js';
export { bytes, incompressible, sha256, type Content } from './content.js';
export { buildImage, buildIndex, memoryBlob, type ImageOptions } from './image.js';
export { estargzLayer, gzipLayer, zstdLayer, type LayerOptions } from './layer.js';
export {
  busyboxImage,
  busyboxLayer,
  estargzVariant,
  hasBusybox,
  pauseImage,
  payloadImage,
  pullerImage,
  type PayloadOptions,
} from './presets.js';
export { pullerBinary } from './puller.js';
export { push, type PushTarget } from './push.js';
export type { Entry } from './tar.js';
export { mediaTypes, SOURCE_DIGEST, type Blob, type Image, type Index, type Layer, type Platform } from './types.js';
