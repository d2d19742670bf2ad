import type { Cluster } from '../test/cluster/cluster.js';
import { HARBINGER_NAMESPACE, NAMESPACE } from './settings.js';

/** What a person may do on the cluster that KEEP=1 leaves up. */
export function whatToTry(cluster: Cluster): string[] {
  return [
    '\nThe cluster stays up. Try:',
    `  export KUBECONFIG=${cluster.kubeconfig}`,
    `  alias kubectl=${cluster.tools['kubectl'] ?? 'kubectl'}`,
    `  kubectl get ipw,workloads.kueue.x-k8s.io,pods -n ${NAMESPACE}`,
    `  kubectl get daemonsets,pods -n ${HARBINGER_NAMESPACE}       # pullers, while a gang waits`,
    '  kubectl explain imageprewarm.spec.targets',
    '  kubectl describe accpol estargz',
    `  ls ${cluster.logDir}                     # a log per process`,
    '  make cluster-down NAME=demo              # ends all of it',
  ];
}
