import type { Identification, ImageFormat } from '../formats/format.js';
import { imageFormat } from '../formats/index.js';
import { isRunnable, markOf } from '../formats/marks.js';
import type { RunnableMark } from '../formats/marks.js';
import type { Choice } from './picks.js';
import type { ManifestFact, PlatformDescriptor } from '../registry-port.js';

/** An image that some node may take, as it was read. */
export interface Seen {
  manifest: ManifestFact;
  /** How the variant's index lists it; absent for a variant without index. */
  listed?: PlatformDescriptor;
}

/** What a variant has for one platform. */
export interface Sight {
  seen: readonly Seen[];
  /** Where they stand in an index; absent for a variant without one. */
  choice?: Choice;
}

/** An image to be proven, and the format by whose rules. */
export interface Part extends Seen {
  format: ImageFormat;
  /** What it is among the others, for people. */
  name: string;
}

/** What the images of one platform are together. `absent`: there is none that the format could look at. */
export type Recognition =
  | {
      is: true;
      detail: string;
      portable: boolean;
      parts: readonly Part[];
      /** Something about it that people should know though it decides nothing by itself. */
      flag?: string;
    }
  | { is: false; absent?: true; detail: string };

/** Formats that plain nodes cannot run. */
const NOT_PORTABLE = ['nydus', 'overlaybd'] as const satisfies readonly RunnableMark[];
const NAMES: Readonly<Record<RunnableMark, string>> = { nydus: 'Nydus', overlaybd: 'OverlayBD' };

/**
 * Recognises a format in all that nodes may take for one platform, not only in the image that shows it: a runtime that goes by the order
 * takes the first whatever it is, and a snapshotter with index detection takes a marked sibling whatever the rule says.
 */
export function recognise(format: ImageFormat, { seen, choice }: Sight): Recognition {
  const problem = problemOfOrder(format, choice) ?? firstProblem(seen);
  if (problem !== undefined) return { is: false, detail: problem };
  const { image, companion } = choice === undefined ? {} : format.pick(choice);
  const main = choice === undefined ? seen[0] : seen.find(({ listed }) => listed === image);
  if (main === undefined) return { is: false, absent: true, detail: 'the variant has no image for it' };
  const identified = format.identify(companion === undefined ? main : { ...main, companion });
  if (!identified.is) return identified;
  const parts = seen.map((one) => partOf(one, format));
  return withOrder({ identified, parts, format, choice });
}

/** What no proof can make good: it is taken by nodes, and they cannot run it. */
function problemOfOrder(format: ImageFormat, choice: Choice | undefined): string | undefined {
  if (choice === undefined) return undefined;
  const { first, plain, marked } = choice;
  const mark = markOf(first);
  if (!isRunnable(mark))
    return `what stands first in the index for the platform is no image (${first.artifactType ?? first.mediaType}), and runtimes that take the first match would try to run it; put the image first`;
  if (mark === undefined || plain === undefined || mark === format.name) return undefined;
  const { image } = format.pick(choice);
  return image === undefined || image === marked[mark]
    ? undefined
    : `the ${NAMES[mark]} image stands first in the index, and runtimes that take the first match would run that one; put the ordinary image first`;
}

function firstProblem(seen: readonly Seen[]): string | undefined {
  return seen.map(problemOf).find((problem) => problem !== undefined);
}

/** Why one image is not what its index says. */
function problemOf({ manifest, listed }: Seen): string | undefined {
  if (manifest.kind === 'index') return 'what its index lists as an image is an index itself';
  const mark = listed === undefined ? undefined : markOf(listed);
  if (mark === undefined || !isRunnable(mark)) return undefined;
  const identified = imageFormat(mark).identify({ manifest });
  return identified.is ? undefined : `the child that the index marks as ${NAMES[mark]} is none: ${identified.detail}`;
}

/** A marked image is proven by the rules of what it is marked as, the others by those of the format that was asked for. */
function partOf(seen: Seen, format: ImageFormat): Part {
  const mark = seen.listed === undefined ? undefined : markOf(seen.listed);
  const runnable = mark !== undefined && isRunnable(mark) ? mark : undefined;
  return runnable === undefined
    ? { ...seen, format, name: 'the ordinary image' }
    : { ...seen, format: imageFormat(runnable), name: `the ${NAMES[runnable]} image` };
}

interface Whole {
  identified: Extract<Identification, { is: true }>;
  parts: readonly Part[];
  format: ImageFormat;
  choice: Choice | undefined;
}

function withOrder({ identified, parts, format, choice }: Whole): Recognition {
  const { detail } = identified;
  const ordinary = parts.filter(({ listed }) => listed === undefined || markOf(listed) === undefined);
  // An image without mark may be of such a format all the same; other formats promise nothing about it.
  const foreign = ordinary
    .flatMap(({ manifest }) => NOT_PORTABLE.filter((name) => imageFormat(name).identify({ manifest }).is))
    .find((name) => name !== format.name);
  if (foreign !== undefined)
    return { is: false, detail: `an image for the platform is ${NAMES[foreign]} without being marked as such` };
  const mark = choice === undefined ? undefined : markOf(choice.first);
  if (mark === undefined || !isRunnable(mark) || choice?.plain === undefined) return { ...identified, parts };
  const flag = `the ${NAMES[mark]} image stands first in the index, so a runtime that takes the first match gets it on plain nodes too; merge again with the ordinary image first`;
  return { is: true, detail, portable: false, flag, parts };
}
