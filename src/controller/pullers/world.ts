import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { HarbingerConfig } from '../../config/schema.js';
import { hangsAfterMs, pullDeadlineMs } from '../../preheat/deadline.js';
import type { PullerPod } from '../../preheat/evidence.js';
import { pullState } from '../../preheat/evidence.js';
import type { Standing } from '../../preheat/ownership.js';
import { pullerOfSet, standingOf } from '../../preheat/ownership.js';
import type { World } from '../../preheat/planner.js';
import type { Puller } from '../../preheat/puller.js';
import type { Orphan, PullerSet } from '../../preheat/world.js';
import { buildWorld, POD_GRACE_MS } from '../../preheat/world.js';
import type { Caches } from '../caches.js';
import type { FailingWrite } from './failing-writes.js';
import { withFailing } from './failing-writes.js';
import { pullersOf } from './planning.js';
import { PodPullers } from './pod-pullers.js';
import type { ReadRejection } from './rejections.js';
import { latestOf } from './rejections.js';

export interface PullerWorldOptions {
  caches: Caches;
  config: () => HarbingerConfig;
  /** Epoch ms, as far as the machine knows. */
  now: () => number;
  /** Milliseconds that never jump. */
  monotonic: () => number;
  /** The DaemonSets of pullers, with our own writes that the cache does not show yet. */
  sets: () => PullerSet[];
  /** Harbinger's own. */
  namespace: string;
  readRejection: ReadRejection;
  /** Sets that cannot be written for now; absent: none. */
  failing?: () => readonly FailingWrite[];
}

/** How long what was read of a set in a tenant's namespace is believed, ms. */
const REJECTION_MS = 15_000;

/** Puts together what is known of pulls, with what only time tells: since when Pods are missing, and pulls that lost theirs. */
export class PullerWorld {
  readonly #options: PullerWorldOptions;
  // All times kept here are of the clock that never jumps: one that was set forward by hours would end every wait at once, and what
  // flows would be forgotten.
  #orphans: (Omit<Orphan, 'leftMs'> & { until: number })[] = [];
  /** Since when a Pod is known, by UID; lost at a restart, after which a pull keeps its place for longer. */
  readonly #watched = new Map<string, number>();
  /** Since when a covered node has no Pod, by hash and node. */
  readonly #missing = new Map<string, number>();
  readonly #rejections = new Map<string, { at: number; note: string | undefined }>();
  /**
   * Hashes of pullers of tenants that were on record while this process looked, of sets that are still there: what they pull goes on.
   * After a restart only what is on record counts, since anything that the set itself says its tenant may have written.
   */
  readonly #known = new Set<string>();
  readonly #podPullers: PodPullers;
  /** Of the latest picture. */
  #pullers: ReadonlyMap<string, Puller> = new Map();

  constructor(options: PullerWorldOptions) {
    this.#options = options;
    this.#podPullers = new PodPullers(options.namespace);
    options.caches.pods.onChange((_key, now, before) => {
      if (now !== undefined) this.#podPullers.note(now);
      else if (before !== undefined) this.#orphaned(before);
    });
  }

