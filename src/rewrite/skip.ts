import { at, records, string } from '../api/json.js';
import type { Outcome } from '../api/outcomes.js';
import { ANNOTATION, LABEL } from '../api/names.js';
import type { PodContainer, PodView } from './pod-view.js';

/** What the webhook keeps of a Namespace. */
export interface NamespaceFacts {
  name: string;
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
}

export interface Skip {
  outcome: Extract<Outcome, `skipped-${string}`>;
  message: string;
  /** The Pod must not be touched at all, not even to remove an annotation. */
  untouchable?: true;
}

const MIRROR = 'kubernetes.io/config.mirror';

/** Why the whole Pod is left alone, or undefined. */
export function skipPod(pod: PodView, namespace: NamespaceFacts): Skip | undefined {
  // The kubelet ignores changes of a mirror Pod's spec, and a changed copy makes it delete and create the Pod for ever.
  if (Object.hasOwn(pod.annotations, MIRROR)) {
    return { outcome: 'skipped-mirror-pod', message: 'a mirror Pod is only a copy of a static Pod', untouchable: true };
  }
  if (Object.hasOwn(pod.labels, LABEL.puller)) {
    return {
      outcome: 'skipped-own-pod',
      message: `label ${LABEL.puller}: pullers name the digests that they warm`,
      untouchable: true,
    };
  }
  // The nearest word wins, so that one Pod can opt in again in a namespace that opted out.
  const own = pod.annotations[ANNOTATION.accelerate];
  if (own === 'false') return { outcome: 'skipped-opt-out', message: `the Pod is annotated ${ANNOTATION.accelerate}: "false"` };
  if (own === undefined && namespace.annotations[ANNOTATION.accelerate] === 'false') {
    return { outcome: 'skipped-opt-out', message: `namespace ${namespace.name} is annotated ${ANNOTATION.accelerate}: "false"` };
  }
  return undefined;
}

const NONE: ReadonlySet<string> = new Set();

/**
 * Names of the containers that are left alone. Lists of the Pod and of its Namespace add up: an opt-out is never lost. Read once for a
 * Pod, because both the list and the Pod may be long.
 */
export function skippedNames(pod: PodView, namespace: NamespaceFacts): ReadonlySet<string> {
  const lists = [pod, namespace].map(({ annotations }) => annotations[ANNOTATION.skipContainers] ?? '');
  return lists.join('') === '' ? NONE : new Set(lists.flatMap((list) => list.split(',').map((name) => name.trim())));
}

/** Why one container is left alone, or undefined. */
export function skipContainer(container: PodContainer, skipped: ReadonlySet<string>): Skip | undefined {
  if (skipped.has(container.name)) {
    return { outcome: 'skipped-container', message: `named by annotation ${ANNOTATION.skipContainers}` };
  }
  // The kubelet will not pull, so only the image that somebody put on the node under this very name can run.
  if (container.pullPolicy === 'Never') return { outcome: 'skipped-pull-never', message: 'imagePullPolicy is Never' };
  return undefined;
}

/** Marks of tools that keep a Pod equal to a repository: annotation of Argo CD, labels of Flux. */
const GITOPS_ANNOTATIONS = ['argocd.argoproj.io/tracking-id'];
const GITOPS_LABELS = ['kustomize.toolkit.fluxcd.io/name', 'helm.toolkit.fluxcd.io/name'];

/**
 * Why images of the Pod are left to whoever made it, or undefined. Operators that make Pods themselves compare them with what they
 * asked for, and delete one whose image differs, again and again; only controllers that are known not to (`owners`) are trusted.
 */
export function skipOwner(pod: PodView, owners: readonly string[]): Skip | undefined {
  const controller = records(at(pod.raw, 'metadata')['ownerReferences']).find((o) => o['controller'] === true);
  if (controller === undefined) {
    const mark =
      GITOPS_ANNOTATIONS.find((a) => Object.hasOwn(pod.annotations, a)) ??
      GITOPS_LABELS.find((l) => Object.hasOwn(pod.labels, l));
    if (mark === undefined) return undefined;
    return {
      outcome: 'skipped-gitops',
      message: `${mark}: a tool keeps this Pod equal to a repository, and would undo a changed image`,
    };
  }
  if (owners.includes('*')) return undefined;
  const [kind, apiVersion] = [string(controller['kind']) ?? '', string(controller['apiVersion']) ?? ''];
  const slash = apiVersion.indexOf('/');
  const owner = slash < 0 ? kind : `${kind}.${apiVersion.slice(0, slash)}`;
  if (owners.includes(owner)) return undefined;
  return {
    outcome: 'skipped-owner',
    message: `the Pod belongs to a ${owner}, which is not under rewrite.owners of the configuration`,
  };
}
