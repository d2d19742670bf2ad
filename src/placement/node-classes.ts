import { clip } from '../api/conditions.js';
import type { Json } from '../api/json.js';
import { at, list, number, parseObject, record, records, string, stringMap, time } from '../api/json.js';
import type { Format } from '../api/kinds/acceleration-policy.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import { INSTALL } from '../api/names.js';
import type { Taint } from './node-facts.js';

/** Nodes that no constraint of a Pod can tell apart, as far as it is followed. */
export interface NodeClass {
  /** Values of the tracked labels; a tracked label that is not here is on none of the nodes. */
  labels: Readonly<Record<string, string>>;
  /** NoSchedule and NoExecute, those alone that the configuration calls lasting. */
  taints: readonly Taint[];
  /** `os/architecture`. */
  platform: string;
  /** Formats that plain nodes cannot run and all of these can. */
  formats: readonly Format[];
  /** Those of `formats` whose private images all of these can fetch; absent where there are none. */
  privateFormats?: readonly Format[];
  count: number;
}

/** Where an image that is not portable can be expected to run, by labels that users can select on. */
export interface CapabilitySelector {
  format: Format;
  nodeSelector: Readonly<Record<string, string>>;
  /** Snapshotters of these nodes have credentials of their own for private images. */
  privateImages?: boolean;
}

/** A variant that nodes could not pull, and that Pods of the namespace are not given for a while. */
export interface QuarantinedVariant {
  namespace: string;
  /** As variantKey gives it: the digest, or the image where it names none. */
  variant: string;
  format?: string;
  reason: string;
  /** One sentence for people. */
  message: string;
  /** Epoch ms. */
  until: number;
}

/** What the leading controller tells the webhooks of the nodes. */
export interface NodeClasses {
  /** Epoch ms; a heartbeat. */
  publishedAt: number;
  /** Label keys by which classes differ; a Pod's demand on another label may be met by any of them. */
  tracked: readonly string[];
  classes: readonly NodeClass[];
  capabilities: readonly CapabilitySelector[];
  quarantined: readonly QuarantinedVariant[];
  /** What people should know: labels that are not tracked for want of room, capabilities that select nothing. */
  notes: readonly string[];
}

/** Most classes that are published; each admission that is not remembered looks at all of them. */
export const MAX_CLASSES = 500;
/** Most variants in quarantine. */
export const MAX_QUARANTINED = 200;
/** Longest text of a variant in quarantine; references that can be parsed are shorter. */
export const MAX_VARIANT = 512;
/** Longest message of a variant in quarantine. */
export const MAX_QUARANTINE_MESSAGE = 256;
/** Bytes of the published object; the API server takes 1 MiB in one ConfigMap. */
const MAX_OBJECT_BYTES = 896 * 1024;
/** Age at which the picture of the nodes counts as unknown, ms: five heartbeats have been missed then. */
export const STALE_AFTER_MS = 300_000;

const PUBLISHED_AT = 'published-at';
const CLASSES = 'node-classes.json';

/**
 * The data of the ConfigMap; one class a line, so that `kubectl get -o yaml` can be read. Where not all has room the quarantine
 * goes first: Pods write what it holds, and without classes no Pod of the cluster gets a format that is not portable.
 */
export function encodeNodeClasses(view: NodeClasses): Record<string, string> {
  const data = encode(view);
  if (view.quarantined.length === 0 || Buffer.byteLength(data[CLASSES]) <= MAX_OBJECT_BYTES) return data;
  const note = `${view.quarantined.length} variants that nodes cannot pull are not named: the object would be too large`;
  return encode({ ...view, quarantined: [], notes: [...view.notes, note] });
}

function encode(view: NodeClasses): Record<typeof PUBLISHED_AT | typeof CLASSES, string> {
  const lines = (name: string, values: readonly unknown[]): string =>
    `"${name}": [${values.map((v) => `\n  ${JSON.stringify(v)}`).join(',')}${values.length === 0 ? '' : '\n'}]`;
  const quarantined = view.quarantined.map((q) => ({ ...q, until: new Date(q.until).toISOString() }));
  const body = [
    `"tracked": ${JSON.stringify(view.tracked)}`,
    lines('capabilities', view.capabilities),
    lines('classes', view.classes),
    lines('quarantined', quarantined),
    lines('notes', view.notes),
  ];
  return { [PUBLISHED_AT]: new Date(view.publishedAt).toISOString(), [CLASSES]: `{${body.join(',\n')}}\n` };
}

