import { busyboxImage, estargzVariant, payloadImage, pullerImage, push } from '../tools/oci-image/index.js';
import type { Image, PayloadOptions } from '../tools/oci-image/index.js';
import { LEGS } from '../src/cli/timeline/model.js';
import type { LegName } from '../src/cli/timeline/model.js';
import type { Settings } from './settings.js';

export interface DemoImages {
  /** Image of each leg as its Job names it: `host/legs/NAME:v1`. */
  legs: Record<LegName, string>;
  /** What the blockers run; small. */
  blocker: string;
  /** Has an eStargz variant with a record of its source. */
  estargz: string;
  /** Has a zstd variant, which shows by its contents what it was made from. */
  zstd: string;
  /** Was built again under its tag since its eStargz variant was made. */
  rebuilt: string;
  /** Pattern of the repositories that the policy offers variants for. */
  policyPattern: string;
  /** The puller by digest. */
  puller: string;
}

const MB = 1_000_000;

/**
 * Builds and pushes every image of the demo. Each leg has bytes of its own, equal in number and incompressible, so that no leg profits
 * from what another pulled; `run` makes them new in each run, so that no cache of an earlier one helps.
 */
export async function pushImages(host: string, settings: Settings, run: string): Promise<DemoImages> {
  const bare = settings.nodes === 'fake';
  const payload = (seed: string, bytes: number): PayloadOptions => ({ seed: `${run}/${seed}`, bytes, bare });
  const put = async (image: Image, repository: string, tag = 'v1'): Promise<string> => {
    await push(image, { host, repository, tags: [tag] });
    return `${host}/${repository}:${tag}`;
  };
  const legs: Partial<Record<LegName, string>> = {};
  for (const leg of LEGS) legs[leg] = await put(await payloadImage(payload(leg, settings.imageBytes)), `legs/${leg}`);
  const small = (seed: string): PayloadOptions => payload(seed, 2 * MB);
  const app = await payloadImage(small('app'));
  await put(await estargzVariant(app, small('app')), 'show/app', 'v1-esgz');
  await put(await payloadImage({ ...small('tool'), format: 'zstd' }), 'show/tool', 'v1-zstd');
  // Its conversion knows the first build only.
  const firstBuild = await payloadImage(small('first build'));
  await put(await estargzVariant(firstBuild, small('first build')), 'show/rebuilt', 'v1-esgz');
  return {
    legs: legs as Record<LegName, string>,
    blocker: await put(bare ? await payloadImage(payload('blocker', 1000)) : await busyboxImage(), 'blocker'),
    estargz: await put(app, 'show/app'),
    zstd: await put(await payloadImage(small('tool')), 'show/tool'),
    rebuilt: await put(await payloadImage(small('second build')), 'show/rebuilt'),
    policyPattern: `${host}/show/**`,
    puller: await push(await pullerImage(), { host, repository: 'puller' }),
  };
}
