import type { ImagePrewarm } from '../api/kinds/index.js';
import { validDeadline } from '../gangs/hold.js';
import type { OptIn } from '../gangs/opt-in.js';
import { optIn } from '../gangs/opt-in.js';
import { templateFacts } from '../gangs/pod-templates.js';
import type { Gang } from '../gangs/shape.js';
import { present } from '../api/json.js';
import type { Caches, OwnerView } from './caches.js';
import { prewarmName } from './decide-gang.js';
import type { WorkloadView } from './gang-sources/kueue.js';
import { parametersOf } from './holds/parameters.js';
import type { GangView } from './prewarm/snapshot.js';

/** Watches of Jobs and Workloads run apart; by this age of a Workload its Job has been seen if there is one, ms. */
const JOB_LAG_MS = 5_000;

/** Answers about gangs that need several caches at once. */
export class GangViews {
  readonly #caches: Caches;
  readonly #refusals = new Map<string, string>();

  constructor(caches: Caches) {
    this.#caches = caches;
  }

  /** Whether it cannot be said yet what became of an ImagePrewarm's gang. */
  isUnknown(prewarm: ImagePrewarm): boolean {
    return prewarm.spec.gangRef !== undefined && !this.#caches.gangsKnown;
  }

  /** Whether the Job that may opt a new gang in has not been seen yet; never for long, since nobody else may be kept waiting. */
  awaitsJob({ ref, queuedAt }: Gang, now: number): boolean {
    if (!isBatchJob({ ref }) || this.#jobOf({ ref }) !== undefined) return false;
    return now >= queuedAt && now < queuedAt + JOB_LAG_MS;
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
      job: this.#jobOf(gang)?.annotations,
      templates: gang.podSets.map((p) => templateFacts(p.template).annotations),
      namespace: namespaces.get(gang.namespace)?.annotations,
    });
  }

  /** The ClusterQueue of a gang, once its LocalQueue is known. */
  clusterQueueOf(gang: Gang): string | undefined {
    return gang.clusterQueue ?? this.#caches.localQueues.get(`${gang.namespace}/${gang.queue}`)?.clusterQueue;
  }

  /** The ImagePrewarm that we made for a gang. */
  prewarmOf(gang: Gang): ImagePrewarm | undefined {
    return this.#caches.prewarms.get(`${gang.namespace}/${prewarmName(gang.ref)}`);
  }

  /** Whether it is this Workload that says what its job needs: two that take turns would write the object for ever. */
  isCurrent({ key, ref }: Gang): boolean {
    return currentWorkload(this.#caches.workloads.byIndex('job', ref.uid))?.key === key;
  }

  /** The Workload of an ImagePrewarm's job; of several the one whose Pods are still to come. */
  workloadOf(prewarm: ImagePrewarm): WorkloadView | undefined {
    const uid = prewarm.spec.gangRef?.uid;
    return uid === undefined ? undefined : currentWorkload(this.#caches.workloads.byIndex('job', uid));
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
      gang: workload.gang,
      optIn: this.optInOf(workload.gang),
      checkReady: intendedReady || checks.some((c) => c.state === 'Ready'),
      checked: checks.length > 0,
      jobGone: isBatchJob(workload.gang) && this.#jobOf(workload.gang) === undefined,
      minWarmPercent: shares.length === 0 ? undefined : Math.max(...shares),
      deadline: validDeadline(workload.hold),
      position: positions.get(workload.key),
    });
  }

  #jobOf({ ref }: Pick<Gang, 'ref'>): OwnerView | undefined {
    return this.#caches.jobs.byIndex('uid', ref.uid)[0];
  }

  /** Places of all gangs that wait for quota, per ClusterQueue, as Kueue orders them: priority, then time, then UID. */
  positions(): Map<string, number> {
    const lines = new Map<string, Gang[]>();
    for (const { gang } of this.#caches.workloads.list()) {
      const { reservedAt, finished, active } = gang.state;
      const queue = this.clusterQueueOf(gang);
      if (reservedAt !== undefined || finished || !active || queue === undefined) continue;
      const line = lines.get(queue);
      if (line === undefined) lines.set(queue, [gang]);
      else line.push(gang);
    }
    const positions = new Map<string, number>();
    for (const line of lines.values()) {
      line.sort((a, b) => b.priority - a.priority || a.queuedAt - b.queuedAt || (a.uid < b.uid ? -1 : 1));
      line.forEach((gang, index) => positions.set(gang.key, index));
    }
    return positions;
  }
}

/** Jobs are the only owners that are followed; what others say has to stand on their templates. */
function isBatchJob({ ref }: Pick<Gang, 'ref'>): boolean {
  return ref.apiGroup === 'batch' && ref.kind === 'Job';
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
