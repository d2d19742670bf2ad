import { at, records } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { conditionOf, controllerUidOf, holds, isActive, reservedAt } from '../../invariants/read.js';
import type { World } from './world.js';
import {
  CHECK,
  CLUSTER_QUEUE,
  EXTRA,
  FLAVOR,
  RESOURCE,
  actor,
  nameOf,
  now,
  ownedBy,
  withConditions,
  writeStatus,
  type ConditionDraft,
} from './world.js';
import {
  checks,
  evictionReason,
  isQueued,
  type EvictionReason,
  pending,
  queuedSince,
  requeueAt,
  resetChecks,
  retryEnd,
  withEviction,
} from './requeue.js';
import { seconds } from '../store/store.js';

export interface KueueOptions {
  /** Pods for which the queue has quota. */
  slots: number;
  /** Without it, as before Kueue 0.19, nothing in a Workload tells that its Pods run. */
  waitForPodsReady: boolean;
}

/** Kueue: makes Workloads, reserves quota in order of the queue, asks checks, admits, evicts and takes back. */
export class Kueue {
  readonly #world: World;
  readonly #options: KueueOptions;
  /** Times at which it looks again, epoch ms. */
  readonly #alarms = new Set<number>();

  constructor(world: World, options: KueueOptions) {
    this.#world = world;
    this.#options = options;
    const { workloads, jobs, pods, admissionChecks, clusterQueues } = RESOURCE;
    const watches = [workloads, jobs, pods, admissionChecks, clusterQueues];
    actor(world, { watches, reactMs: [50, 400], everyMs: 15_000 }, () => this.#round());
  }

  workloads(): Raw[] {
    return this.#world.store.list(RESOURCE.workloads);
  }

  /** Takes the quota of a gang back: its checks begin anew, and its Pods go before the quota does. */
  evict(workload: Raw, reason: EvictionReason): boolean {
    if (reservedAt(workload) === undefined || holds(workload, 'Evicted') || holds(workload, 'Finished')) return false;
    this.#status(workload, {
      conditions: withConditions(this.#world, workload, { type: 'Evicted', status: 'True', reason }),
      ...(checks(workload).length > 0 ? { admissionChecks: resetChecks(workload, now(this.#world)) } : {}),
      schedulingStats: withEviction(workload, reason),
    });
    this.#suspend(workload, true);
    return true;
  }

  /** Writes the checks as an older copy has them: Kueue applies what is in its cache. */
  writeStale(workload: Raw): boolean {
    if (reservedAt(workload) !== undefined || checks(workload).every((c) => c['state'] === 'Pending')) return false;
    this.#status(workload, { admissionChecks: checks(workload).map((c) => ({ ...c, ...pending(now(this.#world)) })) });
    return true;
  }

  #round(): void {
    for (const job of this.#world.store.list(RESOURCE.jobs)) this.#adopt(job);
    const required = this.#requiresCheck();
    for (const workload of this.workloads()) this.#tend(workload, required);
    if (this.#queueIsActive(required)) this.#reserve();
    for (const workload of this.workloads()) this.#admit(workload);
  }

  #adopt(job: Raw): void {
    const { metadata } = job;
    if (metadata.labels?.[EXTRA.queue] === undefined || metadata.deletionTimestamp !== undefined || holds(job, 'Complete'))
      return;
    if (this.workloads().some((w) => ownedBy(w, metadata.uid))) return;
    const { name, namespace = '', uid = '' } = metadata;
    this.#world.store.create(RESOURCE.workloads, {
      apiVersion: '',
      kind: 'Workload',
      metadata: {
        name: `job-${name}-${uid.slice(-4)}`,
        namespace,
        annotations: gatesOf(job) === undefined ? {} : { [EXTRA.gates]: gatesOf(job) },
        ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid, controller: true, blockOwnerDeletion: true }],
      },
      spec: {
        queueName: metadata.labels[EXTRA.queue],
        active: true,
        priority: Number(metadata.labels[EXTRA.priority] ?? 0),
        podSets: [{ name: 'main', count: at(job, 'spec')['parallelism'], template: at(job, 'spec', 'template') }],
      },
    } as Raw);
  }

  /** Follows one Workload: its checks, the end of its job, and what an eviction leaves to do. */
  #tend(workload: Raw, required: boolean): void {
    if (holds(workload, 'Finished')) return;
    const job = this.#jobOf(workload);
    if (job !== undefined && gatesOf(job) !== gatesOf(workload)) this.#copyGates(job, workload);
    if (job !== undefined && holds(job, 'Complete')) {
      this.#condition(workload, { type: 'Finished', status: 'True', reason: 'Succeeded' });
      return;
    }
    if (!isActive(workload) && this.evict(workload, 'Deactivated')) return;
    if (holds(workload, 'Evicted') && reservedAt(workload) !== undefined) return this.#takeBack(workload);
    if (this.#backsOff(workload) || this.#requeue(workload) || this.#sentBack(workload, required)) return;
    this.#podsReady(workload, job);
  }

