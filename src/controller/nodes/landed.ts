import { time } from '../../api/json.js';
import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { PrewarmTarget } from '../../api/kinds/image-prewarm.js';
import { ANNOTATION, unservedNamespaces } from '../../api/names.js';
import { keyOf } from '../../api/object.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { gangIndex, isNameKey } from '../../gangs/identity.js';
import { parseReference } from '../../images/reference.js';
import type { EventRecorder } from '../../kube/events.js';
import { referenceOf } from '../../kube/events.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Metrics } from '../../observe/metrics.js';
import type { PodUse } from '../../placement/usage.js';
import { pullDeadlineMs } from '../../preheat/deadline.js';
import type { PullerPod } from '../../preheat/evidence.js';
import { pullState } from '../../preheat/evidence.js';
import { isOurs } from '../../preheat/ownership.js';
import type { Puller } from '../../preheat/puller.js';
import { pullerOf } from '../../preheat/puller.js';
import type { GangRecord, RecordHit } from '../../rewrite/record.js';
import { findRecorded, findResolved, readRecord } from '../../rewrite/record.js';
import { outOfScope } from '../../rewrite/scope.js';
import type { Caches } from '../caches.js';
import { tenantOf } from '../pullers/planning.js';

export interface LandedOptions {
  caches: Pick<Caches, 'usage' | 'prewarms' | 'sets' | 'pods' | 'nodes' | 'namespaces'>;
  events: Pick<EventRecorder, 'event'>;
  config: () => Pick<HarbingerConfig, 'mode' | 'scope' | 'budgets'>;
  /** Only the leader counts, so that the sum over replicas is the number of Pods. */
  leading: () => boolean;
  /** Where Harbinger is installed. */
  namespace: string;
  clock: Clock;
  log: Log;
  metrics: Metrics;
}

/** Pods of which the ratio tells. */
const LATEST = 1_000;
/** The webhook hears of a record a moment after it was written, ms; Pods that are made meanwhile are no fault of anybody. */
const RECORD_LAG_MS = 10_000;

/**
 * Measures what prewarming was worth: whether Pods of gangs are bound to nodes on which their images are proven, and whether the
 * webhook gave them the recorded images at all. Only looks; what it says decides nothing.
 */
export class GangPods {
  readonly #options: LandedOptions;
  readonly #landed;
  readonly #ratio;
  readonly #missed;
  readonly #latest: boolean[] = [];
  /** UIDs of ImagePrewarms whose people were told. */
  readonly #told = new Set<string>();

