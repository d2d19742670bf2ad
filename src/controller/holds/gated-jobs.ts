import { formatTime } from '../../api/duration.js';
import type { ReleaseReason } from '../../api/reasons.js';
import { time } from '../../api/json.js';
import { ADMISSION_GATED_BY, ANNOTATION, CHECK_CONTROLLER, INSTALL } from '../../api/names.js';
import type { KubeObject } from '../../api/object.js';
import type { HarbingerConfig } from '../../config/schema.js';
import type { GatedKind } from '../../gangs/gated-kinds.js';
import { gatedKindOf, whyGateStays } from '../../gangs/gated-kinds.js';
import type { GateView } from '../../gangs/gates.js';
import { COPY_MS, nextUngate, workloadsOf } from '../../gangs/gates.js';
import { gangIndex } from '../../gangs/identity.js';
import { templateFacts } from '../../gangs/pod-templates.js';
import { isConflict, isForbidden, isInvalid, isNotFound, isUnserved } from '../../kube/errors.js';
import type { EventRecorder } from '../../kube/events.js';
import type { KubePort, PatchOp } from '../../kube/port.js';
import type { Resource } from '../../kube/resources.js';
import { RESOURCE, apiVersionOf } from '../../kube/resources.js';
import type { Result } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import type { WorkloadView } from '../gangs/sources/kueue.js';
import type { GangViews } from '../gangs/views.js';
import type { GateDecision, GateSnapshot, Group, Removal } from './decide-gate.js';
import { decideGate, ofAllGroups, whileItWaits } from './decide-gate.js';
import { LOOK_MS } from './decide.js';
import type { GangWarmth } from './gang-warmth.js';
import type { HoldCounts } from './hold-counts.js';

export interface GatedJobsOptions {
  client: Pick<KubePort, 'get'>;
  caches: Caches;
  views: GangViews;
  warmth: Pick<GangWarmth, 'of'>;
  actuator: Actuator;
  counts: Pick<HoldCounts, 'ended'>;
  events: Pick<EventRecorder, 'event'>;
  config: () => HarbingerConfig;
  clock: Clock;
  log: Log;
}

type Gated = WorkloadView & { gate: GateView };

/** A gate that is on its way off: once let go a gang is not held again because a node went cold meanwhile. */
interface Going {
  uid: string;
  decision: Removal;
  /** Since when the job is known to be without our name, epoch ms. */
  since: number;
  /** Whether it was counted and told; after a restart it may be once more. */
  told: boolean;
}

/** A write that met a newer object is tried again after this time if no event came, ms. */
const RETRY_MS = 1_000;
/** A gate that cannot be taken off is tried again after this time, ms: rights are given without a word to us. */
const REFUSED_MS = 30_000;

/** Nothing went wrong for the owner of a job whose gate goes for these reasons. */
const QUIET: ReadonlySet<ReleaseReason> = new Set<ReleaseReason>(['WarmVerified', 'SwitchedOff']);

/** Takes our gate off gangs that wait for their images without quota. Key: that of the Workload. */
export class GatedJobsReconciler {
  readonly #options: GatedJobsOptions;
  /** From when the gates of Workloads count, by key: UID of the job and epoch ms, which never change. */
  readonly #counted = new Map<string, { uid: string; from: number }>();
  readonly #going = new Map<string, Going>();
  /** What was said last of gates that stay, by key: told once and not at each look. */
  readonly #told = new Map<string, string>();

  constructor(options: GatedJobsOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const workload = this.#options.caches.workloads.get(key);
    if (workload === undefined || !isGated(workload)) {
      this.#told.delete(key);
      this.#counted.delete(key);
      this.#going.delete(key);
      return {};
    }
    const { job } = workload.gate;
    const kind = job === undefined ? undefined : gatedKindOf(job);
    const why = whyGateStays(workload.gate, this.#options.config().holds.gatedJobs);
    if (why !== undefined) return this.#stays(workload, why);
    try {
      return await this.#step(workload, kind);
    } catch (error) {
      if (kind !== undefined && isUnserved(error))
        return this.#stays(workload, `the API server does not serve ${kind.plural} of ${apiVersionOf(kind)}`);
      // The job is gone, and its Workload goes too.
      if (isNotFound(error)) return { after: REFUSED_MS };
      // Somebody changed the list or the Workload first; this is decided again on what is there then.
      if (isConflict(error) || isInvalid(error)) return { after: RETRY_MS };
      if (!isForbidden(error)) throw error;
      return this.#stays(
        workload,
        `Harbinger may not patch it; bind ClusterRole ${INSTALL.gatedJobsRole} to ServiceAccount ${INSTALL.controller}`,
      );
    }
  }

