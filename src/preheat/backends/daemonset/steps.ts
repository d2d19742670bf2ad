import type { OwnerReference } from '../../../api/object.js';
import { isOurs } from '../../ownership.js';
import type { Plan } from '../../planner.js';
import type { Puller } from '../../puller.js';
import type { PullerSet } from '../../world.js';
import type { DaemonSet, ManifestOptions } from './manifest.js';
import { pullerLabels, pullerManifest, pullerSetName } from './manifest.js';
import { templatePrint } from './print.js';
import type { Shard } from './shards.js';
import { shardsOf } from './shards.js';

/** One change to the DaemonSets of pullers. */
export type EngineStep =
  | { do: 'create' | 'update'; hash: string; object: DaemonSet; image: string; nodes: number }
  | { do: 'delete'; set: { namespace: string; name: string; uid: string } };

/** What the API server made of a template that we sent: webhooks change it on the way, and fields of others stay in it. */
export interface Altered {
  /** Print of what was sent, and of what was stored. */
  sent: string;
  stored: string;
  by: 'create' | 'update';
}

export interface StepOptions extends ManifestOptions {
  /** Whether all pulls of an image failed and nothing of it is under way, so that making its Pods anew costs nothing. */
  idle?: (hash: string) => boolean;
  /** Whether sets that have their image by another method stay as they are; one that is edited would lose its warm copies. */
  keepMethod?: boolean;
  /** What became of a template on its way to the API server, if anything; see Engine. */
  altered?: (set: PullerSet) => Altered | undefined;
  /** ImagePrewarms that want a puller of a tenant, by hash. */
  owners?: ReadonlyMap<string, readonly OwnerReference[]>;
  /** Pullers, `namespace/hash`, that have Pods of a set that is gone: none is made under its name until those are on their way out. */
  ownerless?: ReadonlySet<string>;
}

/**
 * The steps from the sets that exist to those that the plan wants: the union of all grants, nothing else. Level-triggered and
 * pure: a set that nobody wants goes, one that was edited by hand is put right. What is not ours is not looked at.
 */
export function engineSteps(grants: Plan['grants'], sets: readonly PullerSet[], options: StepOptions): EngineStep[] {
  const byHash = new Map<string, PullerSet[]>();
  const ours = sets.filter((s) => isOurs(s, options.namespace));
  for (const set of ours) byHash.set(set.hash, [...(byHash.get(set.hash) ?? []), set]);
  const steps: EngineStep[] = [];
  const wanted = new Set<string>();
  for (const { puller, nodes } of grants.values()) {
    const homes = (byHash.get(puller.hash) ?? []).filter((s) => s.name === pullerSetName(puller, s.shard));
    for (const shard of shardsOf(nodes, homes)) {
      wanted.add(`${placeOf(puller, options)}/${pullerSetName(puller, shard.index)}`);
      const step = stepFor(puller, shard, options);
      if (step !== undefined) steps.push(step);
    }
  }
  for (const set of ours) {
    // A set of another name with our label is a stranger's or an older version's: nobody wants it either.
    if (!set.deleting && !wanted.has(`${set.namespace}/${set.name}`)) steps.push({ do: 'delete', set });
  }
  return steps;
}

function placeOf({ tenant }: Puller, options: StepOptions): string {
  return tenant?.namespace ?? options.namespace;
}

function stepFor(puller: Puller, { index, nodes, set }: Shard, asked: StepOptions): EngineStep | undefined {
  if (mustGoFirst(set, puller, asked)) return undefined;
  const options = withMethodOf(set, asked);
  if (set !== undefined && needsNewPods(puller, set, options)) return { do: 'delete', set };
  const owners = ownersOf(puller, options);
  if (set !== undefined && asWanted(set, { puller, nodes, owners, options })) return undefined;
  const object = pullerManifest(puller, nodes, options, { shard: index, owners });
  // It cannot be changed. One of an older version knows our Pods all the same.
  if (set !== undefined) object.spec.selector.matchLabels = { ...set.selector };
  // One that is gone must not come back by an edit that was made from an old cache, and one that is not the one we know not be taken over.
  if (set !== undefined) object.metadata.uid = set.uid;
  return { do: set === undefined ? 'create' : 'update', hash: puller.hash, object, image: puller.image, nodes: nodes.size };
}

