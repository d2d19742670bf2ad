import { createHash } from 'node:crypto';
import type { ImagePrewarmSpec, PrewarmTarget } from '../../api/kinds/image-prewarm.js';
import { DNS_SUBDOMAIN } from '../../api/kinds/common.js';
import { present } from '../../api/json.js';
import { API_VERSION } from '../../api/names.js';
import type { KubeObject } from '../../api/object.js';
import type { OptIn } from '../../gangs/opt-in.js';
import type { TemplateFacts } from '../../gangs/pod-templates.js';
import { templateFacts } from '../../gangs/pod-templates.js';
import type { Gang, PodSet } from '../../gangs/shape.js';
import type { TolerationLike } from '../../placement/filters/taints.js';
import { tolerates } from '../../placement/filters/taints.js';
import type { KnownNodes } from './nodes.js';
import { affinityOf, assignedNames } from './nodes.js';
import type { FlavorView } from './sources/kueue.js';

/** Bounds of the CRD. Nodes and tolerations are cut in the direction of warming more than needed; of images it is told: leftOut. */
const MAX = { images: 32, targets: 18, tolerations: 32, reference: 512, name: 253 } as const;

export interface GangSnapshot {
  gang: Gang;
  optIn: OptIn;
  /** Flavors that the gang's queue may give it, in order of trial. */
  queueFlavors: readonly FlavorView[];
  /** All flavors by name, for those that are assigned. */
  flavors: ReadonlyMap<string, FlavorView>;
  /** Nodes that there are; none where absent. */
  nodes?: Pick<KnownNodes, 'byHostname' | 'exists'> | undefined;
  /** Pods by podSet that the Workload has which this one takes the place of: they run on where they are. */
  replaced?: ReadonlyMap<string, number> | undefined;
  /** Images that operators add to Pods of a podSet, which no template shows. */
  operatorImages?: OperatorImages | undefined;
  /** What exists already. */
  existing?: { spec: ImagePrewarmSpec; released: boolean } | undefined;
}

/** `keep`: nothing to write; the reason is for the log and for `describe`. */
export type GangDecision =
  { do: 'apply'; object: KubeObject & { spec: Pick<ImagePrewarmSpec, 'gangRef' | 'targets'> } } | { do: 'keep'; why: string };

/** Name of the ImagePrewarm of a job: readable, and different for a job of the same name that comes later. */
export function prewarmName(ref: { name: string; uid: string }): string {
  const suffix = createHash('sha256').update(ref.uid).digest('hex').slice(0, 8);
  return `${ref.name.slice(0, MAX.name - suffix.length - 1).replace(/[-.]+$/, '')}-${suffix}`;
}

/** What is to be warmed for a gang, as an object owned by its job. Total; a function of the snapshot alone. */
export function decideGang(snapshot: GangSnapshot): GangDecision {
  const { gang, optIn, existing } = snapshot;
  if (gang.state.finished) return { do: 'keep', why: 'the gang has finished' };
  if (!optIn.optedIn) return { do: 'keep', why: 'the gang did not opt in' };
  if (gang.source === 'generic' && gang.state.admitted && existing === undefined)
    return { do: 'keep', why: 'its Pods came before it was seen to wait' };
  const wanted = gang.podSets
    .map((p) => targetOf(p, snapshot))
    .filter((t) => t !== undefined)
    .slice(0, MAX.targets);
  const targets = existing?.released === true ? releasedTargets(existing.spec, wanted) : wanted;
  if (targets.length === 0) return { do: 'keep', why: 'no container of the gang pulls an image' };
  if (existing !== undefined && canonical(existing.spec.targets) === canonical(targets))
    return { do: 'keep', why: 'it is as it should be' };
  return {
    do: 'apply',
    object: {
      apiVersion: API_VERSION,
      kind: 'ImagePrewarm',
      metadata: {
        name: prewarmName(gang.ref),
        namespace: gang.namespace,
        ownerReferences: [
          {
            apiVersion: gang.refApiVersion,
            kind: gang.ref.kind,
            name: gang.ref.name,
            uid: gang.ref.uid,
            controller: false,
            blockOwnerDeletion: false,
          },
        ],
      },
      spec: { gangRef: gang.ref, targets },
    },
  };
}

/**
 * Once a gang was let go, its record is what its Pods run: a retry must not find another list of images. Where it runs may still
 * change: preempted from one flavor it comes back on another, and those nodes have to be warm then.
 */
function releasedTargets(spec: ImagePrewarmSpec, wanted: readonly PrewarmTarget[]): PrewarmTarget[] {
  return spec.targets.map((old) => {
    const now = wanted.find((t) => t.name === old.name);
    if (now === undefined) return old;
    const { tolerations: _old, ...kept } = old;
    return present<PrewarmTarget>({ ...kept, tolerations: now.tolerations, nodes: now.nodes });
  });
}

type OperatorImages = (podSet: string) => readonly string[];

/** Images of a podSet for which its target has room, and those for which it has none. */
function imagesOf(podSet: PodSet, facts: TemplateFacts, added: OperatorImages | undefined): { kept: string[]; left: string[] } {
  const own = facts.images.filter((i) => i.length <= MAX.reference);
  const kept = own.length === 0 ? [] : [...new Set([...own, ...(added?.(podSet.name) ?? [])])];
  const long = facts.images.filter((i) => i.length > MAX.reference);
  return { kept: kept.slice(0, MAX.images), left: [...kept.slice(MAX.images), ...long] };
}

/**
 * Images of a gang's Pods that its ImagePrewarm has no room for: nobody warms them, so the gang is never told to be warm. Each as
 * `podSet: image`; of podSets beyond the bound all.
 */