  async #step(workload: Gated, kind: GatedKind | undefined): Promise<Result> {
    const going = this.#goingOf(workload);
    if (going !== undefined) return this.#remove(workload, kind, going.decision);
    const decision = this.#decide(workload, this.#countedFrom(workload));
    switch (decision.do) {
      case 'wait':
        return { after: decision.after };
      case 'read':
        await this.#read(workload, kind);
        return { after: 0 };
      case 'stamp':
        await this.#stamp(workload, decision);
        return {};
      case 'remove':
        return this.#remove(workload, kind, decision);
    }
  }

  #goingOf({ gang }: Gated): Going | undefined {
    const going = this.#going.get(gang.key);
    return going?.uid === gang.uid ? going : undefined;
  }

  #snapshot({ gang, gate }: Gated, countedFrom: number | undefined): GateSnapshot {
    const { views, warmth, config } = this.#options;
    const { mode, holds } = config();
    return {
      gate,
      mode,
      optIn: views.optInOf(gang),
      hasImages: gang.podSets.some((p) => templateFacts(p.template).images.length > 0),
      warmth: warmth.of(gang),
      countedFrom,
      gatedMs: holds.gatedSeconds * 1000,
    };
  }

  #decide(workload: Gated, countedFrom: number | undefined): GateDecision {
    return decideGate(this.#snapshot(workload, countedFrom), this.#options.clock.now());
  }

  #countedFrom({ gang, gate }: Gated): number | undefined {
    if (gate.job === undefined) return gate.createdAt;
    const counted = this.#counted.get(gang.key);
    return counted?.uid === gate.job.uid ? counted.from : undefined;
  }

  /** A prebuilt Workload may be older than its job: its gate has stood since then, and its end must not move when the job comes. */
  async #read({ gang, gate }: Gated, kind: GatedKind | undefined): Promise<KubeObject | undefined> {
    if (kind === undefined || gate.job === undefined) return undefined;
    const { name, uid } = gate.job;
    const job = await this.#options.client.get<KubeObject>(kind, { namespace: gang.namespace, name });
    const from = Math.min(time(job.metadata.creationTimestamp) ?? gate.createdAt, gate.createdAt);
    this.#counted.set(gang.key, { uid, from });
    return job;
  }

  async #stamp(workload: Gated, { deadline, message }: Extract<GateDecision, { do: 'stamp' }>): Promise<void> {
    const { gang, resourceVersion, hasAnnotations } = workload;
    const path = `/metadata/annotations/${ANNOTATION.gateDeadline.replace('/', '~1')}`;
    const ops: PatchOp[] = [
      ...(hasAnnotations ? [] : [{ op: 'add', path: '/metadata/annotations', value: {} } as const]),
      { op: 'add', path, value: formatTime(deadline) },
    ];
    const seen = { namespace: gang.namespace, name: gang.name, resourceVersion };
    await this.#options.actuator.perform({ type: 'stamp-deadline', workload: seen, ops });
    this.#event(workload, { type: 'Normal', reason: 'Gated', note: message });
  }

  async #remove(workload: Gated, kind: GatedKind | undefined, own: Removal): Promise<Result> {
    const job = await this.#read(workload, kind);
    const going = this.#goingOf(workload);
    const decision = going?.decision ?? ofAllGroups(own, this.#groups(workload), workloadsOf(job)) ?? this.#untilOthers(workload);
    if (decision.do === 'stamp') await this.#stamp(workload, decision);
    if (decision.do !== 'remove') return { after: decision.do === 'wait' ? decision.after : LOOK_MS };
    const next = nextUngate(workload.gate, job, going?.since, this.#options.clock.now());
    // The job is another one of that name; the Workload goes with its own.
    if (next === undefined) return { after: REFUSED_MS };
    if (next.on !== 'copy') return this.#takeOff(workload, next.on === 'job' ? kind : undefined, { ops: next.ops, decision });
    if (going === undefined) this.#goes(workload, decision, false);
    return { after: next.after };
  }

  /** Off the job, where its kind is given, else off the Workload. */
  async #takeOff(
    workload: Gated,
    kind: GatedKind | undefined,
    { ops, decision }: { ops: readonly PatchOp[]; decision: Removal },
  ): Promise<Result> {
    await this.#write(workload, kind ?? RESOURCE.workloads, ops);
    if (this.#goingOf(workload)?.told !== true) this.#tell(workload, decision);
    this.#goes(workload, decision, true);
    return { after: COPY_MS };
  }

  /** Groups that Kueue never makes are not waited for longer than cold ones. */
  #untilOthers(workload: Gated): GateDecision {
    return whileItWaits(this.#snapshot(workload, this.#countedFrom(workload)), this.#options.clock.now());
  }

  async #write({ gang, gate }: Gated, resource: Resource, ops: readonly PatchOp[]): Promise<void> {
    const name = resource === RESOURCE.workloads ? gang.name : (gate.job?.name ?? gang.name);
    const target = { namespace: gang.namespace, name };
    await this.#options.actuator.perform({ type: 'remove-gate', resource, job: target, ops });
  }

  /** The other Workloads of the same job, with what is decided of those that are gated. */
  #groups({ key, gang, gate: { job } }: Gated): Group[] {
    if (job === undefined) return [];
    const { caches, warmth } = this.#options;
    const ofJob = caches.workloads.byIndex('owner', gangIndex(gang.namespace, job.uid));
    return ofJob
      .filter((w) => w.key !== key)
      .map((w) =>
        isGated(w)
          ? { decision: this.#decide(w, this.#countedFrom(w)), far: warmth.of(w.gang)?.reason === 'QueuePosition' }
          : { far: false },
      );
  }

  #goes({ gang }: Gated, decision: Removal, told: boolean): void {
    this.#going.set(gang.key, { uid: gang.uid, decision, since: this.#options.clock.now(), told });
  }

  #tell(workload: Gated, { reason, message }: Removal): void {
    const { counts, log } = this.#options;
    counts.ended('Gate', reason);
    log.info({ gang: workload.key, reason, message }, 'the gate of a job is off');
    this.#event(workload, { type: QUIET.has(reason) ? 'Normal' : 'Warning', reason: `Ungated${reason}`, note: message });
  }

  /** Says once why a gate stays, where the owner of the job looks: nobody else is going to end it. */
  #stays(workload: Gated, why: string): Result {
    const { kind, name } = workload.gate.job ?? workload.gang.ref;
    if (this.#told.get(workload.key) !== why) {
      this.#told.set(workload.key, why);
      const note = `${CHECK_CONTROLLER} stands in annotation ${ADMISSION_GATED_BY} and stays: ${why}. Kueue does not look at ${kind} ${name} before the name is off; take it off with kubectl harbinger release, or kubectl annotate`;
      this.#options.log.warn({ gang: workload.key, why }, 'a gated job is not let go');
      this.#event(workload, { type: 'Warning', reason: 'GateStays', note });
    }
    return { after: REFUSED_MS };
  }

  /** On the job; on the Workload where it has none. */
  #event({ gang, gate: { job } }: Gated, event: { type: 'Normal' | 'Warning'; reason: string; note: string }): void {
    const known = job === undefined ? undefined : gatedKindOf(job);
    const apiVersion = known === undefined ? gang.refApiVersion : apiVersionOf(known);
    const { kind, name, uid } = job ?? gang.ref;
    const regarding = { apiVersion, kind, namespace: gang.namespace, name, uid };
    this.#options.events.event({ regarding, action: 'Hold', ...event });
  }
}

function isGated(workload: WorkloadView): workload is Gated {
  return workload.gate !== undefined && workload.hold.active;
}
