import { at, stringMap } from '../../../api/json.js';
import { ANNOTATION, GROUP } from '../../../api/names.js';
import { keyOf } from '../../../api/object.js';
import type { GangRef } from '../../../api/kinds/image-prewarm.js';
import { gangOfJob } from '../../../gangs/job-gang.js';
import { gangIndex } from '../../../gangs/identity.js';
import type { JobKind } from '../../../gangs/kinds.js';
import { JOB_KINDS, jobKind, kindName } from '../../../gangs/kinds.js';
import type { Gang } from '../../../gangs/shape.js';
import type { WatchPort } from '../../../kube/client.js';
import type { DiscoveryPort } from '../../../kube/port.js';
import type { RawObject } from '../../../kube/reflector.js';
import { Reflector } from '../../../kube/reflector.js';
import type { Resource } from '../../../kube/resources.js';
import type { Clock, Timer } from '../../../observe/clock.js';
import type { Log } from '../../../observe/log.js';
import type { Metrics } from '../../../observe/metrics.js';

/** What is kept of an object that may opt a gang in, or that is one. */
export interface OwnerView {
  key: string;
  namespace: string;
  uid: string;
  kind: JobKind;
  resourceVersion: string;
  /** Only ours and Kueue's: others may be large, and nobody asks for them. */
  annotations: Readonly<Record<string, string>>;
  /** The gang that it is where nobody queues it; only where it is annotated itself, or a template of its Pods. */
  gang?: Gang;
}

export interface OwnersOptions {
  client: WatchPort;
  /** Absent: only kinds that every API server serves are followed. */
  discovery: DiscoveryPort | undefined;
  clock: Clock;
  log: Log;
  metrics: Metrics;
  /** `Kind.group` of jobs that are read without Kueue. */
  generic: () => readonly string[];
}

/** An owner that is a gang of its own. */
export type GangOwner = OwnerView & { gang: Gang };

type Handler = (now: OwnerView | undefined, before: OwnerView | undefined) => void;

interface Followed {
  reflector: Reflector<OwnerView>;
  /** Epoch ms. */
  since: number;
}

const KUEUE = 'kueue.x-k8s.io';
/** On a job that Kueue starts, as a label. */
const QUEUE_NAME = `${KUEUE}/queue-name`;
/** On a job whose Workload somebody made beforehand: an annotation since Kueue 0.18, before that a label (pkg/controller/jobframework). */
const PREBUILT = `${KUEUE}/prebuilt-workload-name`;
/** What is served is asked for this often, and sooner where a Workload names a kind that is not known, ms. */
const DISCOVERY_MS = 60_000;
const SOON_MS = 1_000;
/** A kind that cannot be listed keeps nobody waiting longer than this, ms. */
const PATIENCE_MS = 10_000;

/**
 * Follows the objects above gangs: for what they say of prewarming, and as gangs where nobody queues them. A kind is followed once
 * the API server serves it and either a Workload names it or the configuration has it read without Kueue, so the others cost nothing.
 */
export class Owners {
  readonly #options: OwnersOptions;
  readonly #followed = new Map<string, Followed>();
  readonly #named = new Set<string>(['Job.batch']);
  readonly #handlers: Handler[] = [];
  readonly #onServed: (() => void)[] = [];
  readonly #gangs = new Map<string, GangOwner>();
  #served: ReadonlySet<string> | undefined;
  #timer: Timer | undefined;
  readonly #patience = new Set<Timer>();
  #startedAt = 0;
  #askedAt = 0;
  #stopped = false;

  constructor(options: OwnersOptions) {
    this.#options = options;
  }