  constructor(options: LandedOptions) {
    const { caches, metrics } = options;
    this.#options = options;
    this.#landed = metrics.counter(
      'harbinger_gang_pods_landed_total',
      'Pods of prewarmed gangs that were bound, by whether their images were proven warm on the node.',
      { state: ['warm', 'cold'] },
    );
    this.#ratio = metrics.gauge(
      'harbinger_gang_pods_landed_warm_ratio',
      'Share of the latest thousand of these Pods that were bound to warm nodes; 1 before the first.',
    );
    this.#ratio.set(1);
    this.#missed = metrics.counter(
      'harbinger_missed_mutations_total',
      'Pods of prewarmed gangs without a decision of the webhook although an image of theirs is recorded otherwise.',
    );
    caches.usage.onChange((key, now, before) => this.#note(key, now, before));
    caches.prewarms.onChange((_key, now, before) => {
      if (now === undefined) this.#told.delete(before?.metadata.uid ?? '');
    });
  }

  #note(key: string, now: PodUse | undefined, before: PodUse | undefined): void {
    const { caches, leading } = this.#options;
    // What was there before this process has been counted by another one.
    if (now === undefined || now.shape.gangs.length === 0 || !caches.usage.hasSynced || !leading()) return;
    const prewarm = this.#prewarmOf(now);
    if (prewarm === undefined) return;
    const record = readRecord(keyOf(prewarm), prewarm.status?.targets);
    if (now.node !== '' && (before?.node ?? '') === '') this.#bound(now, prewarm, record);
    if (before === undefined) this.#made(key, now, { prewarm, record });
  }

  /** Names of gangs are written by anybody who makes Pods; a record counts in its own namespace only. */
  #prewarmOf({ namespace, shape }: PodUse): ImagePrewarm | undefined {
    for (const key of shape.gangs) {
      const found = this.#options.caches.prewarms.byIndex('gang', gangIndex(namespace, key));
      // A name that several gangs have had is the name of none; the webhook reads records alike.
      if (found.length > 0 && !(isNameKey(key) && found.length > 1)) return found[0];
    }
    return undefined;
  }

  #bound({ node, shape }: PodUse, prewarm: ImagePrewarm, record: GangRecord): void {
    // Once a gang has its images nobody holds them, and what comes of its later Pods is not ours.
    if (reasonOf(prewarm) === 'Finished') return;
    const hits = shape.images.map((image) => ({ image, hit: hitOf(record, image) })).filter((h) => h.hit !== undefined);
    if (hits.length === 0) return;
    const warm = hits.every(({ image, hit }) => runs(image, hit) && this.#isWarm(hit?.image.resolved ?? '', node, prewarm));
    this.#landed.inc({ state: warm ? 'warm' : 'cold' });
    this.#latest.push(warm);
    if (this.#latest.length > LATEST) this.#latest.shift();
    this.#ratio.set(this.#latest.filter(Boolean).length / this.#latest.length);
  }

  #isWarm(resolved: string, nodeName: string, prewarm: ImagePrewarm): boolean {
    const { caches, clock, config } = this.#options;
    const node = caches.nodes.get(nodeName);
    const pods = caches.pods.byIndex('node', nodeName);
    const now = clock.now();
    return targetsWith(prewarm, resolved).some(({ target, bytes, tenant }) => {
      const { runtimeClassName } = target;
      const puller = pullerOf(resolved, { runtimeClassName, bytes, tenant: tenant ? tenantOf(prewarm, target) : undefined });
      if (puller === undefined) return false;
      const deadlineMs = pullDeadlineMs(puller.bytes, config().budgets);
      const own = pods.filter((p) => p.hash === puller.hash && this.#isOfSet(p, puller));
      return own.some((pod) => pullState(puller, pod, node, { now, deadlineMs }).state === 'warm');
    });
  }

  /** Anybody may label a Pod, and what it names as its owner counts in its own namespace only. */
  #isOfSet({ namespace, ownerUid }: PullerPod, { hash, tenant }: Puller): boolean {
    const { caches, namespace: own } = this.#options;
    if (namespace !== (tenant?.namespace ?? own)) return false;
    return caches.sets.list().some((s) => s.uid === ownerUid && s.namespace === namespace && s.hash === hash && isOurs(s, own));
  }

  #made(key: string, pod: PodUse, { prewarm, record }: { prewarm: ImagePrewarm; record: GangRecord }): void {
    if (!this.#isServed(pod.namespace) || !wasKnown(prewarm, pod.createdAt)) return;
    const image = pod.shape.undecided.find((i) => !runs(i, hitOf(record, i)));
    if (image === undefined) return;
    const { log, events } = this.#options;
    this.#missed.inc();
    const { uid = '' } = prewarm.metadata;
    if (this.#told.has(uid)) return;
    this.#told.add(uid);
    const given = hitOf(record, image)?.image.resolved ?? '';
    const note = `Pod ${key} of this gang was made with image ${image} and not with ${given}, which was warmed for it: the webhook was not called or did not answer in time; see the failure count of its admission webhook in the API server's metrics and docs/runbook.md`;
    log.warn({ pod: key, image, recorded: given, prewarm: keyOf(prewarm) }, 'a Pod of a prewarmed gang passed the webhook by');
    events.event({ regarding: regardingOf(prewarm), type: 'Warning', reason: 'MutationMissed', action: 'Prewarm', note });
  }

  /** Whether the webhook decides about new Pods of a namespace. */
  #isServed(name: string): boolean {
    const { caches, config, namespace } = this.#options;
    const { mode, scope } = config();
    const facts = caches.namespaces.get(name);
    if (mode !== 'On' || facts === undefined || unservedNamespaces(namespace).includes(name)) return false;
    return outOfScope(scope, facts) === undefined && facts.annotations[ANNOTATION.accelerate] !== 'false';
  }
}

/** What the record says of an image, as a user wrote it or as it was given. */
function hitOf(record: GangRecord, image: string): RecordHit | undefined {
  const given = findResolved([record], image);
  if (given !== undefined) return given;
  const reading = parseReference(image);
  return reading.ok ? findRecorded([record], reading.reference) : undefined;
}

/** Whether an image is what the record gives. */
function runs(image: string, hit: RecordHit | undefined): boolean {
  return hit === undefined || hit.image.resolved === image;
}

/** Targets that have an image on their record, with what its puller depends on. */
function targetsWith(
  prewarm: ImagePrewarm,
  resolved: string,
): { target: PrewarmTarget; bytes?: number | undefined; tenant: boolean }[] {
  return prewarm.spec.targets.flatMap((target) => {
    const images = prewarm.status?.targets?.find((t) => t.name === target.name)?.images ?? [];
    const image = images.find((i) => i.resolved === resolved);
    return image === undefined ? [] : [{ target, bytes: image.sizeBytes, tenant: image.pulledWith === 'Workload' }];
  });
}

function conditionOf(
  { status }: ImagePrewarm,
  type: string,
): { status: string; reason: string; lastTransitionTime: string } | undefined {
  return status?.conditions?.find((c) => c.type === type);
}

function reasonOf(prewarm: ImagePrewarm): string | undefined {
  return conditionOf(prewarm, 'Ready')?.reason;
}

/** Whether the record was there, and the webhook had heard of it, when a Pod was made. */
function wasKnown(prewarm: ImagePrewarm, at: number): boolean {
  const resolved = conditionOf(prewarm, 'TargetsResolved');
  const since = time(resolved?.lastTransitionTime);
  return resolved?.status === 'True' && since !== undefined && since + RECORD_LAG_MS <= at;
}

/** The job, where its owner looks; else the object itself. */
function regardingOf(prewarm: ImagePrewarm): ReturnType<typeof referenceOf> {
  const owner = prewarm.metadata.ownerReferences?.find((o) => o.uid === prewarm.spec.gangRef?.uid);
  if (owner === undefined) return referenceOf(prewarm);
  const { apiVersion, kind, name, uid } = owner;
  return { apiVersion, kind, name, uid, namespace: prewarm.metadata.namespace ?? '' };
}