  /** @param refused why the API server refuses the sets of a puller, by hash */
  async look(refused: ReadonlyMap<string, string>): Promise<World> {
    const { caches, config, namespace } = this.#options;
    const now = this.#options.monotonic();
    this.#orphans = this.#orphans.filter((o) => now < o.until);
    const all = this.#options.sets();
    const standings = this.#standings(all, refused);
    const standing = (set: PullerSet): Standing => standings.get(set) ?? 'none';
    const sets = all.filter((s) => standing(s) !== 'none');
    const named = sets.filter((s) => standing(s) === 'named');
    this.#noteMissing(named, now);
    const pods = caches.pods.list();
    this.#noteWatched(pods, now);
    const bytes = bytesOf(caches.prewarms.list());
    const failing = this.#options.failing?.() ?? [];
    const world = buildWorld({
      nodes: caches.nodes.list(),
      sets,
      standing,
      pods,
      leftovers: this.#podPullers.look({ sets: all, counting: sets, pods, bytes }, now),
      orphans: [
        ...this.#orphans.map((o) => ({ ...o, leftMs: o.until - now })),
        // The next try may be the one that is done.
        ...failing.flatMap(({ set }) => pullsOf(set, set.nodes, { namespace, bytes })),
        // What a set says stands for nothing any more; what was sent is ours to know.
        ...all.filter((s) => standing(s) !== 'named').flatMap((s) => pullsOf(s, s.doubtful ?? [], { namespace, bytes })),
      ],
      bytes,
      rates: config().budgets,
      now: this.#options.now(),
      watchedMs: (uid) => now - (this.#watched.get(uid) ?? now),
      namespace,
      missingForMs: (hash, node) => now - (this.#missing.get(`${hash}/${node}`) ?? now),
      refused,
      rejections: await this.#rejected(named, now),
    });
    this.#pullers = world.pullers;
    return withFailing(world, failing);
  }

  #standings(sets: readonly PullerSet[], refused: ReadonlyMap<string, string>): Map<PullerSet, Standing> {
    const { caches, namespace } = this.#options;
    const recorded = recordedTenants(caches.prewarms.list());
    const there = new Set(sets.map((s) => s.hash));
    for (const hash of recorded) if (there.has(hash)) this.#known.add(hash);
    for (const hash of this.#known) if (!there.has(hash)) this.#known.delete(hash);
    const ground = { namespace, recorded, known: this.#known, refused };
    return new Map(sets.map((s) => [s, standingOf(s, ground)]));
  }

  #noteWatched(pods: readonly PullerPod[], now: number): void {
    const uids = new Set(pods.map((p) => p.uid));
    for (const uid of this.#watched.keys()) if (!uids.has(uid)) this.#watched.delete(uid);
    for (const uid of uids) if (!this.#watched.has(uid)) this.#watched.set(uid, now);
  }

  /** Lost at a restart, after which the wait merely begins anew. */
  #noteMissing(sets: readonly PullerSet[], now: number): void {
    const { caches } = this.#options;
    const hashes = new Map(sets.map((s) => [`${s.namespace}/${s.uid}`, s.hash]));
    const present = new Set(caches.pods.list().map((p) => `${hashes.get(`${p.namespace}/${p.ownerUid ?? ''}`) ?? ''}/${p.node}`));
    const covered = new Set(
      sets.flatMap((s) => s.nodes.filter((n) => s.doubtful?.includes(n) !== true).map((n) => `${s.hash}/${n}`)),
    );
    for (const key of this.#missing.keys()) {
      if (!present.has(key) && !covered.has(key)) this.#uncovered(key, now);
      if (present.has(key) || !covered.has(key)) this.#missing.delete(key);
    }
    for (const key of covered) if (!present.has(key) && !this.#missing.has(key)) this.#missing.set(key, now);
  }

  /** A node that is let go before its Pod was seen may have been given one just then: it counts until that would be known. */
  #uncovered(key: string, now: number): void {
    const [hash = '', node = ''] = key.split('/');
    const puller = this.#pullers.get(hash);
    if (puller !== undefined) this.#orphans.push({ hash, node, puller, until: now + POD_GRACE_MS });
  }

  /** What the DaemonSet controller complains about: followed in our own namespace, asked for in those of tenants once Pods are overdue. */
  async #rejected(sets: readonly PullerSet[], now: number): Promise<Map<string, string>> {
    const { caches, namespace } = this.#options;
    const notes = new Map<string, string>();
    for (const set of sets) {
      const own = set.namespace === namespace;
      const note = own ? latestOf(caches.rejections.byIndex('set', set.uid))?.note : await this.#asked(set, now);
      if (note !== undefined) notes.set(`${set.namespace}/${set.name}`, note);
    }
    for (const key of this.#rejections.keys()) if (!notes.has(key)) this.#rejections.delete(key);
    return notes;
  }

  async #asked(set: PullerSet, now: number): Promise<string | undefined> {
    if (!this.#isOverdue(set, now)) return undefined;
    const key = `${set.namespace}/${set.name}`;
    const last = this.#rejections.get(key);
    if (last !== undefined && now - last.at < REJECTION_MS) return last.note;
    const note = await this.#options.readRejection(set);
    this.#rejections.set(key, { at: now, note });
    return note;
  }

  #isOverdue(set: PullerSet, now: number): boolean {
    return set.nodes.some((n) => now - (this.#missing.get(`${set.hash}/${n}`) ?? now) >= POD_GRACE_MS);
  }

  /** A Pod that went in mid-pull leaves a pull behind (seen); ours are never deleted then, but others delete Pods too. */
  #orphaned(pod: PullerPod): void {
    const { caches, config } = this.#options;
    const puller = this.#podPullers.of(pod);
    const node = caches.nodes.get(pod.node);
    if (puller === undefined || node === undefined) return;
    const deadlineMs = pullDeadlineMs(puller.bytes, config().budgets);
    const now = this.#options.monotonic();
    const at = { now: this.#options.now(), deadlineMs, watchedMs: now - (this.#watched.get(pod.uid) ?? now) };
    if (!pullState(puller, { ...pod, deleting: false }, node, at).inFlight) return;
    const ranMs = Math.min(Math.max(0, at.now - pod.createdAt), at.watchedMs);
    const endMs = ranMs < deadlineMs ? deadlineMs : hangsAfterMs(deadlineMs);
    // A standby never looks, and hears of Pods all the same.
    this.#orphans = this.#orphans.filter((o) => now < o.until);
    this.#orphans.push({ hash: puller.hash, node: pod.node, puller, until: now + endMs - ranMs });
  }
}

/** Pulls of a set that may run on some nodes, as far as this look knows. */
function pullsOf(
  set: PullerSet,
  nodes: readonly string[],
  { namespace, bytes }: { namespace: string; bytes: ReadonlyMap<string, number> },
): Orphan[] {
  const puller = pullerOfSet(set, namespace, bytes.get(set.image));
  return puller === undefined ? [] : nodes.map((node) => ({ hash: set.hash, node, puller, leftMs: POD_GRACE_MS }));
}

/**
 * Compressed bytes by image. The most that any record says: one whose registry did not tell must not shorten the deadlines of others,
 * and no two that were told differ for one digest.
 */
function bytesOf(prewarms: readonly ImagePrewarm[]): Map<string, number> {
  const most = new Map<string, number>();
  for (const { status } of prewarms)
    for (const { images } of status?.targets ?? [])
      for (const { resolved = '', sizeBytes = 0 } of images) most.set(resolved, Math.max(sizeBytes, most.get(resolved) ?? 0));
  return most;
}

/** Hashes of the pullers of tenants that ImagePrewarms have on record. */
function recordedTenants(prewarms: readonly ImagePrewarm[]): Set<string> {
  const pullers = prewarms.flatMap((p) => p.spec.targets.flatMap((t) => pullersOf(p, t)));
  return new Set(pullers.flatMap((p) => (p?.tenant === undefined ? [] : [p.hash])));
}
