import type { ImagePrewarm } from '../api/kinds/index.js';
import { validDeadline } from '../gangs/hold.js';
import type { OptIn } from '../gangs/opt-in.js';
import { optIn } from '../gangs/opt-in.js';
import { templateFacts } from '../gangs/pod-templates.js';
import type { Gang } from '../gangs/shape.js';
import { present } from '../api/json.js';
import type { Caches } from './caches.js';
import { prewarmName } from './decide-gang.js';
import type { WorkloadView } from './gang-sources/kueue.js';
import type { GangView } from './prewarm/snapshot.js';

/** Answers about gangs that need several caches at once. */
export class GangViews {
  readonly #caches: Caches;

  constructor(caches: Caches) {
    this.#caches = caches;
  }

  optInOf(gang: Gang): OptIn {
    const { jobs, namespaces } = this.#caches;
    return optIn({
      workload: gang.annotations,
      job: jobs.byIndex('uid', gang.ref.uid)[0]?.annotations,
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

  /** The Workload of an ImagePrewarm's job. After a requeue there may be two for a moment: the unfinished one counts. */
  workloadOf(prewarm: ImagePrewarm): WorkloadView | undefined {
    const uid = prewarm.spec.gangRef?.uid;
    const found = uid === undefined ? [] : this.#caches.workloads.byIndex('job', uid);
    return found.find((w) => !w.gang.state.finished) ?? found[0];
  }

  /**
   * @param positions places in queues by key of the Workload
   * @param intendedReady whether a write of ours that the cache does not show yet makes its check Ready
   */
  viewOf(workload: WorkloadView, positions: ReadonlyMap<string, number>, intendedReady: boolean): GangView {
    const own = new Set(this.#caches.ownChecks().map((c) => c.name));
    const checks = workload.hold.checks.filter((c) => own.has(c.name));
    return present<GangView>({
      gang: workload.gang,
      optIn: this.optInOf(workload.gang),
      checkReady: intendedReady || checks.some((c) => c.state === 'Ready'),
      checked: checks.length > 0,
      deadline: validDeadline(workload.hold),
      position: positions.get(workload.key),
    });
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