/**
 * Reads the ConfigMap (raw object); undefined where it holds no node classes. Total: a class that cannot be read makes the whole
 * unreadable, since without it a Pod would seem to land on fewer nodes than it can.
 */
export function parseNodeClasses(configMap: unknown): NodeClasses | undefined {
  const data = at(configMap, 'data');
  const publishedAt = time(data[PUBLISHED_AT]);
  const body = parseObject(string(data[CLASSES]) ?? '');
  const rawClasses = list(body?.['classes']);
  if (publishedAt === undefined || body === undefined || rawClasses === undefined) return undefined;
  if (rawClasses.length > MAX_CLASSES) return undefined;
  const classes = rawClasses.map(readClass).filter((c) => c !== undefined);
  if (classes.length !== rawClasses.length) return undefined;
  return {
    publishedAt,
    tracked: texts(body['tracked']),
    classes,
    capabilities: records(body['capabilities']).flatMap(readCapability),
    quarantined: records(body['quarantined']).slice(0, MAX_QUARANTINED).flatMap(readQuarantined),
    notes: texts(body['notes']),
  };
}

function texts(value: unknown): string[] {
  return (list(value) ?? []).filter((t): t is string => typeof t === 'string');
}

function isFormat(value: unknown): value is Format {
  return FORMATS.some((f) => f === value);
}

function readClass(raw: unknown): NodeClass | undefined {
  const fields = record(raw) ?? {};
  const [platform, count] = [string(fields['platform']), number(fields['count'])];
  const [labels, taints, formats] = [record(fields['labels']), list(fields['taints']), formatsIn(fields['formats'])];
  if (platform === undefined || count === undefined || labels === undefined || taints === undefined || formats === undefined)
    return undefined;
  const privateFormats = formatsIn(fields['privateFormats']) ?? [];
  return {
    labels: stringMap(labels),
    taints: records(taints).map(readTaint),
    platform,
    formats,
    ...(privateFormats.length === 0 ? {} : { privateFormats }),
    count,
  };
}

function formatsIn(value: unknown): Format[] | undefined {
  return list(value)?.filter(isFormat);
}

function readTaint(raw: Json): Taint {
  const { key, value, effect } = raw;
  return { key: string(key) ?? '', value: string(value) ?? '', effect: string(effect) ?? '' };
}

function readCapability(raw: Json): CapabilitySelector[] {
  const { format, nodeSelector, privateImages } = raw;
  // A selector that was not there would be implied by every Pod.
  if (!isFormat(format) || record(nodeSelector) === undefined) return [];
  return [{ format, nodeSelector: stringMap(nodeSelector), ...(privateImages === true ? { privateImages } : {}) }];
}

function readQuarantined(raw: Json): QuarantinedVariant[] {
  const [namespace, variant, until] = [string(raw['namespace']), string(raw['variant']), time(raw['until'])];
  const [format, reason, message] = [string(raw['format']), string(raw['reason']) ?? '', string(raw['message']) ?? ''];
  if (namespace === undefined || variant === undefined || until === undefined || variant.length > MAX_VARIANT) return [];
  const text = clip(message, MAX_QUARANTINE_MESSAGE);
  return [{ namespace, variant, ...(format === undefined ? {} : { format }), reason, message: text, until }];
}

/** Why the picture of the nodes cannot be used, or undefined. A time of the future is of a clock that nobody can rely on. */
export function nodeClassesProblem(view: NodeClasses | undefined, now: number): string | undefined {
  const way = 'look at the log of the leading controller';
  if (view === undefined) return `ConfigMap ${INSTALL.nodeClasses} is absent or cannot be read; ${way}`;
  if (Math.abs(now - view.publishedAt) <= STALE_AFTER_MS) return undefined;
  const when = new Date(view.publishedAt).toISOString();
  return `ConfigMap ${INSTALL.nodeClasses} was last renewed at ${when}, which is too long ago; ${way}`;
}
