import type { KubeObject } from '../../../api/object.js';
import { INSTALL, LABEL } from '../../../api/names.js';
import type { Puller } from '../../puller.js';

export interface DaemonSet extends KubeObject {
  spec: {
    selector: { matchLabels: Record<string, string> };
    revisionHistoryLimit: number;
    updateStrategy: { type: 'OnDelete' };
    template: {
      metadata: { labels: Record<string, string>; annotations: Record<string, string> };
      spec: Record<string, unknown>;
    };
  };
}

export interface ManifestOptions {
  namespace: string;
  /** Image of the puller program. */
  program: string;
  /** Pull secrets in Harbinger's namespace. */
  pullSecrets?: readonly string[];
}

/** Longest a kubelet waits for the first successful look into the mount, in periods of one second. */
const STARTUP_ATTEMPTS = 30;

/** Name of the volume and of its place in the container; the proof of warm reads the former. */
export const IMAGE_VOLUME = 'image';
const MOUNT = '/image';

export function pullerSetName(puller: Puller): string {
  return `puller-${puller.hash}`;
}

/**
 * The DaemonSet that has one image on a list of nodes: our own tiny program with the image as an image volume, so that nothing
 * of the image runs. It fits the restricted Pod security profile, has no token, and asks for no resources: 10m CPU kept a gang of
 * whole-node Pods out for good (seen). It tolerates every taint, because the candidate filter has judged them already.
 * @param nodes node names; sorted here, so that equal sets give equal objects
 */
export function pullerManifest(puller: Puller, nodes: Iterable<string>, options: ManifestOptions): DaemonSet {
  const labels = {
    'app.kubernetes.io/name': 'harbinger-puller',
    'app.kubernetes.io/managed-by': 'harbinger',
    [LABEL.puller]: puller.hash,
  };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: pullerSetName(puller), namespace: options.namespace, labels },
    spec: {
      selector: { matchLabels: { [LABEL.puller]: puller.hash } },
      revisionHistoryLimit: 0,
      // A longer node list is a new template: rolling it out would delete pullers in mid-pull.
      updateStrategy: { type: 'OnDelete' },
      template: {
        metadata: { labels, annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' } },
        spec: podSpec(puller, nodes, options),
      },
    },
  };
}

function podSpec(puller: Puller, nodes: Iterable<string>, options: ManifestOptions): Record<string, unknown> {
  return {
    serviceAccountName: INSTALL.puller,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 1,
    ...(puller.runtimeClassName === undefined ? {} : { runtimeClassName: puller.runtimeClassName }),
    ...(options.pullSecrets?.length ? { imagePullSecrets: options.pullSecrets.map((name) => ({ name })) } : {}),
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: nodeTerms(nodes) } } },
    tolerations: [{ operator: 'Exists' }],
    securityContext: { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'puller',
        image: options.program,
        imagePullPolicy: 'IfNotPresent',
        command: ['/puller', 'hold', MOUNT],
        startupProbe: {
          exec: { command: ['/puller', 'check', MOUNT] },
          periodSeconds: 1,
          failureThreshold: STARTUP_ATTEMPTS,
          timeoutSeconds: 10,
        },
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: IMAGE_VOLUME, mountPath: MOUNT, readOnly: true }],
      },
    ],
    volumes: [{ name: IMAGE_VOLUME, image: { reference: puller.image, pullPolicy: 'IfNotPresent' } }],
  };
}

/** Terms are ORed and each may name one node only (API validation of matchFields). */
export function nodeTerms(nodes: Iterable<string>): unknown[] {
  return [...nodes].sort().map((name) => ({ matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }] }));
}