export function leftOut({ podSets }: Gang, added?: OperatorImages): string[] {
  const found = podSets.map((podSet) => ({ podSet, ...imagesOf(podSet, templateFacts(podSet.template), added) }));
  const targets = found.filter(({ kept }) => kept.length > 0).slice(0, MAX.targets);
  return found.flatMap((each) => {
    const { podSet, kept, left } = each;
    return [...(targets.includes(each) ? [] : kept), ...left].map((image) => `${podSet.name}: ${image}`);
  });
}

function targetOf(podSet: PodSet, snapshot: GangSnapshot): PrewarmTarget | undefined {
  const facts = templateFacts(podSet.template);
  const { kept: images } = imagesOf(podSet, facts, snapshot.operatorImages);
  if (images.length === 0) return undefined;
  const flavors = flavorsFor(podSet, facts, snapshot);
  const tolerations = tolerationsOf([...facts.tolerations, ...flavors.flatMap((f) => f.tolerations)]);
  // Pods may name secrets that cannot exist; the CRD does not, and kubelets pass over them.
  const secrets = facts.imagePullSecrets.filter((name) => DNS_SUBDOMAIN.test(name));
  return present<PrewarmTarget>({
    name: podSet.name,
    images: images.map((reference) => ({ reference })),
    imagePullSecrets: secrets.length === 0 ? undefined : secrets.slice(0, 16).map((name) => ({ name })),
    serviceAccountName: facts.serviceAccountName || undefined,
    runtimeClassName: facts.runtimeClassName || undefined,
    tolerations: tolerations.length === 0 ? undefined : (tolerations as PrewarmTarget['tolerations']),
    nodes: nodesOf(podSet, facts, { flavors, snapshot }),
  });
}

/** Each once. With more than there is room for every taint counts as tolerated: cutting them off would leave nodes out. */
function tolerationsOf(all: readonly TolerationLike[]): TolerationLike[] {
  const different = [...new Map(all.map((t) => [canonical(t), t])).values()];
  return different.length > MAX.tolerations ? [{ operator: 'Exists' }] : different;
}

/** Exactly the nodes that were assigned, where one is known; else how many of those that every Pod may land on. */
function nodesOf(
  podSet: PodSet,
  facts: TemplateFacts,
  { flavors, snapshot }: { flavors: readonly FlavorView[]; snapshot: GangSnapshot },
): PrewarmTarget['nodes'] {
  const before = targetBefore(snapshot.existing, podSet.name)?.nodes.names ?? [];
  const names = assignedNames(podSet.assignment, { byHostname: () => [], exists: () => false, ...snapshot.nodes, before });
  if (names !== undefined) return { names };
  const terms = affinityOf({ selector: facts.nodeSelector, terms: facts.affinityTerms }, flavors, podSet.assignment);
  return {
    ...(terms === undefined ? { selector: {} } : { affinity: terms as PrewarmTarget['nodes']['affinity'] }),
    count: countOf(podSet, snapshot),
  };
}

/**
 * How many Pods are to come. While no quota is reserved a gang that may start with fewer counts with these, and with as many as it
 * was given before (H-38): what is warm for a reservation that was lost stays warm for the next one.
 */
function countOf(podSet: PodSet, { gang, replaced, existing }: GangSnapshot): number {
  const { name, count, minCount = count } = podSet;
  const reserved = gang.state.reservedAt !== undefined || podSet.flavors !== undefined;
  const running = heldWhileRunning(existing) ? 0 : (replaced?.get(name) ?? 0);
  const most = Math.max(0, count - running);
  if (reserved || minCount >= count) return most;
  return Math.min(most, Math.max(0, minCount - running, hadNodes(existing, name)));
}

/** Whether nodes are held for Pods that run: those count as warm nodes, so what a scaled job adds would be taken to be warm by them. */
function heldWhileRunning(existing: GangSnapshot['existing']): boolean {
  return existing?.spec.retain === 'WhileGangRuns' || existing?.spec.retain === 'Always';
}

function hadNodes(existing: GangSnapshot['existing'], target: string): number {
  const nodes = targetBefore(existing, target)?.nodes;
  return nodes?.names?.length ?? nodes?.count ?? 0;
}

function targetBefore(existing: GangSnapshot['existing'], target: string): PrewarmTarget | undefined {
  return existing?.spec.targets.find((t) => t.name === target);
}

/**
 * The flavors whose nodes count. Assigned ones together make one: Kueue adds the labels of each of them to the Pods. Before the
 * reservation any flavor may be given whose taints the template tolerates (Kueue flavorassigner), so their union counts.
 */
function flavorsFor(podSet: PodSet, facts: TemplateFacts, { queueFlavors, flavors }: GangSnapshot): FlavorView[] {
  const assigned = [...new Set(Object.values(podSet.flavors ?? {}))].map((n) => flavors.get(n)).filter((f) => f !== undefined);
  const [first, ...others] = assigned;
  if (first !== undefined) {
    const merged = { ...first, nodeLabels: { ...first.nodeLabels }, tolerations: [...first.tolerations] };
    for (const other of others) {
      Object.assign(merged.nodeLabels, other.nodeLabels);
      merged.tolerations.push(...other.tolerations);
    }
    return [merged];
  }
  const fits = (flavor: FlavorView): boolean => {
    const given = [...facts.tolerations, ...flavor.tolerations];
    const hard = flavor.taints.filter((t) => t.effect !== 'PreferNoSchedule');
    return hard.every((taint) => given.some((t) => tolerates(t, taint)));
  };
  return queueFlavors.filter(fits);
}

/** JSON with sorted keys, so that equal values have equal text whatever order the API server gives their fields. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
