import type { PullerPod } from '../../preheat/evidence.js';
import { pullerOfSet } from '../../preheat/ownership.js';
import type { Puller } from '../../preheat/puller.js';
import { pullerOf } from '../../preheat/puller.js';
import type { PullerSet } from '../../preheat/world.js';
import { POD_GRACE_MS } from '../../preheat/world.js';

/** What is known at the time of a look. */
interface Picture {
  /** All sets of pullers. */
  sets: readonly PullerSet[];
  /** Those of them whose Pods count. */
  counting: readonly PullerSet[];
  pods: readonly PullerPod[];
  /** Compressed bytes by image, as far as known. */
  bytes: ReadonlyMap<string, number>;
}

/**
 * What a Pod pulls, also when its DaemonSet is gone: a pull goes on whatever becomes of the set. In Harbinger's own namespace a Pod
 * says so itself. In those of tenants everybody may write what a Pod says, so there one counts that was seen while its set counted.
 */
export class PodPullers {
  readonly #own: string;
  /** By namespace and UID of a set that counts, or did a moment ago: word of its Pods may be late. */
  readonly #ofSets = new Map<string, { puller: Puller; until: number }>();
  /** By UID of a Pod, for as long as it is there. */
  readonly #ofPods = new Map<string, Puller>();
  #bytes: ReadonlyMap<string, number> = new Map();

  /** @param own Harbinger's own namespace */
  constructor(own: string) {
    this.#own = own;
  }

  /**
   * Takes note of a picture.
   * @param now milliseconds that never jump
   * @returns Pods whose set is gone and that count all the same
   */
  look({ sets, counting, pods, bytes }: Picture, now: number): { pod: PullerPod; puller: Puller }[] {
    this.#bytes = bytes;
    for (const [key, { until }] of this.#ofSets) if (now >= until) this.#ofSets.delete(key);
    for (const set of counting.filter((s) => s.uid !== '')) {
      const puller = pullerOfSet(set, this.#own, bytes.get(set.image));
      if (puller !== undefined) this.#ofSets.set(`${set.namespace}/${set.uid}`, { puller, until: now + POD_GRACE_MS });
    }
    const there = new Set(pods.map((p) => p.uid));
    for (const uid of this.#ofPods.keys()) if (!there.has(uid)) this.#ofPods.delete(uid);
    for (const pod of pods) this.note(pod);
    const owners = new Set(sets.filter((s) => s.uid !== '').map((s) => `${s.namespace}/${s.uid}`));
    return pods
      .filter((pod) => !owners.has(ownerOf(pod)))
      .flatMap((pod) => {
        const puller = this.of(pod);
        return puller === undefined ? [] : [{ pod, puller }];
      });
  }

  /** Hears of a Pod that is there. */
  note(pod: PullerPod): void {
    const known = this.#ofSets.get(ownerOf(pod));
    if (known !== undefined) this.#ofPods.set(pod.uid, known.puller);
  }

  /** What a Pod pulls that is or was there; undefined where it counts for nothing. */
  of(pod: PullerPod): Puller | undefined {
    return this.#ofPods.get(pod.uid) ?? (pod.namespace === this.#own ? this.#told(pod) : undefined);
  }

  #told({ hash, image = '', runtimeClassName }: PullerPod): Puller | undefined {
    const puller = pullerOf(image, { runtimeClassName, bytes: this.#bytes.get(image) });
    return puller?.hash === hash ? puller : undefined;
  }
}

function ownerOf({ namespace, ownerUid = '' }: PullerPod): string {
  return `${namespace}/${ownerUid}`;
}
