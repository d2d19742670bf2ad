import { createHash } from 'node:crypto';
import type { ImagePrewarmSpec, PrewarmTarget } from '../api/kinds/image-prewarm.js';
import { DNS_SUBDOMAIN } from '../api/kinds/common.js';
import { present } from '../api/json.js';
import { API_VERSION } from '../api/names.js';
import type { KubeObject } from '../api/object.js';
import type { OptIn } from '../gangs/opt-in.js';
import type { TemplateFacts } from '../gangs/pod-templates.js';
import { templateFacts } from '../gangs/pod-templates.js';
import type { Gang, PodSet } from '../gangs/shape.js';
import type { AffinityTerm } from '../placement/filters/node-affinity.js';
import { tolerates } from '../placement/filters/taints.js';
import type { FlavorView } from './gang-sources/kueue.js';
import { flavorTerm } from './gang-sources/kueue.js';

/** Bounds of the CRD; what exceeds them is cut in the direction of warming more than needed. */
const MAX = { terms: 20, images: 32, tolerations: 32, reference: 512, name: 253 } as const;

export interface GangSnapshot {
  gang: Gang;
  optIn: OptIn;
  /** Flavors that the gang's queue may give it, in order of trial. */
  queueFlavors: readonly FlavorView[];
  /** All flavors by name, for those that are assigned. */
  flavors: ReadonlyMap<string, FlavorView>;
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
  const wanted = gang.podSets.map((p) => targetOf(p, snapshot)).filter((t) => t !== undefined);
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

function targetOf(podSet: PodSet, snapshot: GangSnapshot): PrewarmTarget | undefined {
  const facts = templateFacts(podSet.template);
  const images = facts.images.filter((i) => i.length <= MAX.reference).slice(0, MAX.images);
  if (images.length === 0) return undefined;
  const flavors = flavorsFor(podSet, facts, snapshot);
  const tolerations = [...facts.tolerations, ...flavors.flatMap((f) => f.tolerations)].slice(0, MAX.tolerations);
  const terms = affinityOf(facts, flavors);
  // Pods may name secrets that cannot exist; the CRD does not, and kubelets pass over them.
  const secrets = facts.imagePullSecrets.filter((name) => DNS_SUBDOMAIN.test(name));
  return present<PrewarmTarget>({
    name: podSet.name,
    images: images.map((reference) => ({ reference })),
    imagePullSecrets: secrets.length === 0 ? undefined : secrets.slice(0, 16).map((name) => ({ name })),
    serviceAccountName: facts.serviceAccountName || undefined,
    runtimeClassName: facts.runtimeClassName || undefined,
    tolerations: tolerations.length === 0 ? undefined : (tolerations as PrewarmTarget['tolerations']),
    nodes: {
      ...(terms === undefined ? { selector: {} } : { affinity: terms as PrewarmTarget['nodes']['affinity'] }),
      count: podSet.count,
    },
  });
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

/** Node selector, required affinity and flavor labels as ORed terms; undefined: any node. Too many terms give a superset. */
function affinityOf(facts: TemplateFacts, flavors: readonly FlavorView[]): AffinityTerm[] | undefined {
  const selector = flavorTerm(facts.nodeSelector);
  const own = facts.affinityTerms as readonly AffinityTerm[] | undefined;
  const byFlavor = flavors.map((f) => flavorTerm(f.nodeLabels));
  const choices = byFlavor.length === 0 || byFlavor.includes(undefined) ? [undefined] : dedupe(byFlavor);
  const product = (flavorTerms: readonly (AffinityTerm | undefined)[]): AffinityTerm[] =>
    flavorTerms.flatMap((f) => (own ?? [undefined]).map((o) => join(selector, o, f)));
  const full = product(choices);
  const terms = full.length <= MAX.terms ? full : product([undefined]).slice(0, MAX.terms);
  return terms.some((t) => t.matchExpressions === undefined && t.matchFields === undefined) && own === undefined
    ? undefined
    : terms;
}

function dedupe(terms: readonly (AffinityTerm | undefined)[]): (AffinityTerm | undefined)[] {
  return [...new Map(terms.map((t) => [canonical(t), t])).values()];
}

function join(...terms: (AffinityTerm | undefined)[]): AffinityTerm {
  const expressions = terms.flatMap((t) => t?.matchExpressions ?? []);
  const fields = terms.flatMap((t) => t?.matchFields ?? []);
  return present<AffinityTerm>({
    matchExpressions: expressions.length === 0 ? undefined : expressions,
    matchFields: fields.length === 0 ? undefined : fields,
  });
}

/** JSON with sorted keys, so that equal values have equal text whatever order the API server gives their fields. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
