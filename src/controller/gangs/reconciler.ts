import { isTrue } from '../../api/conditions.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { kindName } from '../../gangs/kinds.js';
import type { Gang } from '../../gangs/shape.js';
import type { Result } from '../../kube/work-queue.js';
import type { Log } from '../../observe/log.js';
import type { Actuator } from '../actions.js';
import type { Caches } from '../caches.js';
import type { GangSnapshot } from './decide.js';
import { decideGang } from './decide.js';
import type { GangViews } from './views.js';
import { refusalOf } from '../pullers/refusal.js';

export interface GangReconcilerOptions {
  caches: Caches;
  views: GangViews;
  actuator: Actuator;
  config: () => Pick<HarbingerConfig, 'mode' | 'gangs'>;
  log: Log;
  /** Called with the key of a gang whose object is refused, or no longer: its check tells. */
  onRefusal: (key: string) => void;
}

/** A refused object is tried again after this time, ms: quotas and policies change without a word to us. */
const REFUSED_MS = 60_000;

/** What the configuration says that operators add to Pods of a gang, by podSet. */
export function operatorImagesOf({ ref }: Gang, { gangs }: Pick<HarbingerConfig, 'gangs'>): (podSet: string) => string[] {
  const kind = kindName({ kind: ref.kind, group: ref.apiGroup });
  const added = gangs.operatorImages.filter((a) => a.kind === kind);
  return (podSet) => added.flatMap((a) => (a.podSets === undefined || a.podSets.includes(podSet) ? a.images : []));
}

/** Keeps one ImagePrewarm per opted-in gang as it should be. Key: that of the gang. */
export class GangReconciler {
  readonly #options: GangReconcilerOptions;

  constructor(options: GangReconcilerOptions) {
    this.#options = options;
  }

  async reconcile(key: string): Promise<Result> {
    const { caches, views, actuator, config } = this.#options;
    const gang = views.gangOf(key);
    // Objects cannot be made in a namespace that is going; its ImagePrewarms go with it.
    if (gang === undefined || config().mode === 'Off' || caches.namespaces.get(gang.namespace)?.terminating === true)
      return this.#told(key, undefined);
    const decision = decideGang(this.#snapshot(gang));
    if (decision.do === 'keep' || !views.isCurrent(gang)) return this.#told(key, undefined);
    try {
      await actuator.perform({ type: 'apply-prewarm', object: decision.object });
    } catch (error) {
      const why = refusalOf(error);
      if (why === undefined) throw error;
      return this.#told(key, `what ${gang.ref.kind} ${gang.ref.name} needs warm cannot be recorded: ${why}`);
    }
    return this.#told(key, undefined);
  }

  /** Lets the check and the log say once why there is no record, and again only when the words change. */
  #told(key: string, refusal: string | undefined): Result {
    const { views, log, onRefusal } = this.#options;
    if (views.noteRefusal(key, refusal)) {
      if (refusal !== undefined) log.warn({ gang: key, refusal }, 'an ImagePrewarm is refused; its gang is not held for it');
      onRefusal(key);
    }
    return refusal === undefined ? {} : { after: REFUSED_MS };
  }

  #snapshot(gang: Gang): GangSnapshot {
    const { caches, views, config } = this.#options;
    const existing = views.prewarmOf(gang);
    const queue = caches.clusterQueues.get(views.clusterQueueOf(gang) ?? '');
    return {
      gang,
      optIn: views.optInOf(gang),
      queueFlavors: (queue?.flavors ?? []).map((name) => caches.flavors.get(name)).filter((f) => f !== undefined),
      flavors: new Map(caches.flavors.list().map((f) => [f.name, f])),
      nodes: {
        byHostname: (hostname) => caches.nodes.byIndex('hostname', hostname).map((n) => n.name),
        exists: (name) => caches.nodes.get(name) !== undefined,
      },
      replaced: views.replacedBy(gang),
      operatorImages: operatorImagesOf(gang, config()),
      existing:
        existing === undefined ? undefined : { spec: existing.spec, released: isTrue(existing.status?.conditions, 'Released') },
    };
  }
}
