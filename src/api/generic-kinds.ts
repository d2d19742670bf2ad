/** Kinds of jobs (`Kind.group`) that are read where Kueue does not queue them; a unit test holds them to the table in gangs/kinds.ts. */
export const GENERIC_KINDS: readonly string[] = [
  'Job.batch',
  'JobSet.jobset.x-k8s.io',
  'PyTorchJob.kubeflow.org',
  'TFJob.kubeflow.org',
  'XGBoostJob.kubeflow.org',
  'PaddleJob.kubeflow.org',
  'JAXJob.kubeflow.org',
  'MPIJob.kubeflow.org',
  'RayCluster.ray.io',
  'RayJob.ray.io',
];
