import { writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stringify } from 'yaml';
import type { Cluster } from '../test/cluster/cluster.js';
import { gangJob } from './objects.js';
import { HARBINGER_NAMESPACE, NAMESPACE } from './settings.js';
import type { Settings } from './settings.js';

/**
 * What a person may do on the cluster that KEEP=1 leaves up. Writes the two Jobs that it speaks of: they play the main leg again by hand, with an image
 * that some of the nodes have by now.
 */
export function whatToTry(cluster: Cluster, settings: Settings): string[] {
  const host = cluster.registry.host;
  const pods = settings.nodeCount;
  const write = (file: string, job: object): string => {
    const path = join(settings.out, file);
    writeFileSync(path, stringify(job));
    return relative('.', path);
  };
  const blocker = write('blocker.yaml', gangJob({ name: 'blocker', image: `${host}/blocker:v1`, pods }));
  const gang = write('gang.yaml', gangJob({ name: 'mine', image: `${host}/legs/cold:v1`, pods, prewarm: true }));
  return [
    '\nThe cluster stays up. Try:',
    `  export KUBECONFIG=${cluster.kubeconfig} PATH=${cluster.runDir}/bin:$PATH`,
    `  kubectl config set-context --current --namespace ${NAMESPACE}`,
    `  kubectl create -f ${blocker}             # fills the queue`,
    `  kubectl create -f ${gang}                # waits behind it and is prewarmed`,
    '  kubectl get ipw -w -o wide                            # until READY; Ctrl-C',
    `  kubectl get daemonsets,pods -n ${HARBINGER_NAMESPACE}       # the pullers`,
    '  kubectl delete job blocker; kubectl get pods -w       # the gang starts from what is there',
    '  kubectl events --for job/mine',
    '  kubectl explain imageprewarm.spec.targets',
    `  ls ${relative('.', cluster.logDir)}                            # a log per process`,
    '  make cluster-down NAME=demo                           # ends all of it',
  ];
}