/** Whether the set, or what one before it has left, is on its way out: nothing is made under the name until then. */
function mustGoFirst(set: PullerSet | undefined, puller: Puller, asked: StepOptions): boolean {
  return set === undefined ? asked.ownerless?.has(`${placeOf(puller, asked)}/${puller.hash}`) === true : set.deleting;
}

/** Which method Auto means is learnt anew after a restart, and must not be learnt from a set whose copies are warm. */
function withMethodOf(set: PullerSet | undefined, options: StepOptions): StepOptions {
  return options.keepMethod === true && set !== undefined && set.image !== '' ? { ...options, method: set.method } : options;
}

function ownersOf({ hash, tenant }: Puller, { owners }: StepOptions): readonly OwnerReference[] {
  return tenant === undefined ? [] : (owners?.get(hash) ?? []);
}

/** Pods keep what they were made with: where all of them fail, or were made without the image, only new ones can do better. */
function needsNewPods(puller: Puller, set: PullerSet, options: StepOptions): boolean {
  const method = options.method ?? 'ImageVolume';
  if (set.method !== method && set.image === '') return true;
  if (!knowsItsPods(set)) return true;
  const changed = set.method !== method || !sameSecrets(set, secretsOf(puller, options)) || keepsWhatWeCannotTake(set, options);
  return changed && options.idle?.(puller.hash) === true;
}

/** Whether the selector picks the Pods that we make: the API server takes no edit of one whose labels are others. */
function knowsItsPods({ selector, hash, shard }: PullerSet): boolean {
  const labels = pullerLabels(hash, shard);
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

/** An edit takes away nothing that others have added; making the set anew does, unless it comes back on the way. */
function keepsWhatWeCannotTake(set: PullerSet, { altered }: StepOptions): boolean {
  const known = altered?.(set);
  return known?.by === 'update' && known.stored === set.print;
}

interface Wanted {
  puller: Puller;
  nodes: ReadonlySet<string>;
  owners: readonly OwnerReference[];
  options: StepOptions;
}

function asWanted(set: PullerSet, { puller, nodes, owners, options }: Wanted): boolean {
  return (
    set.nodes.length === nodes.size &&
    set.nodes.every((n) => nodes.has(n)) &&
    set.image === puller.image &&
    says(set, printOf(set, puller, options), options) &&
    // One too many does no harm: garbage collection takes those away that are gone.
    owners.every((o) => set.owners.includes(o.uid))
  );
}

/** Whether a template says what we want, or what became of just that when it was last sent: sending it again would change nothing. */
function says(set: PullerSet, wanted: string, { altered }: StepOptions): boolean {
  const known = altered?.(set);
  return set.print === wanted || (known?.sent === wanted && known.stored === set.print);
}

/** Sets are replaced and never changed, so what one should say is worked out once for the same wish. */
const WANTED = new WeakMap<PullerSet, { wish: string; print: string }>();

function printOf(set: PullerSet, puller: Puller, options: StepOptions): string {
  const wish = [puller.hash, options.program, options.method ?? '', ...secretsOf(puller, options)].join('\n');
  const known = WANTED.get(set);
  if (known?.wish === wish) return known.print;
  const print = templatePrint(pullerManifest(puller, [], options, { shard: set.shard }).spec.template);
  WANTED.set(set, { wish, print });
  return print;
}

function secretsOf({ tenant }: Puller, { pullSecrets = [] }: ManifestOptions): readonly string[] {
  return tenant?.secrets ?? pullSecrets;
}

function sameSecrets(set: PullerSet, secrets: readonly string[]): boolean {
  return set.pullSecrets.length === secrets.length && set.pullSecrets.every((name, i) => name === secrets[i]);
}
