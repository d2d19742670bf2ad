import type { Json } from '../../api/json.js';
import { at, records, string, stringMap } from '../../api/json.js';
import { clip } from '../../api/conditions.js';
import { FORMATS } from '../../api/kinds/acceleration-policy.js';
import { ANNOTATION } from '../../api/names.js';
import type { FailureReason } from '../../api/reasons.js';
import { FAILURE_REASONS } from '../../api/reasons.js';
import { parseReference } from '../../images/reference.js';
import type { RawObject } from '../../kube/reflector.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Metrics } from '../../observe/metrics.js';
import type { QuarantinedVariant } from '../../placement/node-classes.js';
import { MAX_QUARANTINE_MESSAGE, MAX_QUARANTINED, MAX_VARIANT } from '../../placement/node-classes.js';
import { variantKey } from '../../placement/quarantine.js';
import { classifyPullError } from '../../preheat/pull-errors.js';

/** A variant that a node cannot pull for a Pod. */
export interface PullFailure {
  image: string;
  format: string;
  reason: FailureReason;
  message: string;
}

/** What is kept of a Pod that runs a variant: nothing while all is well. */
export interface AcceleratedPod {
  namespace: string;
  failures: readonly PullFailure[];
}

/** Waiting reasons with which kubelets say that an image is not to be had. */
const PULL_REASONS: ReadonlySet<string> = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'RegistryUnavailable',
  'ImageInspectError',
  'SignatureValidationFailed',
]);
/** Most failures of one Pod that are looked at. */
const MAX_FAILURES = 20;
const NO_FAILURES: readonly PullFailure[] = [];

/**
 * Projects a raw Pod that carries our label. What its annotation claims counts only where the image that it names stands in the
 * Pod and is one that the webhook could have written; the worst that a forged one can do is to keep a variant from the Pods of its
 * own namespace.
 */
export function projectAccelerated(raw: RawObject): AcceleratedPod {
  const status = at(raw, 'status');
  const statuses = [...records(status['initContainerStatuses']), ...records(status['containerStatuses'])];
  const waiting = statuses.filter((s) => PULL_REASONS.has(string(at(s, 'state', 'waiting')['reason']) ?? ''));
  const namespace = raw.metadata.namespace ?? '';
  if (waiting.length === 0) return { namespace, failures: NO_FAILURES };
  const variants = variantsOf(raw);
  const failures = waiting.map((s) => failureOf(s, variants)).filter((f) => f !== undefined);
  return { namespace, failures: failures.slice(0, MAX_FAILURES) };
}

/** Images that the decisions claim to be variants and that stand where they say, by container (`volume/NAME` for volumes). */
function variantsOf(raw: RawObject): Map<string, { image: string; format: string }> {
  const spec = at(raw, 'spec');
  const images = new Map<string, string | undefined>();
  for (const c of [...records(spec['initContainers']), ...records(spec['containers'])])
    images.set(string(c['name']) ?? '', string(c['image']));
  for (const v of records(spec['volumes'])) images.set(`volume/${string(v['name']) ?? ''}`, string(at(v, 'image')['reference']));
  const variants = new Map<string, { image: string; format: string }>();
  for (const decision of decisionsOf(stringMap(raw.metadata.annotations)[ANNOTATION.decisions])) {
    const [container, image, format] = [decision['container'], decision['image'], decision['format']].map(string);
    if (decision['outcome'] !== 'accelerated' || container === undefined || image === undefined) continue;
    if (images.get(container) === image && isReference(image))
      variants.set(container, { image, format: FORMATS.find((f) => f === format) ?? 'unknown' });
  }
  return variants;
}

/** The API server takes any text as an image, of any length, and this one is kept, published and logged. */
function isReference(image: string): boolean {
  return image.length <= MAX_VARIANT && parseReference(image).ok;
}

function decisionsOf(annotation: string | undefined): readonly Json[] {
  try {
    return records(JSON.parse(annotation ?? '[]'));
  } catch {
    return [];
  }
}

/** A container also waits for the images of its volumes, and then the kubelet names theirs. */
function failureOf(status: Json, variants: ReadonlyMap<string, { image: string; format: string }>): PullFailure | undefined {
  const { reason = '', message = '' } = stringMap(at(status, 'state')['waiting']);
  const ofVolume = [...variants].find(([name, { image }]) => name.startsWith('volume/') && message.includes(image));
  const variant = ofVolume?.[1] ?? variants.get(string(status['name']) ?? '');
  if (variant === undefined) return undefined;
  return {
    ...variant,
    reason: classifyPullError(reason, message),
    message: clip(printable(message === '' ? reason : message), MAX_QUARANTINE_MESSAGE),
  };
}

