import type { HarbingerConfig } from '../config/schema.js';
import { pullDeadlineMs } from '../preheat/deadline.js';
import type { PullerPod } from '../preheat/evidence.js';
import { pullState } from '../preheat/evidence.js';
import { isOurs } from '../preheat/ownership.js';
import type { World } from '../preheat/planner.js';
import type { Puller } from '../preheat/puller.js';
import type { Orphan, PullerSet } from '../preheat/world.js';
import { buildWorld, POD_GRACE_MS } from '../preheat/world.js';
import type { Caches } from './caches.js';
import type { ReadRejection } from './puller-rejections.js';

export interface PullerWorldOptions {
  caches: Caches;
  config: () => HarbingerConfig;
  now: () => number;
  /** The DaemonSets of pullers, with our own writes that the cache does not show yet. */
  sets: () => PullerSet[];
  /** Harbinger's own. */
  namespace: string;
  readRejection: ReadRejection;
}

/** How long what was read of a set in a tenant's namespace is believed, ms. */
const REJECTION_MS = 15_000;

/** Puts together what is known of pulls, with what only time tells: since when Pods are missing, and pulls that lost theirs. */
export class PullerWorld {
  readonly #options: PullerWorldOptions;
  #orphans: (Orphan & { seenAt: number })[] = [];
  /** Since when a covered node has no Pod, by hash and node. */
  readonly #missing = new Map<string, number>();
  readonly #rejections = new Map<string, { at: number; note: string | undefined }>();
  /** Of the latest picture. */
  #pullers: ReadonlyMap<string, Puller> = new Map();

  constructor(options: PullerWorldOptions) {
    this.#options = options;
    options.caches.pods.onChange((_key, now, before) => {
      if (now === undefined && before !== undefined) this.#orphaned(before);
    });
  }

  /** @param refused why the API server refuses the sets of a puller, by hash */
  async look(refused: ReadonlyMap<string, string>): Promise<World> {
    const { caches, config, namespace } = this.#options;
    const now = this.#options.now();
    const records = caches.prewarms
      .list()
      .flatMap((p) => p.status?.targets ?? [])
      .flatMap((t) => t.images);
    // Those of the future are of a clock that was set back; kept, they would count until it has caught up.
    this.#orphans = this.#orphans.filter((o) => o.seenAt <= now && now < o.until);
    const sets = this.#options.sets().filter((s) => isOurs(s, namespace));
    this.#noteMissing(sets, now);
    const world = buildWorld({
      nodes: caches.nodes.list(),
      sets,
      pods: caches.pods.list(),
      orphans: this.#orphans,
      bytes: new Map(records.map((i) => [i.resolved ?? '', i.sizeBytes ?? 0])),
      rates: config().budgets,
      now,
      namespace,
      missingForMs: (hash, node) => now - (this.#missing.get(`${hash}/${node}`) ?? now),
      refused,
      rejections: await this.#rejected(sets, now),
    });
    this.#pullers = world.pullers;
    return world;
  }

  /** Lost at a restart, after which the wait merely begins anew. */
  #noteMissing(sets: readonly PullerSet[], now: number): void {
    const { caches } = this.#options;
    const hashes = new Map(sets.map((s) => [`${s.namespace}/${s.uid}`, s.hash]));
    const present = new Set(caches.pods.list().map((p) => `${hashes.get(`${p.namespace}/${p.ownerUid ?? ''}`) ?? ''}/${p.node}`));
    const covered = new Set(sets.flatMap((s) => s.nodes.map((n) => `${s.hash}/${n}`)));
    for (const [key, since] of this.#missing) {
      if (!present.has(key) && !covered.has(key)) this.#uncovered(key, now);
      if (present.has(key) || !covered.has(key) || since > now) this.#missing.delete(key);
    }
    for (const key of covered) if (!present.has(key) && !this.#missing.has(key)) this.#missing.set(key, now);
  }

  /** A node that is let go before its Pod was seen may have been given one just then: it counts until that would be known. */
  #uncovered(key: string, now: number): void {
    const [hash = '', node = ''] = key.split('/');
    const puller = this.#pullers.get(hash);
    if (puller !== undefined) this.#orphans.push({ seenAt: now, hash, node, puller, until: now + POD_GRACE_MS });
  }

  /** What the DaemonSet controller complains about: followed in our own namespace, asked for in those of tenants once Pods are overdue. */
  async #rejected(sets: readonly PullerSet[], now: number): Promise<Map<string, string>> {
    const { caches, namespace } = this.#options;
    const notes = new Map<string, string>();
    for (const set of sets) {
      const own = set.namespace === namespace;
      const note = own ? caches.rejections.byIndex('set', set.name).at(-1)?.note : await this.#asked(set, now);
      if (note !== undefined) notes.set(`${set.namespace}/${set.name}`, note);
    }
    for (const key of this.#rejections.keys()) if (!notes.has(key)) this.#rejections.delete(key);
    return notes;
  }

  async #asked(set: PullerSet, now: number): Promise<string | undefined> {
    if (!this.#isOverdue(set, now)) return undefined;
    const key = `${set.namespace}/${set.name}`;
    const last = this.#rejections.get(key);
    if (last !== undefined && last.at <= now && now - last.at < REJECTION_MS) return last.note;
    const note = await this.#options.readRejection(set);
    this.#rejections.set(key, { at: now, note });
    return note;
  }

  #isOverdue(set: PullerSet, now: number): boolean {
    return set.nodes.some((n) => now - (this.#missing.get(`${set.hash}/${n}`) ?? now) >= POD_GRACE_MS);
  }

  /** A Pod that went in mid-pull leaves a pull behind (seen); ours are never deleted then, but others delete Pods too. */
  #orphaned(pod: PullerPod): void {
    const { caches, config, namespace } = this.#options;
    const puller = this.#pullers.get(pod.hash);
    const node = caches.nodes.get(pod.node);
    // A tenant can label Pods as it likes; they count in the namespace only in which the puller stands.
    if (puller === undefined || node === undefined || pod.namespace !== (puller.tenant?.namespace ?? namespace)) return;
    const deadlineMs = pullDeadlineMs(puller.bytes, config().budgets);
    const now = this.#options.now();
    const state = pullState(puller, { ...pod, deleting: false }, node, { now, deadlineMs });
    if (state.inFlight)
      this.#orphans.push({ seenAt: now, hash: pod.hash, node: pod.node, puller, until: pod.createdAt + deadlineMs });
  }
}
