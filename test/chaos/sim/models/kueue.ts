import { at, records, time } from '../../../../src/api/json.js';
import type { Raw } from '../../invariants/history.js';
import { controllerUidOf, holds, isActive, reservedAt } from '../../invariants/read.js';
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

export interface KueueOptions {
  /** Pods for which the queue has quota. */
  slots: number;
  /** Without it, as before Kueue 0.19, nothing in a Workload tells that its Pods run. */
  waitForPodsReady: boolean;
}

export type EvictionReason = 'Preempted' | 'PodsReadyTimeout' | 'Deactivated';

/** Kueue: makes Workloads, reserves quota in order of the queue, asks checks, admits, evicts and takes back. */
export class Kueue {
  readonly #world: World;
  readonly #options: KueueOptions;

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

  /** Takes the quota of a gang back: its Pods go first. */
  evict(workload: Raw, reason: EvictionReason): boolean {
    if (reservedAt(workload) === undefined || holds(workload, 'Evicted') || holds(workload, 'Finished')) return false;
    this.#condition(workload, { type: 'Evicted', status: 'True', reason });
    this.#suspend(workload, true);
    return true;
  }

  /** Writes the checks as an older copy has them: Kueue applies what is in its cache. */
  writeStale(workload: Raw): boolean {
    if (reservedAt(workload) !== undefined || checks(workload).every((c) => c['state'] === 'Pending')) return false;
    this.#status(workload, { admissionChecks: [pending(this.#world)] });
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
    const has = checks(workload).length > 0;
    if (required !== has) this.#status(workload, { admissionChecks: required ? [pending(this.#world)] : null });
    this.#podsReady(workload, job);
  }

  #copyGates(job: Raw, workload: Raw): void {
    const body = { metadata: { annotations: { [EXTRA.gates]: gatesOf(job) ?? null } } };
    this.#world.store.patch(RESOURCE.workloads, nameOf(workload), { type: 'merge', body });
  }

  /** The quota comes back once no Pod is left, and the checks begin anew. */
  #takeBack(workload: Raw): void {
    const uid = controllerUidOf(workload);
    if (this.#world.store.list(RESOURCE.pods).some((p) => ownedBy(p, uid) && !ended(p))) return;
    const none = { status: 'False', reason: 'Pending' } as const;
    this.#status(workload, {
      conditions: withConditions(
        this.#world,
        workload,
        { type: 'QuotaReserved', ...none },
        // Of a gang that was never admitted Kueue says nothing.
        ...(holds(workload, 'Admitted') ? [{ type: 'Admitted', ...none } as const] : []),
        ...(this.#options.waitForPodsReady ? [{ type: 'PodsReady', ...none } as const] : []),
        { type: 'Requeued', status: 'True', reason: 'BackoffFinished' },
      ),
      admission: null,
      ...(holds(workload, 'Admitted') ? { accumulatedPastExecutionTimeSeconds: 0 } : {}),
      admissionChecks: checks(workload).map(() => pending(this.#world)),
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
    const line = all.filter((w) => reservedAt(w) === undefined && isActive(w) && gatesOf(w) === undefined).sort(byQueue);
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

const checks = (workload: Raw) => records(at(workload, 'status')['admissionChecks']);
const pending = (world: World): object => ({ name: CHECK, state: 'Pending', message: '', lastTransitionTime: now(world) });
const gatesOf = ({ metadata }: Raw): string | undefined => metadata.annotations?.[EXTRA.gates];
const countOf = (workload: Raw): number => Number(records(at(workload, 'spec')['podSets'])[0]?.['count'] ?? 0);
const priorityOf = (workload: Raw): number => Number(at(workload, 'spec')['priority'] ?? 0);
const ended = (pod: Raw): boolean => ['Succeeded', 'Failed'].includes(String(at(pod, 'status')['phase']));

function byQueue(a: Raw, b: Raw): number {
  const born = (w: Raw): number => time(w.metadata.creationTimestamp) ?? 0;
  return priorityOf(b) - priorityOf(a) || born(a) - born(b) || ((a.metadata.uid ?? '') < (b.metadata.uid ?? '') ? -1 : 1);
}
