import type { LabelSelector } from '../../api/label-selector.js';
import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { PrewarmTarget } from '../../api/kinds/image-prewarm.js';
import type { RuntimeClassFacts } from '../../placement/capability.js';
import type { Constraints } from '../../placement/constraints.js';
import type { AffinityTerm } from '../../placement/filters/node-affinity.js';
import type { Landing } from '../../placement/landing.js';
import { landingOf, mergeLandings } from '../../placement/landing.js';
import type { NodeClasses } from '../../placement/node-classes.js';

export interface NodePicture {
  view: NodeClasses | undefined;
  runtimeClass: (name: string) => RuntimeClassFacts | undefined;
  /** Epoch ms. */
  now: number;
}

/**
 * Where Pods of a prewarm that run `source` can land; undefined where none does. What is recorded for a gang is run by each member,
 * retry and replacement, so all of these nodes have to be able to, now and later. Nodes that are named may be any.
 */
export function landingOfSource(
  prewarm: ImagePrewarm,
  source: string,
  { view, runtimeClass, now }: NodePicture,
): Landing | undefined {
  const targets = prewarm.spec.targets.filter((t) => t.images.some((i) => i.reference === source));
  return mergeLandings(targets.map((t) => landingOf(constraintsOfTarget(t, runtimeClass), view, now)));
}

/** The API server adds what a RuntimeClass says of scheduling to Pods; a target is made from a template that does not have it yet. */
function constraintsOfTarget(target: PrewarmTarget, runtimeClass: NodePicture['runtimeClass']): Constraints {
  const { nodes, tolerations = [], runtimeClassName } = target;
  const ofClass = runtimeClassName === undefined ? undefined : runtimeClass(runtimeClassName);
  const own = nodes.affinity ?? (nodes.selector === undefined ? undefined : selectorTerms(nodes.selector));
  return {
    nodeSelector: ofClass?.nodeSelector ?? {},
    ...(own === undefined ? {} : { terms: own }),
    // Who names nodes has decided; candidates() looks at it the same way.
    tolerations: nodes.names === undefined ? [...tolerations, ...(ofClass?.tolerations ?? [])] : [{ operator: 'Exists' }],
  };
}

/** A label selector as a node selector term; an empty one selects every node, which no term says. */
function selectorTerms({ matchLabels = {}, matchExpressions = [] }: LabelSelector): AffinityTerm[] | undefined {
  const labels = Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'In', values: [value] }));
  const all = [...labels, ...matchExpressions];
  return all.length === 0 ? undefined : [{ matchExpressions: all }];
}
