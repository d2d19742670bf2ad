import type { Capability } from './capability.js';
import { formatsOf } from './capability.js';
import type { NodeClass, NodeClasses } from './node-classes.js';
import { MAX_CLASSES } from './node-classes.js';
import type { NodeFacts, Taint } from './node-facts.js';
import { platformText } from '../images/platform.js';

export interface ClassifyInput {
  nodes: readonly NodeFacts[];
  capabilities: readonly Capability[];
  /** Labels that are tracked before all others, those that matter most first. */
  keys: readonly string[];
  /** Keys of the taints that stay for the life of a node. */
  lastingTaints: readonly string[];
  /** Epoch ms. */
  now: number;
}

/** Labels that every Pod for a platform may demand. */
const PLATFORM_KEYS = ['kubernetes.io/os', 'kubernetes.io/arch'];
/** Labels and taints in the published object, bytes: it is written once a minute and read by every webhook. */
const MAX_BYTES = 256 * 1024;
/** A label with more values than this names machines rather than kinds of them. */
const MAX_VALUES = 32;
const MAX_OTHER_KEYS = 40;
/** Features of processors, by the hundred; Pods select by few of them, and those stand in `capabilities` or flavors. */
const UNINTERESTING = 'feature.node.kubernetes.io/';

/**
 * Puts nodes into classes that labels, taints, platform and formats tell apart. First come the labels that matter by
 * configuration, then others with few values, as long as there is room; a label for which there is none is not tracked, so that a
 * Pod's demand on it may be met by any class. Cordoned and unready nodes count too: they may be back when the Pod is placed.
 */
export function classify(input: ClassifyInput): Pick<NodeClasses, 'tracked' | 'classes' | 'notes'> {
  const groups = new Groups(input);
  const notes: string[] = [];
  if (!groups.fits()) {
    groups.forgetTaints();
    notes.push(`taints are not told apart: with them there are more than ${MAX_CLASSES} classes of nodes`);
  }
  if (!groups.fits()) {
    notes.push(`there are more than ${MAX_CLASSES} kinds of nodes by platform and format, so nothing is said of nodes`);
    return { tracked: [], classes: [], notes };
  }
  const tracked: string[] = [];
  for (const key of new Set([...input.keys, ...PLATFORM_KEYS])) {
    if (groups.split(key)) tracked.push(key);
    else
      notes.push(
        `label ${key} is not tracked: with it there are more than ${MAX_CLASSES} classes or ${MAX_BYTES / 1024} KiB; a Pod that selects by it counts as able to land on nodes without it`,
      );
  }
  for (const key of otherKeys(input.nodes, tracked)) if (groups.split(key)) tracked.push(key);
  return { tracked, classes: groups.classes(tracked), notes };
}

/** What of a node decides about its class beside the age of heartbeats, as a text to compare. */
export function classEssence(node: NodeFacts | undefined): string {
  if (node === undefined) return '';
  const { labels, taints, os, arch, conditions = {} } = node;
  return JSON.stringify([labels, taints, os, arch, Object.keys(conditions)]);
}

/** Labels that no configuration names and that Pods may select by all the same: pools, zones, machine types. */
function otherKeys(nodes: readonly NodeFacts[], tracked: readonly string[]): string[] {
  const values = new Map<string, Set<string>>();
  for (const { labels } of nodes)
    for (const [key, value] of Object.entries(labels)) {
      const seen = values.get(key);
      if (seen === undefined) values.set(key, new Set([value]));
      else if (seen.size <= MAX_VALUES) seen.add(value);
    }
  const known = new Set(tracked);
  return [...values]
    .filter(([key, seen]) => seen.size <= MAX_VALUES && !known.has(key) && !key.startsWith(UNINTERESTING))
    .sort(([a, x], [b, y]) => x.size - y.size || (a < b ? -1 : 1))
    .slice(0, MAX_OTHER_KEYS)
    .map(([key]) => key);
}

type Traits = Pick<NodeClass, 'taints' | 'platform' | 'formats' | 'privateFormats'>;

