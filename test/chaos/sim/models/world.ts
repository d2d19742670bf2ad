import type { Resource } from '../../../../src/kube/resources.js';
import { RESOURCE } from '../../../../src/kube/resources.js';
import type { ImageTruth, PullTruth, Raw, Silence } from '../../invariants/history.js';
import type { Random } from '../random.js';
import { seconds, type Store, type Stored } from '../store/store.js';
import type { Timeline } from '../timeline.js';
import type { SimRegistry } from './registry.js';

/** Names that only the models use. */
export const EXTRA = {
  priority: 'test/priority',
  queue: 'kueue.x-k8s.io/queue-name',
  /** Names of those who have to let a job go before Kueue looks at it. */
  gates: 'kueue.x-k8s.io/admission-gated-by',
} as const;

/** What people wrote into DaemonSets of pullers, whose pulls no planner has granted. */
export interface ByHand {
  /** Nodes, by UID of the set, that have no Pod of it yet. */
  nodes: Map<string, Set<string>>;
  /** UIDs of the Pods that followed. */
  pods: Set<string>;
}

/** What all models of a simulated cluster share. */
export interface World {
  timeline: Timeline;
  store: Store;
  random: Random;
  registry: SimRegistry;
  /** What machines really had and did. */
  images: ImageTruth[];
  pulls: PullTruth[];
  silences: Silence[];
  byHand: ByHand;
  /** Adds a line to the trace. */
  note: (line: string) => void;
}

export const NS = 'team';
export const SYSTEM = 'harbinger-system';
export const CHECK = 'images';
export const CLUSTER_QUEUE = 'cq';
export const LOCAL_QUEUE = 'gang';
export const FLAVOR = 'h100';
export const POOL = { pool: 'h100' } as const;

export interface ActorOptions {
  /** Plural names of what it watches. */
  watches: readonly Resource[];
  /** How long it takes to react, ms. */
  reactMs: readonly [number, number];
  /** Runs this often even if nothing changed, ms. */
  everyMs?: number;
  only?: (change: Stored) => boolean;
}

/** A control loop: runs a while after something that it watches has changed; changes meanwhile are one run. */
export function actor(world: World, options: ActorOptions, run: () => void): void {
  const kinds = new Set(options.watches.map((r) => r.kind));
  const random = world.random.fork();
  let due = false;
  const soon = (): void => {
    if (due) return;
    due = true;
    world.timeline.after(random.int(...options.reactMs), () => {
      due = false;
      run();
    });
  };
  world.store.onChange((change) => {
    if (kinds.has(change.object.kind) && options.only?.(change) !== false) soon();
  });
  const again = (): void => {
    soon();
    if (options.everyMs !== undefined) world.timeline.after(options.everyMs, again);
  };
  again();
}

export const now = (world: World): string => seconds(world.timeline.now);

/** Writes the status of an object by a merge patch; nothing where it is gone. */
export function writeStatus(world: World, resource: Resource, object: Raw, status: object): void {
  const found = world.store.find(resource, object.metadata);
  if (found === undefined || found.metadata.uid !== object.metadata.uid) return;
  world.store.patch(resource, nameOf(object), { type: 'merge', body: { status } }, 'status');
}

export function nameOf({ metadata: { namespace, name } }: Raw): { namespace?: string; name: string } {
  return namespace === undefined ? { name } : { namespace, name };
}

export interface ConditionDraft {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason: string;
  message?: string;
}

/** Conditions with some of them set; a transition time moves only with the status. */
export function withConditions(world: World, object: Raw, ...drafts: ConditionDraft[]): object[] {
  const before = (
    (object['status'] as { conditions?: (ConditionDraft & { lastTransitionTime: string })[] } | undefined)?.conditions ?? []
  ).map((c) => ({ ...c }));
  for (const draft of drafts) {
    const old = before.find((c) => c.type === draft.type);
    const since = old?.status === draft.status ? old.lastTransitionTime : now(world);
    const next = { message: '', ...draft, lastTransitionTime: since };
    if (old === undefined) before.push(next);
    else Object.assign(old, next);
  }
  return before;
}

export const ownedBy = (object: Raw, uid: string | undefined): boolean =>
  uid !== undefined && object.metadata.ownerReferences?.some((o) => o.uid === uid && o.controller === true) === true;

/** Deletes an object if it is still the one that was meant. */
export function remove(world: World, resource: Resource, object: Raw): void {
  if (world.store.find(resource, object.metadata)?.metadata.uid === object.metadata.uid)
    world.store.delete(resource, nameOf(object));
}

export { RESOURCE };
