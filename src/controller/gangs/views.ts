import type { ImagePrewarm } from '../../api/kinds/index.js';
import { validDeadline } from '../../gangs/hold.js';
import { gangIndex, gangKeys, isNameKey } from '../../gangs/identity.js';
import { whyGateStays } from '../../gangs/gated-kinds.js';
import type { GateView } from '../../gangs/gates.js';
import type { OptIn } from '../../gangs/opt-in.js';
import { optIn } from '../../gangs/opt-in.js';
import { templateFacts } from '../../gangs/pod-templates.js';
import type { Gang, Headcount } from '../../gangs/shape.js';
import { present } from '../../api/json.js';
import type { GangRef } from '../../api/kinds/image-prewarm.js';
import { jobKind } from '../../gangs/kinds.js';
import type { PodCount } from './pod-counts.js';
import { allRun } from './pod-counts.js';
import type { Caches } from '../caches.js';
import { prewarmName } from './decide.js';
import { genericView } from './sources/generic.js';
import type { LocalQueueView, WorkloadView } from './sources/kueue.js';
import { parametersOf } from '../holds/parameters.js';
import type { GangView } from '../prewarm/snapshot.js';

/**
 * Watches of owners and Workloads run apart; by this age of a Workload its owner has been seen if there is one, and by this age of a
 * job its Workload, ms.
 */
const LAG_MS = 5_000;

/** Answers about gangs of all sources; they need several caches at once. */
export class GangViews {
  readonly #caches: Caches;
  readonly #gatedJobs: () => 'Off' | 'On';
  readonly #refusals = new Map<string, string>();

  /** @param gatedJobs `holds.gatedJobs` of the configuration */
  constructor(caches: Caches, gatedJobs: () => 'Off' | 'On') {
    this.#caches = caches;
    this.#gatedJobs = gatedJobs;
  }

  /** Whether it cannot be said yet what became of an ImagePrewarm's gang, or what it asks for. */
  isUnknown(prewarm: ImagePrewarm): boolean {
    const { gangRef } = prewarm.spec;
    if (gangRef === undefined) return false;
    const { owners } = this.#caches;
    const { namespace } = prewarm.metadata;
    const gang = this.workloadOf(prewarm)?.gang;
    if (!this.isKnown(gang)) return true;
    const asked = gang === undefined ? [gangRef] : ownersOf(gang);
    return asked.some((ref) => owners.of(ref, namespace) === undefined && owners.stateOf(ref) === 'pending');
  }

  /** Whether all is known that decides about a gang. Where there is no Kueue none of it decides about gangs that it does not queue. */
  isKnown(gang: Gang | undefined): boolean {
    return this.#caches.gangsKnown || (gang?.source === 'generic' && this.#caches.owners.withoutKueue);
  }

