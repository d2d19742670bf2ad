import type { GangRef } from '../api/kinds/image-prewarm.js';

/** Where jobs of one kind are found in the API. */
export interface JobKind {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: true;
}

const kind = (group: string, version: string, plural: string, name: string): JobKind => ({
  group,
  version,
  plural,
  kind: name,
  namespaced: true,
});

/**
 * Kinds whose own object carries Kueue's list of gates and whose Workload is made from it at once (Kueue 0.19, pkg/controller/jobs).
 * Pods and Deployments are missing on purpose: a right to patch all of them is more than a hold is worth.
 */
export const GATED_KINDS: readonly JobKind[] = [
  kind('batch', 'v1', 'jobs', 'Job'),
  kind('jobset.x-k8s.io', 'v1alpha2', 'jobsets', 'JobSet'),
  kind('leaderworkerset.x-k8s.io', 'v1', 'leaderworkersets', 'LeaderWorkerSet'),
  kind('kubeflow.org', 'v2beta1', 'mpijobs', 'MPIJob'),
  kind('kubeflow.org', 'v1', 'pytorchjobs', 'PyTorchJob'),
  kind('kubeflow.org', 'v1', 'tfjobs', 'TFJob'),
  kind('kubeflow.org', 'v1', 'xgboostjobs', 'XGBoostJob'),
  kind('kubeflow.org', 'v1', 'paddlejobs', 'PaddleJob'),
  kind('kubeflow.org', 'v1', 'jaxjobs', 'JAXJob'),
  kind('trainer.kubeflow.org', 'v1alpha1', 'trainjobs', 'TrainJob'),
  kind('ray.io', 'v1', 'rayjobs', 'RayJob'),
  kind('ray.io', 'v1', 'rayclusters', 'RayCluster'),
  kind('workload.codeflare.dev', 'v1beta2', 'appwrappers', 'AppWrapper'),
];

/** The kind of a job, undefined where its gate is not ours to take off. */
export function gatedKindOf(ref: Pick<GangRef, 'apiGroup' | 'kind'>): JobKind | undefined {
  return GATED_KINDS.find((k) => k.group === ref.apiGroup && k.kind === ref.kind);
}
