import { formatTime } from '../../api/duration.js';
import type { ReleaseReason } from '../../api/reasons.js';
import { time } from '../../api/json.js';
import { ADMISSION_GATED_BY, ANNOTATION, CHECK_CONTROLLER, INSTALL } from '../../api/names.js';
import type { KubeObject } from '../../api/object.js';
import type { HarbingerConfig } from '../../config/schema.js';
import type { GatedKind } from '../../gangs/gated-kinds.js';
import { gatedKindOf } from '../../gangs/gated-kinds.js';
import type { GateView } from '../../gangs/gates.js';
import { ungatePatch } from '../../gangs/gates.js';
import { templateFacts } from '../../gangs/pod-templates.js';
import { isConflict, isForbidden, isInvalid, isNotFound, isUnserved } from '../../kube/errors.js';
import type { EventRecorder } from '../../kube/events.js';
import type { KubePort, PatchOp } from '../../kube/port.js';
import { apiVersionOf } from '../../kube/resources.js';
import type { Result } from '../../kube/work-queue.js';
import type { Clock } from '../../observe/clock.js';
import type { Log } from '../../observe/log.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import type { WorkloadView } from '../gangs/sources/kueue.js';
import type { GangViews } from '../gangs/views.js';
import type { GateDecision } from './decide-gate.js';
import { decideGate } from './decide-gate.js';
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

/** A write that met a newer object is tried again after this time if no event came, ms. */
const RETRY_MS = 1_000;
/** A gate that cannot be taken off is tried again after this time, ms: rights are given without a word to us. */
const REFUSED_MS = 30_000;

/** Nothing went wrong for the owner of a job whose gate goes for these reasons. */
const QUIET: ReadonlySet<ReleaseReason> = new Set<ReleaseReason>(['WarmVerified', 'SwitchedOff']);

/** Takes our gate off jobs that wait for their images without quota. Key: that of the Workload. */
export class GatedJobsReconciler {
  readonly #options: GatedJobsOptions;
  /** Jobs of Workloads by key: UID and creation (epoch ms), which never change. */
  readonly #created = new Map<string, { uid: string; at: number }>();
  /** What was said last of gates that stay, by key: told once and not at each look. */
  readonly #told = new Map<string, string>();

  constructor(options: GatedJobsOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const workload = this.#options.caches.workloads.get(key);
    if (workload === undefined || !isGated(workload)) {
      this.#told.delete(key);
      this.#created.delete(key);
      return {};
    }
    const { gate } = workload;
    const kind = gatedKindOf(gate.job);
    const why = this.#problem(gate, kind);
    if (why !== undefined || kind === undefined) return this.#stays(workload, why ?? '');
    try {
      return await this.#step(workload, kind);
    } catch (error) {
      if (isUnserved(error))
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

  /** Why nobody takes the gate off, undefined where we do. */
  #problem({ job }: GateView, kind: GatedKind | undefined): string | undefined {
    if (this.#options.config().holds.gatedJobs === 'Off') return `holds.gatedJobs is Off in Harbinger's configuration`;
    return kind === undefined ? `Harbinger does not know kind ${job.kind} of ${job.apiGroup}/${job.version}` : undefined;
  }

  async #step(workload: Gated, kind: GatedKind): Promise<Result> {
    const decision = decideGate(this.#snapshot(workload), this.#options.clock.now());
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

  #snapshot({ gang, gate }: Gated): Parameters<typeof decideGate>[0] {
    const { views, warmth, config } = this.#options;
    const { mode, holds } = config();
    const created = this.#created.get(gang.key);
    return {
      gate,
      mode,
      optIn: views.optInOf(gang),
      hasImages: gang.podSets.some((p) => templateFacts(p.template).images.length > 0),
      warmth: warmth.of(gang),
      jobCreatedAt: created?.uid === gate.job.uid ? created.at : undefined,
      gatedMs: holds.gatedSeconds * 1000,
    };
  }

  async #read({ gang, gate }: Gated, kind: GatedKind): Promise<KubeObject> {
    const job = await this.#options.client.get<KubeObject>(kind, { namespace: gang.namespace, name: gate.job.name });
    this.#created.set(gang.key, { uid: gate.job.uid, at: time(job.metadata.creationTimestamp) ?? gate.createdAt });
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

  /** Of jobs that have taken our name off themselves nothing is left to do; Kueue copies their list in a moment. */
  async #remove(workload: Gated, kind: GatedKind, { reason, message }: Extract<GateDecision, { do: 'remove' }>): Promise<Result> {
    const { gang, gate } = workload;
    const { actuator, counts, log } = this.#options;
    const ops = ungatePatch(await this.#read(workload, kind), gate.job.uid);
    if (ops === undefined) return { after: REFUSED_MS };
    await actuator.perform({ type: 'remove-gate', resource: kind, job: { namespace: gang.namespace, name: gate.job.name }, ops });
    counts.ended('Gate', reason);
    log.info({ gang: gang.key, reason, message }, 'the gate of a job is off');
    this.#event(workload, { type: QUIET.has(reason) ? 'Normal' : 'Warning', reason: `Ungated${reason}`, note: message });
    return {};
  }

  /** Says once why a gate stays, where the owner of the job looks: nobody else is going to end it. */
  #stays(workload: Gated, why: string): Result {
    const { kind, name } = workload.gate.job;
    if (this.#told.get(workload.key) !== why) {
      this.#told.set(workload.key, why);
      const note = `${CHECK_CONTROLLER} stands in annotation ${ADMISSION_GATED_BY} and stays: ${why}. Kueue does not look at ${kind} ${name} before the name is off; take it off with kubectl annotate, or kubectl harbinger release`;
      this.#options.log.warn({ gang: workload.key, why }, 'a gated job is not let go');
      this.#event(workload, { type: 'Warning', reason: 'GateStays', note });
    }
    return { after: REFUSED_MS };
  }

  #event({ gang, gate }: Gated, event: { type: 'Normal' | 'Warning'; reason: string; note: string }): void {
    const kind = gatedKindOf(gate.job);
    const apiVersion = kind === undefined ? gang.refApiVersion : apiVersionOf(kind);
    const { namespace } = gang;
    const regarding = { apiVersion, kind: gate.job.kind, namespace, name: gate.job.name, uid: gate.job.uid };
    this.#options.events.event({ regarding, action: 'Hold', ...event });
  }
}

function isGated(workload: WorkloadView): workload is Gated {
  return workload.gate !== undefined && workload.hold.active;
}