  /** The gang of a key, wherever it comes from; undefined for a job that Kueue turned out to queue. */
  gangOf(key: string): Gang | undefined {
    const queued = this.#caches.workloads.get(key)?.gang;
    const alone = queued === undefined ? this.#caches.owners.gang(key)?.gang : undefined;
    return queued ?? (alone === undefined || this.#isQueued(alone) ? undefined : alone);
  }

  /**
   * Whether something has not been seen yet that decides about a new gang: the object that may opt it in, or the Workload that Kueue
   * may make of it. Never for long, since nobody else may be kept waiting.
   */
  awaitsOwner(gang: Gang, now: number): boolean {
    const young = now >= gang.queuedAt && now < gang.queuedAt + LAG_MS;
    if (gang.source === 'generic') return young && !this.#caches.owners.withoutKueue;
    const { owners } = this.#caches;
    const unseen = ownersOf(gang).filter((ref) => owners.of(ref, gang.namespace) === undefined);
    return unseen.some((ref) => young || owners.stateOf(ref) === 'pending');
  }

  /** Why no ImagePrewarm can be made for a gang, in the words of the API server. */
  refusalOf(gang: Gang): string | undefined {
    return this.#refusals.get(gang.key);
  }

  /** Notes why, or that it can be made after all; says whether that is news. */
  noteRefusal(key: string, why: string | undefined): boolean {
    if (this.#refusals.get(key) === why) return false;
    if (why === undefined) this.#refusals.delete(key);
    else this.#refusals.set(key, why);
    return true;
  }

  optInOf(gang: Gang): OptIn {
    const { namespaces } = this.#caches;
    return optIn({
      workload: gang.annotations,
      job: this.#saidByOwners(gang),
      templates: gang.podSets.map((p) => templateFacts(p.template).annotations),
      namespace: namespaces.get(gang.namespace)?.annotations,
    });
  }

  /** Whether what may have opted a gang in is not there (any more), by caches that know all of its kind. */
  isJobGone(gang: Gang): boolean {
    const { owners } = this.#caches;
    const asked = ownersOf(gang);
    return (
      asked.length > 0 && asked.every((ref) => owners.of(ref, gang.namespace) === undefined && owners.stateOf(ref) === 'known')
    );
  }

  /** The ClusterQueue of a gang, once its LocalQueue is known. */
  clusterQueueOf(gang: Gang): string | undefined {
    return gang.clusterQueue ?? this.#localQueueOf(gang)?.clusterQueue;
  }

  /** The ImagePrewarm that we made for a gang. */
  prewarmOf(gang: Gang): ImagePrewarm | undefined {
    return this.#caches.prewarms.get(`${gang.namespace}/${prewarmName(gang.ref)}`);
  }

  /** Whether it is this Workload that says what its job needs: two that take turns would write the object for ever. */
  isCurrent(gang: Gang): boolean {
    if (gang.source === 'generic') return !this.#isQueued(gang);
    return this.#currentOf(gang.namespace, gang.ref)?.key === gang.key;
  }

  /** The Workload of an ImagePrewarm's job, of several the one whose Pods are still to come; without one the job itself. */
  workloadOf(prewarm: ImagePrewarm): WorkloadView | undefined {
    const { gangRef } = prewarm.spec;
    if (gangRef === undefined) return undefined;
    const { namespace } = prewarm.metadata;
    const alone = this.#caches.owners.gang(gangRef, namespace);
    return this.#currentOf(namespace, gangRef) ?? (alone === undefined ? undefined : genericView(alone));
  }

  /**
   * Pods by podSet of the Workload that a gang takes the place of, while they run: Kueue ends that one as soon as the gang has quota
   * (pkg/scheduler replaceOldWorkloadSlice), and with the quota of the gang the Pods of both go.
   */
  replacedBy(gang: Gang): ReadonlyMap<string, number> | undefined {
    const old = gang.replaces === undefined ? undefined : this.#caches.workloads.get(gang.replaces)?.gang;
    if (old?.namespace !== gang.namespace || old.ref.uid !== gang.ref.uid || old.state.reservedAt === undefined) return undefined;
    const { reservedAt, headcount } = gang.state;
    if (old.state.finished && (reservedAt === undefined || headcount?.again === true)) return undefined;
    return new Map(old.podSets.map(({ name, count }) => [name, count]));
  }

  /**
   * @param positions places in queues by key of the Workload
   * @param intendedReady whether a write of ours that the cache does not show yet makes its check Ready
   */
  viewOf(workload: WorkloadView, positions: ReadonlyMap<string, number>, intendedReady: boolean): GangView {
    const own = new Map(this.#caches.ownChecks().map((c) => [c.name, c]));
    const checks = workload.hold.checks.filter((c) => own.has(c.name));
    const shares = checks
      .map((c) => own.get(c.name))
      .map((c) => (c === undefined ? 100 : parametersOf(c, this.#caches.checkConfigs).parameters.minWarmPercent));
    return present<GangView>({
      gang: this.#inQueue(this.#withPods(workload.gang), workload.gate),
      optIn: this.optInOf(workload.gang),
      checkReady: intendedReady || checks.some((c) => c.state === 'Ready'),
      checked: checks.length > 0,
      jobGone: this.isJobGone(workload.gang),
      minWarmPercent: shares.length === 0 ? undefined : Math.max(...shares),
      deadline: validDeadline(workload.hold),
      position: positions.get(workload.key),
    });
  }

  /** Whether it is by this change of what runs under a key (see gangIndex) that some gang runs as a whole. */
  completes(at: string, now: PodCount, before: PodCount): boolean {
    return this.#caches.prewarms.byIndex('gang', at).some((prewarm) => {
      const headcount = openHeadcount(this.workloadOf(prewarm)?.gang);
      return headcount !== undefined && allRun(headcount, now) && !allRun(headcount, before);
    });
  }

  /** A gang as its Pods show it: whether they run is told by Kueue only where it is configured to wait for that. */
  #withPods(gang: Gang): Gang {
    const { namespace, ref, state } = gang;
    const headcount = openHeadcount(gang);
    if (headcount === undefined) return gang;
    const { prewarms, gangCounts } = this.#caches;
    // A name that several gangs have had is the name of none.
    const keys = gangKeys(ref).filter(
      (key) => !isNameKey(key) || prewarms.byIndex('gang', gangIndex(namespace, key)).length <= 1,
    );
    const run = keys.some((key) => allRun(headcount, gangCounts.of(namespace, key)));
    return run ? { ...gang, state: { ...state, podsReady: true } } : gang;
  }

  #isQueued({ namespace, ref }: Gang): boolean {
    return this.#caches.workloads.byIndex('owner', gangIndex(namespace, ref.uid)).length > 0;
  }

  /** A gang as its queue sees it: whoever waits in one that is stopped, or has a gate of ours that stays, is passed over. */
  #inQueue(gang: Gang, gate: GateView | undefined): Gang {
    if (gang.state.reservedAt !== undefined) return gang;
    const stays = gate !== undefined && whyGateStays(gate, this.#gatedJobs()) !== undefined;
    const passedOver = stays || this.#localQueueOf(gang)?.stopped === true;
    return passedOver ? { ...gang, state: { ...gang.state, passedOver } } : gang;
  }

  #localQueueOf({ namespace, queue }: Gang): LocalQueueView | undefined {
    return this.#caches.localQueues.get(`${namespace}/${queue}`);
  }

  #currentOf(namespace: string | undefined, { uid }: GangRef): WorkloadView | undefined {
    return currentWorkload(this.#caches.workloads.byIndex('job', gangIndex(namespace, uid)));
  }

  /** What the owners of a gang say of it; of several the first that says something counts. */
  #saidByOwners(gang: Gang): Record<string, string> {
    const said = ownersOf(gang).map((ref) => this.#caches.owners.of(ref, gang.namespace)?.annotations ?? {});
    return Object.assign({}, ...said.reverse()) as Record<string, string>;
  }

  /**
   * Places of all gangs that wait for quota, per ClusterQueue, as Kueue orders them: priority, then time, then UID. Whom it passes over
   * comes after all others: they may be warmed, but not in the place of one that may be next.
   */
  positions(): Map<string, number> {
    const positions = new Map<string, number>();
    // Nobody says who of them is next, so each is.
    for (const { gang } of this.#caches.owners.gangs())
      if (!gang.state.admitted && !gang.state.finished) positions.set(gang.key, 0);
    for (const line of this.#lines().values()) line.sort(byTurn).forEach(({ key }, index) => positions.set(key, index));
    return positions;
  }

  /** Gangs that wait for quota, by ClusterQueue. */
  #lines(): Map<string, Gang[]> {
    const lines = new Map<string, Gang[]>();
    for (const { gang: seen, gate } of this.#caches.workloads.list()) {
      const gang = this.#inQueue(seen, gate);
      const { reservedAt, finished, active } = gang.state;
      const queue = this.clusterQueueOf(gang);
      if (reservedAt !== undefined || finished || !active || queue === undefined) continue;
      const line = lines.get(queue);
      if (line === undefined) lines.set(queue, [gang]);
      else line.push(gang);
    }
    return lines;
  }
}

function byTurn(a: Gang, b: Gang): number {
  const [first, second] = [a.state.passedOver === true, b.state.passedOver === true];
  if (first !== second) return first ? 1 : -1;
  return b.priority - a.priority || a.queuedAt - b.queuedAt || (a.uid < b.uid ? -1 : 1);
}

/** By what Pods of a gang tell that it runs, while that is the question. Pods of before its admission are leaving, and count as that. */
function openHeadcount(gang: Gang | undefined): Headcount | undefined {
  const { admitted, finished, podsReady, headcount } = gang?.state ?? {};
  return admitted === true && finished !== true && podsReady !== true ? headcount : undefined;
}

/** The objects whose annotations count as those of the job; only kinds that may be read. */
function ownersOf({ ref, owners }: Gang): GangRef[] {
  return [ref, ...(owners ?? [])].filter((owner) => jobKind(owner) !== undefined);
}

/**
 * Of the Workloads of one job the one that Pods are still to come of: a slice that waits to scale a running job up goes before
 * the slice that runs, and after a requeue the new Workload before the old one.
 */
export function currentWorkload(workloads: readonly WorkloadView[]): WorkloadView | undefined {
  const age = ({ gang: { state } }: WorkloadView): number => {
    if (state.finished) return 3;
    if (!state.active) return 2;
    return state.admitted ? 1 : 0;
  };
  return [...workloads].sort((a, b) => age(a) - age(b) || b.gang.queuedAt - a.gang.queuedAt)[0];
}
