import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import type { Constraints } from './constraints.js';
import type { AffinityTerm } from './filters/node-affinity.js';
import type { CapabilitySelector, NodeClass, NodeClasses } from './node-classes.js';

/** Why nodes may not run an image, by format; formats that all of them run are absent. */
export type Obstacles = Readonly<Partial<Record<Format, string>>>;

/** Obstacles of all formats, each asked for its own. */
export function obstacles(why: (format: Format) => string | undefined): Obstacles {
  return Object.fromEntries(FORMATS.map((f) => [f, why(f)] as const).filter(([, text]) => text !== undefined));
}

/** Most names of classes in one message. */
const NAMED_CLASSES = 3;

/** How an image is fetched decides what a node and a declaration have to say. */
export interface Fetch {
  /** What the nodes have to do with the format, for people. */
  does: (format: Format) => string;
  formats: (nodes: NodeClass) => readonly Format[];
  declares: (capability: CapabilitySelector) => boolean;
  /** What to declare under `capabilities`. */
  declare: (format: Format) => string;
}

export const FETCH: Readonly<Record<'public' | 'private', Fetch>> = {
  public: {
    does: (format) => `run ${format}`,
    formats: (nodes) => nodes.formats,
    declares: () => true,
    declare: (format) => `declare under capabilities of the configuration which nodes run ${format}`,
  },
  private: {
    does: (format) => `fetch private ${format} images`,
    formats: (nodes) => nodes.privateFormats ?? [],
    declares: (capability) => capability.privateImages === true,
    declare: (format) =>
      `give their snapshotter credentials of its own and set privateImages in the entry for ${format} under capabilities of the configuration`,
  },
};

/** Why one of the nodes of now may not, or undefined; names the classes that lack the format by what tells them apart. */
export function nowObstacle(
  { does, formats, declares, declare }: Fetch,
  format: Format,
  { classes, view }: { classes: readonly NodeClass[]; view: NodeClasses },
): string | undefined {
  const lacking = classes.filter((c) => !formats(c).includes(format));
  if (lacking.length === 0) return undefined;
  const entries = view.capabilities.filter((c) => c.format === format);
  if (entries.length === 0)
    return `no node is known to run ${format}: no usable entry for it under capabilities of the configuration`;
  if (!entries.some(declares)) return `no node is known to ${does(format)}: ${declare(format)}`;
  const sum = (of: readonly NodeClass[]): number => of.reduce((total, { count }) => total + count, 0);
  const named = [...lacking].sort((a, b) => b.count - a.count).slice(0, NAMED_CLASSES);
  const rest = lacking.length - named.length;
  const telling = tellingKeys(classes, view.tracked);
  const list = named.map((c) => `${c.count} of ${describe(c, telling)}`).join('; ') + (rest > 0 ? `; ${rest} more classes` : '');
  return `${sum(lacking)} of the ${sum(classes)} nodes that the Pod can land on are not known to ${does(format)}: ${list}`;
}

/** Most labels that are named of one class. */
const NAMED_LABELS = 3;

/** Labels by which these classes differ, those of the configuration first. */
function tellingKeys(classes: readonly NodeClass[], tracked: readonly string[]): string[] {
  const differs = (key: string): boolean => new Set(classes.map((c) => c.labels[key])).size > 1;
  return tracked.filter((key) => !key.startsWith('kubernetes.io/') && differs(key)).slice(0, NAMED_LABELS);
}

function describe({ platform, labels }: NodeClass, telling: readonly string[]): string {
  const own = telling.map((key) => (Object.hasOwn(labels, key) ? `${key}=${labels[key] ?? ''}` : `no ${key}`));
  return own.length === 0 ? platform : `${platform} with ${own.join(', ')}`;
}

/**
 * A node that joins is covered only if the Pod demands labels that declare the capability; each affinity term is a way in of its
 * own, so each has to.
 */
export function laterObstacle(
  { does, declares, declare }: Fetch,
  format: Format,
  { constraints: { nodeSelector, terms }, view }: { constraints: Constraints; view: NodeClasses },
): string | undefined {
  const declared = view.capabilities.filter((c) => c.format === format && declares(c)).map((c) => c.nodeSelector);
  const implied = (term: AffinityTerm | undefined): boolean => {
    const demanded = new Map(Object.entries(nodeSelector));
    for (const { key, operator, values = [] } of term?.matchExpressions ?? [])
      if (operator === 'In' && values.length === 1) demanded.set(key, values[0] ?? '');
    return declared.some((selector) => Object.entries(selector).every(([key, value]) => demanded.get(key) === value));
  };
  if ((terms ?? [undefined]).every(implied)) return undefined;
  const [first] = declared.map((s) => Object.entries(s).map(([key, value]) => `${key}: ${value}`));
  const way =
    first === undefined
      ? declare(format)
      : `require ${first.join(', ')} in the Pod (node selector or every term of its required node affinity)`;
  return `a node that joins later may not ${does(format)}: ${way}, or set nodePoolClosed in the policy`;
}