  /** Asks the checks of the queue, also about gangs that run, and does what one says that wants the gang back in the queue. */
  #sentBack(workload: Raw, required: boolean): boolean {
    const has = checks(workload).length > 0;
    if (required !== has) this.#status(workload, { admissionChecks: required ? [pending(now(this.#world))] : null });
    else if (checks(workload).some((c) => c['state'] === 'Retry')) return this.evict(workload, 'AdmissionCheck');
    return false;
  }

  /**
   * A check that says Retry with a time which is still to come: that is written down first, and until it is over nothing else is done
   * for the gang. It keeps its quota meanwhile, as in Kueue 0.19.
   */
  #backsOff(workload: Raw): boolean {
    const { now: at } = this.#world.timeline;
    const [wanted, known] = [retryEnd(workload), requeueAt(workload)];
    if (wanted !== undefined && wanted > at && (known === undefined || known < wanted)) {
      this.#status(workload, { requeueState: { requeueAt: seconds(wanted) } });
      return true;
    }
    if (!isActive(workload) || known === undefined || known <= at) return false;
    this.#wakeAt(known);
    return true;
  }

  /** Puts a gang that lost its quota back into the queue, once its time is over. */
  #requeue(workload: Raw): boolean {
    if (reservedAt(workload) !== undefined) return false;
    // Kueue gives those up that are not active any more, and forgets their times.
    const over = requeueAt(workload) === undefined ? {} : { requeueState: null };
    const waits = isActive(workload) && conditionOf(workload, 'Requeued')?.status === 'False';
    const reason = evictionReason(workload) === 'Deactivated' ? 'Reactivated' : 'BackoffFinished';
    const conditions = withConditions(this.#world, workload, { type: 'Requeued', status: 'True', reason });
    if (waits) this.#status(workload, { ...over, conditions });
    else if ('requeueState' in over) this.#status(workload, over);
    else return false;
    return true;
  }

  #wakeAt(at: number): void {
    if (this.#alarms.has(at)) return;
    this.#alarms.add(at);
    this.#world.timeline.after(at - this.#world.timeline.now, () => {
      this.#alarms.delete(at);
      this.#round();
    });
  }

  #copyGates(job: Raw, workload: Raw): void {
    const body = { metadata: { annotations: { [EXTRA.gates]: gatesOf(job) ?? null } } };
    this.#world.store.patch(RESOURCE.workloads, nameOf(workload), { type: 'merge', body });
  }

  /** The quota comes back once no Pod is left. */
  #takeBack(workload: Raw): void {
    const uid = controllerUidOf(workload);
    if (this.#world.store.list(RESOURCE.pods).some((p) => ownedBy(p, uid) && !ended(p))) return;
    const none = { status: 'False', reason: 'Pending' } as const;
    const reason = evictionReason(workload) ?? '';
    this.#status(workload, {
      conditions: withConditions(
        this.#world,
        workload,
        { type: 'QuotaReserved', ...none },
        // Of a gang that was never admitted Kueue says nothing.
        ...(holds(workload, 'Admitted') ? [{ type: 'Admitted', ...none } as const] : []),
        ...(this.#options.waitForPodsReady ? [{ type: 'PodsReady', ...none } as const] : []),
        // Who had to make room is in the queue again at once.
        { type: 'Requeued', status: reason === 'Preempted' ? 'True' : 'False', reason },
      ),
      admission: null,
      ...(holds(workload, 'Admitted') ? { accumulatedPastExecutionTimeSeconds: 0 } : {}),
    });
  }

  #podsReady(workload: Raw, job: Raw | undefined): void {
    if (!this.#options.waitForPodsReady) return;
    if (!holds(workload, 'Admitted') || holds(workload, 'PodsReady') || job === undefined) return;
    const pods = this.#world.store.list(RESOURCE.pods).filter((p) => ownedBy(p, job.metadata.uid));
    const begun = pods.filter((p) => ['Running', 'Succeeded'].includes(String(at(p, 'status')['phase'])));
    if (begun.length >= Number(at(job, 'spec')['parallelism']))
      this.#condition(workload, { type: 'PodsReady', status: 'True', reason: 'Started' });
  }

  #reserve(): void {
    const all = this.workloads().filter((w) => !holds(w, 'Finished'));
    const holding = all.filter((w) => reservedAt(w) !== undefined);
    let free = this.#options.slots - holding.reduce((sum, w) => sum + countOf(w), 0);
    const line = all
      .filter(
        (w) => reservedAt(w) === undefined && isActive(w) && gatesOf(w) === undefined && isQueued(w, this.#world.timeline.now),
      )
      .sort(byQueue);
    for (const workload of line) {
      const count = countOf(workload);
      if (count <= free) {
        free -= count;
        this.#give(workload);
      } else if (workload === line[0] && this.#preempt(workload, holding, count - free)) {
        // What others make room for counts as taken, as in Kueue: one of them would be given it, and preempted again, for ever.
        return;
      }
    }
  }

  #give(workload: Raw): void {
    const { name, count } = records(at(workload, 'spec')['podSets'])[0] ?? {};
    this.#status(workload, {
      conditions: withConditions(
        this.#world,
        workload,
        { type: 'QuotaReserved', status: 'True', reason: 'QuotaReserved' },
        ...(holds(workload, 'Evicted') ? [{ type: 'Evicted', status: 'False', reason: 'QuotaReserved' } as const] : []),
      ),
      admission: { clusterQueue: CLUSTER_QUEUE, podSetAssignments: [{ name, count, flavors: { cpu: FLAVOR } }] },
    });
  }

  /** Gangs of lower priority make room, the youngest reservation first; false where they cannot. */
  #preempt(workload: Raw, holding: readonly Raw[], missing: number): boolean {
    const victims = holding
      .filter((w) => priorityOf(w) < priorityOf(workload))
      .sort((a, b) => (reservedAt(b) ?? 0) - (reservedAt(a) ?? 0));
    const room = victims.reduce((sum, w) => sum + countOf(w), 0);
    if (room < missing) return false;
    if (holding.some((w) => holds(w, 'Evicted'))) return true;
    for (let got = 0; got < missing;) {
      const victim = victims.shift();
      if (victim === undefined) break;
      got += countOf(victim);
      this.evict(victim, 'Preempted');
    }
    return true;
  }

  #admit(workload: Raw): void {
    if (reservedAt(workload) === undefined || ['Evicted', 'Finished'].some((t) => holds(workload, t))) return;
    if (!isActive(workload) || checks(workload).some((c) => c['state'] !== 'Ready')) return;
    if (!holds(workload, 'Admitted')) this.#condition(workload, { type: 'Admitted', status: 'True', reason: 'Admitted' });
    this.#suspend(workload, false);
  }

  #suspend(workload: Raw, suspend: boolean): void {
    const job = this.#jobOf(workload);
    if (job === undefined || at(job, 'spec')['suspend'] === suspend || holds(job, 'Complete')) return;
    const selector = suspend ? null : { pool: 'h100' };
    const body = { spec: { suspend, template: { spec: { nodeSelector: selector } } } };
    this.#world.store.patch(RESOURCE.jobs, nameOf(job), { type: 'merge', body });
  }

  #requiresCheck(): boolean {
    const queue = this.#world.store.find(RESOURCE.clusterQueues, { name: CLUSTER_QUEUE });
    return queue !== undefined && records(at(queue, 'spec', 'admissionChecksStrategy')['admissionChecks']).length > 0;
  }

  /** A check that is missing or inactive stops every reservation. */
  #queueIsActive(required: boolean): boolean {
    const check = this.#world.store.find(RESOURCE.admissionChecks, { name: CHECK });
    return !required || (check !== undefined && holds(check, 'Active'));
  }

  #jobOf(workload: Raw): Raw | undefined {
    const uid = controllerUidOf(workload);
    return this.#world.store.list(RESOURCE.jobs).find((j) => j.metadata.uid === uid);
  }

  #condition(workload: Raw, draft: ConditionDraft): void {
    this.#status(workload, { conditions: withConditions(this.#world, workload, draft) });
  }

  #status(workload: Raw, status: object): void {
    writeStatus(this.#world, RESOURCE.workloads, workload, status);
  }
}

const gatesOf = ({ metadata }: Raw): string | undefined => metadata.annotations?.[EXTRA.gates];
const countOf = (workload: Raw): number => Number(records(at(workload, 'spec')['podSets'])[0]?.['count'] ?? 0);
const priorityOf = (workload: Raw): number => Number(at(workload, 'spec')['priority'] ?? 0);
const ended = (pod: Raw): boolean => ['Succeeded', 'Failed'].includes(String(at(pod, 'status')['phase']));

function byQueue(a: Raw, b: Raw): number {
  return (
    priorityOf(b) - priorityOf(a) || queuedSince(a) - queuedSince(b) || ((a.metadata.uid ?? '') < (b.metadata.uid ?? '') ? -1 : 1)
  );
}