/** Kubelets quote what registries answer. Other characters take up to six bytes each in JSON. */
function printable(text: string): string {
  return text.slice(0, 2 * MAX_QUARANTINE_MESSAGE).replace(/[^\x20-\x7e]/g, '?');
}

/** How long Pods are not given a variant after the latest failure to pull it, ms. */
export const QUARANTINE_MS = 30 * 60_000;
/** Most variants in quarantine for one namespace. */
const MAX_PER_NAMESPACE = 20;

/** Failures that the plain image would meet alike, or that pass: they are counted, and the variant is not to blame. */
const NOT_ITS_FAULT: ReadonlySet<FailureReason> = new Set<FailureReason>(['RegistryError', 'InsufficientDisk']);

export interface VariantFailuresOptions {
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** Only the leader counts, so that the sum over replicas is the number of failures. */
  leading: () => boolean;
}

/** Remembers which variants nodes failed to pull. What still fails is seen again after a restart, the rest is read from what was published. */
export class VariantFailures {
  readonly #options: VariantFailuresOptions;
  readonly #quarantined = new Map<string, QuarantinedVariant>();
  readonly #counter;

  constructor(options: VariantFailuresOptions) {
    this.#options = options;
    this.#counter = options.metrics.counter(
      'harbinger_variant_pull_failures_total',
      'Variants in Pods that a node could not pull, by format and reason.',
      { format: [...FORMATS, 'unknown'], reason: FAILURE_REASONS },
    );
  }

  /** Takes in what a Pod shows now; says whether that changes the quarantine. Each failure of a Pod is counted once. */
  note(now: AcceleratedPod, before: AcceleratedPod | undefined): boolean {
    const { leading, log } = this.#options;
    let changed = false;
    for (const failure of now.failures) {
      const { image, format, reason, message } = failure;
      if (before?.failures.some((f) => f.image === image && f.reason === reason) !== true) {
        if (leading()) this.#counter.inc({ format, reason });
        log.warn({ namespace: now.namespace, image, format, reason, detail: message }, 'a node cannot pull a variant');
      }
      if (!NOT_ITS_FAULT.has(reason)) changed = this.#add({ ...failure, namespace: now.namespace }) || changed;
    }
    return changed;
  }

  /** Takes over what an earlier leader published. */
  adopt(published: readonly QuarantinedVariant[]): void {
    for (const entry of published) {
      const key = keyOf(entry);
      if (!this.#quarantined.has(key)) this.#quarantined.set(key, entry);
    }
    this.#trim();
  }

  /** What is in quarantine, in a lasting order. */
  list(): QuarantinedVariant[] {
    this.#trim();
    return [...this.#quarantined.values()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }

  #add({ image, format, reason, message, namespace }: PullFailure & { namespace: string }): boolean {
    const until = this.#options.clock.now() + QUARANTINE_MS;
    const entry = { namespace, variant: variantKey(image), format, reason, message, until };
    const key = keyOf(entry);
    const news = !this.#quarantined.has(key);
    // Set anew, so that the order of the map is that of the latest failures.
    this.#quarantined.delete(key);
    this.#quarantined.set(key, entry);
    this.#trim();
    return news;
  }

  /**
   * Drops what is over and, where there are too many, what namespaces have beyond an equal share: those that fail most lose first,
   * and of each namespace the latest failures stay.
   */
  #trim(): void {
    const now = this.#options.clock.now();
    const ranks = new Map<string, number>();
    const ranked: { key: string; rank: number }[] = [];
    for (const [key, { namespace, until }] of [...this.#quarantined].reverse()) {
      const rank = ranks.get(namespace) ?? 0;
      // An end further away than any of ours is of a clock that was set back.
      if (until <= now || until > now + QUARANTINE_MS || rank >= MAX_PER_NAMESPACE) this.#quarantined.delete(key);
      else {
        ranks.set(namespace, rank + 1);
        ranked.push({ key, rank });
      }
    }
    // The sort is stable, so that among equals the latest failures come first.
    for (const { key } of ranked.sort((a, b) => a.rank - b.rank).slice(MAX_QUARANTINED)) this.#quarantined.delete(key);
  }
}

function keyOf({ namespace, variant }: Pick<QuarantinedVariant, 'namespace' | 'variant'>): string {
  return `${namespace} ${variant}`;
}
