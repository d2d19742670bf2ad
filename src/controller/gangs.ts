import { isTrue } from '../api/conditions.js';
import type { Gang } from '../gangs/shape.js';
import type { Result } from '../kube/work-queue.js';
import { Terminal } from '../kube/work-queue.js';
import { isForbidden, isInvalid } from '../kube/errors.js';
import type { Actuator } from './actions.js';
import type { Caches } from './caches.js';
import type { GangSnapshot } from './decide-gang.js';
import { decideGang } from './decide-gang.js';
import type { GangViews } from './gang-views.js';

export interface GangReconcilerOptions {
  caches: Caches;
  views: GangViews;
  actuator: Actuator;
  mode: () => 'On' | 'Observe' | 'Off';
}

/** Keeps one ImagePrewarm per opted-in gang as it should be. Key: that of the Workload. */
export class GangReconciler {
  readonly #options: GangReconcilerOptions;

  constructor(options: GangReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const { caches, actuator, mode } = this.#options;
    const gang = caches.workloads.get(key)?.gang;
    // Objects cannot be made in a namespace that is going; its ImagePrewarms go with it.
    if (gang === undefined || mode() === 'Off' || caches.namespaces.get(gang.namespace)?.terminating === true) return {};
    const decision = decideGang(this.#snapshot(gang));
    if (decision.do === 'keep') return {};
    try {
      await actuator.perform({ type: 'apply-prewarm', object: decision.object });
    } catch (error) {
      if (!isForbidden(error) && !isInvalid(error)) throw error;
      throw new Terminal(`cannot record what ${gang.ref.kind} ${gang.namespace}/${gang.ref.name} needs warm: ${(error as Error).message}`, { cause: error });
    }
    return {};
  }

  #snapshot(gang: Gang): GangSnapshot {
    const { caches, views } = this.#options;
    const existing = views.prewarmOf(gang);
    const queue = caches.clusterQueues.get(views.clusterQueueOf(gang) ?? '');
    return {
      gang,
      optIn: views.optInOf(gang),
      queueFlavors: (queue?.flavors ?? []).map((name) => caches.flavors.get(name)).filter((f) => f !== undefined),
      flavors: new Map(caches.flavors.list().map((f) => [f.name, f])),
      existing: existing === undefined ? undefined : { spec: existing.spec, released: isTrue(existing.status?.conditions, 'Released') },
    };
  }
}