/** A partition of the nodes that is made finer one label at a time. */
class Groups {
  readonly #nodes: readonly NodeFacts[];
  #traits: Traits[];
  /** Group of each node, by index. */
  #groupOf: number[] = [];
  #size = 0;
  #bytesPerClass = 0;

  constructor({ nodes, capabilities, lastingTaints, now }: ClassifyInput) {
    this.#nodes = nodes;
    const lasting = new Set(lastingTaints);
    const privately = capabilities.filter((c) => c.privateImages);
    this.#traits = nodes.map((node) => {
      const privateFormats = formatsOf(node, privately, now);
      return {
        taints: hardTaints(node.taints, lasting),
        platform: platformText(node.os, node.arch),
        formats: formatsOf(node, capabilities, now),
        ...(privateFormats.length === 0 ? {} : { privateFormats }),
      };
    });
    this.#start();
  }

  fits(): boolean {
    return this.#size <= MAX_CLASSES && this.#bytesPerClass * this.#size <= MAX_BYTES;
  }

  /** Fewer taints keep fewer Pods away, so that the judgement stays one-sided. */
  forgetTaints(): void {
    this.#traits = this.#traits.map((t) => ({ ...t, taints: [] }));
    this.#start();
  }

  /** Tells nodes apart by a label too; false, and nothing is changed, where that makes too many classes. */
  split(key: string): boolean {
    const labelOf = ({ labels }: NodeFacts): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined);
    // Label values hold no space, so the texts of two pairs are never equal.
    const finer = number(this.#nodes.map((node, i) => `${labelOf(node) ?? ' '} ${this.#groupOf[i] ?? 0}`));
    const longest = Math.max(0, ...new Set(this.#nodes.map((n) => labelOf(n)?.length ?? 0)));
    const bytes = this.#bytesPerClass + key.length + longest + 6;
    if (finer.size > MAX_CLASSES || bytes * finer.size > MAX_BYTES) return false;
    this.#groupOf = finer.ids;
    this.#size = finer.size;
    this.#bytesPerClass = bytes;
    return true;
  }

  /** In an order that is the same whatever the order of nodes. */
  classes(tracked: readonly string[]): NodeClass[] {
    const classes = new Map<number, NodeClass>();
    this.#nodes.forEach(({ labels }, i) => {
      const group = this.#groupOf[i] ?? 0;
      const traits = this.#traits[i];
      const known = classes.get(group);
      if (known !== undefined) known.count++;
      else if (traits !== undefined) {
        const own = tracked.filter((key) => Object.hasOwn(labels, key)).map((key) => [key, labels[key] ?? '']);
        classes.set(group, { labels: Object.fromEntries(own) as Record<string, string>, ...traits, count: 1 });
      }
    });
    const text = ({ count: _count, ...rest }: NodeClass): string => JSON.stringify(rest);
    return [...classes.values()]
      .map((c) => [text(c), c] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, c]) => c);
  }

  #start(): void {
    const texts = this.#traits.map((t) => JSON.stringify(t));
    const { ids, size } = number(texts);
    this.#groupOf = ids;
    this.#size = size;
    this.#bytesPerClass = texts.reduce((most, t) => Math.max(most, t.length), 0) + 24;
  }
}

/** Numbers texts in order of appearance; equal texts have equal numbers. */
function number(texts: readonly string[]): { ids: number[]; size: number } {
  const numbers = new Map<string, number>();
  const ids = texts.map((text) => {
    const known = numbers.get(text) ?? numbers.size;
    numbers.set(text, known);
    return known;
  });
  return { ids, size: numbers.size };
}

/**
 * The taints that keep Pods away for good: those that the configuration names. Of any other nobody can tell: network plugins, drivers,
 * autoscalers and drains set keys of their own and remove them within the time that a Pod waits.
 */
function hardTaints(taints: readonly Taint[], lasting: ReadonlySet<string>): Taint[] {
  return taints
    .filter((t) => (t.effect === 'NoSchedule' || t.effect === 'NoExecute') && lasting.has(t.key))
    .map(({ key, value, effect }) => ({ key, value, effect }))
    .sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}