  /** Begins with Jobs, which every cluster has, and asks what else there is. */
  start(): void {
    this.#startedAt = this.#options.clock.now();
    this.#follow();
    void this.#ask();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of [this.#timer, ...this.#patience]) timer?.cancel();
    await Promise.all([...this.#followed.values()].map((f) => f.reflector.stop()));
  }

  /** Resolves when Jobs are known; `start` comes first. */
  get synced(): Promise<void> {
    return this.#followed.get('Job.batch')?.reflector.synced ?? Promise.resolve();
  }

  onChange(handler: Handler): void {
    this.#handlers.push(handler);
  }

  /** Called when kinds came or went, when one is known, and when one was waited for long enough. */
  onServed(handler: () => void): void {
    this.#onServed.push(handler);
  }

  /** Says that a Workload belongs to an object of this kind. */
  named(ref: GangRef): void {
    const kind = jobKind(ref);
    if (kind === undefined || this.#named.has(kindName(kind))) return;
    this.#named.add(kindName(kind));
    this.#follow();
    if (kind.builtin !== true) this.#again(Math.max(0, this.#askedAt + SOON_MS - this.#options.clock.now()));
  }

  /** An owner is always in the namespace of what it owns: a reference that leads to another one was made up. */
  of(ref: Pick<GangRef, 'apiGroup' | 'kind' | 'uid'>, namespace: string | undefined): OwnerView | undefined {
    const kind = jobKind(ref);
    const followed = kind === undefined ? undefined : this.#followed.get(kindName(kind));
    return followed?.reflector.byIndex('uid', gangIndex(namespace, ref.uid))[0];
  }

  /**
   * `known`: what is not seen is not there. `pending`: it may be seen any moment. `unread`: nobody reads this kind, or it cannot be
   * read; whoever waits for it must not wait longer.
   */
  stateOf(ref: Pick<GangRef, 'apiGroup' | 'kind'>): 'known' | 'pending' | 'unread' {
    const kind = jobKind(ref);
    if (kind === undefined) return 'unread';
    const followed = this.#followed.get(kindName(kind));
    if (followed?.reflector.hasSynced === true) return 'known';
    if (followed === undefined && (this.#served !== undefined || this.#options.discovery === undefined)) return 'unread';
    return this.#options.clock.now() < (followed?.since ?? this.#startedAt) + PATIENCE_MS ? 'pending' : 'unread';
  }

  /** Whether the API server was asked and has no Kueue. */
  get withoutKueue(): boolean {
    return this.#served !== undefined && ![...this.#served].some((r) => r.startsWith(`${KUEUE}/`));
  }

  /** Annotated jobs of kinds that are read without Kueue, whether Kueue has them or not. */
  gangs(): GangOwner[] {
    return [...this.#gangs.values()].filter((owner) => this.#isGeneric(owner.kind));
  }

  /** By key of the gang, or by the job itself and its namespace. */
  gang(which: string | Pick<GangRef, 'apiGroup' | 'kind' | 'uid'>, namespace?: string): GangOwner | undefined {
    const key = typeof which === 'string' ? which : this.of(which, namespace)?.gang?.key;
    const owner = key === undefined ? undefined : this.#gangs.get(key);
    return owner !== undefined && this.#isGeneric(owner.kind) ? owner : undefined;
  }

  /** Another configuration may have other kinds read. */
  reconsider(): void {
    if (this.#startedAt > 0) this.#follow();
  }

  problems(): string[] {
    return [...this.#followed.values()].flatMap(({ reflector }) => (reflector.problem === undefined ? [] : [reflector.problem]));
  }

  /** The version in which a kind is read; undefined while it is not served. */
  versionOf(kind: JobKind): string | undefined {
    if (kind.builtin === true) return kind.versions[0];
    return kind.versions.find((v) => this.#served?.has(`${kind.group}/${v}/${kind.plural}`));
  }

  /** Begins to follow what is wanted and there, and leaves what is neither. */
  #follow(): void {
    const generic = new Set(this.#options.generic());
    let changed = false;
    for (const kind of JOB_KINDS) {
      const name = kindName(kind);
      const version = this.versionOf(kind);
      const wanted = version !== undefined && (this.#named.has(name) || generic.has(name));
      const followed = this.#followed.get(name);
      if (wanted && followed === undefined && !this.#stopped) this.#begin(kind, version);
      else if (version === undefined && followed !== undefined) this.#end(name, followed.reflector);
      else continue;
      changed = true;
    }
    if (changed) this.#tellServed();
  }

  #begin(kind: JobKind, version: string): void {
    const { client, clock, log, metrics } = this.#options;
    const resource: Resource = { ...kind, version, namespaced: true, metadataOnly: kind.shape === undefined };
    const reflector = new Reflector<OwnerView>({
      client,
      clock,
      log,
      metrics,
      resource,
      project: (raw) => projectOwner(kind, raw),
      indexes: { uid: (owner) => [gangIndex(owner.namespace, owner.uid)] },
      ...(kind.labelSelector === undefined ? {} : { labelSelector: kind.labelSelector }),
    });
    reflector.onChange((_key, now, before) => this.#change(now, before));
    this.#followed.set(kindName(kind), { reflector, since: clock.now() });
    reflector.start();
    void reflector.synced.then(() => this.#tellServed());
    const timer = clock.setTimeout(() => {
      this.#patience.delete(timer);
      if (!reflector.hasSynced) this.#tellServed();
    }, PATIENCE_MS);
    this.#patience.add(timer);
  }

  #isGeneric(kind: JobKind): boolean {
    return this.#options.generic().includes(kindName(kind));
  }

  /** Its CustomResourceDefinition went, and all objects with it. */
  #end(name: string, reflector: Reflector<OwnerView>): void {
    this.#followed.delete(name);
    void reflector.stop();
    for (const owner of reflector.list()) this.#change(undefined, owner);
  }

  #change(now: OwnerView | undefined, before: OwnerView | undefined): void {
    if (before?.gang !== undefined && now?.gang === undefined) this.#gangs.delete(before.gang.key);
    if (now?.gang !== undefined) this.#gangs.set(now.gang.key, { ...now, gang: now.gang });
    for (const handler of this.#handlers) handler(now, before);
  }

  #tellServed(): void {
    if (!this.#stopped) for (const handler of this.#onServed) handler();
  }

  #again(afterMs: number): void {
    this.#timer?.cancel();
    if (!this.#stopped) this.#timer = this.#options.clock.setTimeout(() => void this.#ask(), afterMs);
  }

  async #ask(): Promise<void> {
    const { discovery, clock, log } = this.#options;
    if (discovery === undefined) return;
    this.#askedAt = clock.now();
    const first = this.#served === undefined;
    try {
      this.#served = await discovery.served(GROUPS);
      this.#follow();
      if (first) this.#tellServed();
    } catch (err) {
      // What was served a minute ago is taken to be so still.
      log.debug({ err }, 'the API server does not tell what it serves');
    }
    this.#again(this.#served === undefined ? SOON_MS : DISCOVERY_MS);
  }
}

const GROUPS: ReadonlySet<string> = new Set([KUEUE, ...JOB_KINDS.filter((k) => k.builtin !== true).map((k) => k.group)]);

/** Projects an object of a kind in the table. */
export function projectOwner(kind: JobKind, raw: RawObject): OwnerView {
  const all = Object.entries(stringMap(raw.metadata.annotations));
  const annotations = Object.fromEntries(all.filter(([k]) => k.startsWith(`${GROUP}/`) || k.startsWith(`${KUEUE}/`)));
  const alone = isQueued(raw) || isInner(raw) ? undefined : gangOfJob(kind, raw);
  const gang = asksItself(annotations, alone) ? alone : undefined;
  return {
    key: keyOf(raw),
    namespace: raw.metadata.namespace ?? '',
    uid: raw.metadata.uid ?? '',
    kind,
    resourceVersion: raw.metadata.resourceVersion ?? '',
    annotations,
    ...(gang === undefined ? {} : { gang }),
  };
}

/** What its namespace says makes no gang of a job that nobody queues: most of these never wait for anything. */
function asksItself(annotations: OwnerView['annotations'], gang: Gang | undefined): boolean {
  const ofTemplates = (gang?.podSets ?? []).map((p) => stringMap(at(p.template, 'metadata')['annotations']));
  return [annotations, ...ofTemplates].some((said) => said[ANNOTATION.prewarm] !== undefined);
}

function isQueued(raw: RawObject): boolean {
  const [labels, annotations] = [stringMap(raw.metadata.labels), stringMap(raw.metadata.annotations)];
  return [labels[QUEUE_NAME], labels[PREBUILT], annotations[PREBUILT]].some((name) => name !== undefined);
}

/** Whether a job of the table controls it: that one speaks for all that is made of it. */
function isInner(raw: RawObject): boolean {
  return (raw.metadata.ownerReferences ?? []).some(
    ({ controller, apiVersion, kind }) =>
      controller === true && jobKind({ apiGroup: String(apiVersion).split('/').slice(0, -1).join('/'), kind }) !== undefined,
  );
}
