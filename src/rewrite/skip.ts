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

/** Why one container is left alone, or undefined. Lists of the Pod and of its Namespace add up: an opt-out is never lost. */
export function skipContainer(container: PodContainer, pod: PodView, namespace: NamespaceFacts): Skip | undefined {
  if (listed(pod.annotations, container.name) || listed(namespace.annotations, container.name)) {
    return { outcome: 'skipped-container', message: `named by annotation ${ANNOTATION.skipContainers}` };
  }
  // The kubelet will not pull, so only the image that somebody put on the node under this very name can run.
  if (container.pullPolicy === 'Never') return { outcome: 'skipped-pull-never', message: 'imagePullPolicy is Never' };
  return undefined;
}

function listed(annotations: Readonly<Record<string, string>>, name: string): boolean {
  return (annotations[ANNOTATION.skipContainers] ?? '').split(',').some((part) => part.trim() === name);
}
