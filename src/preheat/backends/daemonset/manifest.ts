import type { KubeObject, OwnerReference } from '../../../api/object.js';
import { INSTALL, LABEL } from '../../../api/names.js';
import type { PullMethod } from '../../../api/puller-spec.js';
import { IMAGE_CONTAINER, IMAGE_VOLUME } from '../../../api/puller-spec.js';
import { setName } from '../../ownership.js';
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
  /** Harbinger's own; pullers of tenants go to theirs. */
  namespace: string;
  /** Image of the puller program. */
  program: string;
  /** Pull secrets in Harbinger's namespace. */
  pullSecrets?: readonly string[];
  /** Default ImageVolume. */
  method?: PullMethod;
}

/** Which of the DaemonSets of a puller, and who else than Harbinger it goes with. */
export interface Place {
  shard?: number;
  /** In a tenant's namespace: garbage collection takes the set when the last of these is gone, even if Harbinger is. */
  owners?: readonly OwnerReference[];
}

/** Longest a kubelet waits for the first successful look into the mount, in periods of one second. */
const STARTUP_ATTEMPTS = 30;

/** Where the image is in the container of our program. */
const MOUNT = '/image';

/** Volume that has our program in it, for the container of the image itself. */
export const PROGRAM_VOLUME = 'program';
const PROGRAM_MOUNT = '/.harbinger';
const PROGRAM = '/puller';

/** Account of pullers in a tenant's namespace whose secrets are named: it is there, and is only needed because Pods have one. */
export const TENANT_ACCOUNT = 'default';

export function pullerSetName(puller: Puller, shard = 0): string {
  return setName(puller.hash, shard);
}

/** Labels of a DaemonSet of pullers and of its Pods. */
export function pullerLabels(hash: string, shard: number): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'harbinger-puller',
    'app.kubernetes.io/managed-by': 'harbinger',
    [LABEL.puller]: hash,
    [LABEL.pullerShard]: String(shard),
  };
}

/**
 * The DaemonSet that has one image on a list of nodes: our own tiny program with the image as an image volume, so that nothing
 * of the image runs. It fits the restricted Pod security profile, has no token, and asks for no resources: 10m CPU kept a gang of
 * whole-node Pods out for good (seen). It tolerates every taint, because the candidate filter has judged them already.
 * @param nodes node names; sorted here, so that equal sets give equal objects
 */
export function pullerManifest(
  puller: Puller,
  nodes: Iterable<string>,
  options: ManifestOptions,
  { shard = 0, owners = [] }: Place = {},
): DaemonSet {
  const selector = { [LABEL.puller]: puller.hash, [LABEL.pullerShard]: String(shard) };
  const labels = pullerLabels(puller.hash, shard);
  const ownerReferences = owners.length === 0 ? {} : { ownerReferences: [...owners] };
  return {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: {
      name: pullerSetName(puller, shard),
      namespace: puller.tenant?.namespace ?? options.namespace,
      labels,
      ...ownerReferences,
    },
    spec: {
      selector: { matchLabels: selector },
      revisionHistoryLimit: 0,
      // A longer node list is a new template: rolling it out would delete pullers in mid-pull.
      updateStrategy: { type: 'OnDelete' },
      template: {
        metadata: { labels: { ...labels, ...NO_MESH.labels }, annotations: { ...KEEPS_NOTHING, ...NO_MESH.annotations } },
        spec: podSpec(puller, nodes, options),
      },
    },
  };
}

/**
 * Pullers never keep a node from being removed. Asking for that while they pull would need an end, which is a write a node; a node that
 * goes in mid-pull is replaced in the plan instead.
 */
const KEEPS_NOTHING = { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true' };

/** A sidecar would be one more image to pull, with a network that pullers do not need. */
const NO_MESH = {
  labels: { 'sidecar.istio.io/inject': 'false', 'istio.io/dataplane-mode': 'none' },
  annotations: {
    'sidecar.istio.io/inject': 'false',
    'linkerd.io/inject': 'disabled',
    'kuma.io/sidecar-injection': 'disabled',
    'consul.hashicorp.com/connect-inject': 'false',
  },
};

function podSpec(puller: Puller, nodes: Iterable<string>, options: ManifestOptions): Record<string, unknown> {
  const { tenant } = puller;
  const secrets = tenant?.secrets ?? options.pullSecrets ?? [];
  return {
    // The API server adds the secrets of an account to Pods that name none, which is all that a tenant's own account is here for.
    serviceAccountName: tenant === undefined ? INSTALL.puller : (tenant.serviceAccountName ?? TENANT_ACCOUNT),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 1,
    ...(puller.runtimeClassName === undefined ? {} : { runtimeClassName: puller.runtimeClassName }),
    ...(secrets.length > 0 ? { imagePullSecrets: secrets.map((name) => ({ name })) } : {}),
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: nodeTerms(nodes) } } },
    tolerations: [{ operator: 'Exists' }],
    securityContext: { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: { type: 'RuntimeDefault' } },
    ...((options.method ?? 'ImageVolume') === 'ImageVolume' ? asVolume(puller, options) : asContainer(puller, options)),
  };
}

/** What every container of ours is: no rights, and no resources asked for. The zeros keep a LimitRange from putting in its defaults. */
const CONFINED = {
  imagePullPolicy: 'IfNotPresent',
  resources: { requests: { cpu: '0', memory: '0', 'ephemeral-storage': '0' } },
  securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
};

function asVolume(puller: Puller, options: ManifestOptions): Record<string, unknown> {
  return {
    containers: [
      {
        ...CONFINED,
        name: 'puller',
        image: options.program,
        command: [PROGRAM, 'hold', MOUNT],
        startupProbe: startup([PROGRAM, 'check', MOUNT]),
        volumeMounts: [{ name: IMAGE_VOLUME, mountPath: MOUNT, readOnly: true }],
      },
    ],
    volumes: [{ name: IMAGE_VOLUME, image: { reference: puller.image, pullPolicy: 'IfNotPresent' } }],
  };
}

/** Our program is static, so it runs where an image has neither a shell nor a libc; of the image itself nothing is run. */
function asContainer(puller: Puller, options: ManifestOptions): Record<string, unknown> {
  const program = { name: PROGRAM_VOLUME, mountPath: PROGRAM_MOUNT };
  const copied = `${PROGRAM_MOUNT}${PROGRAM}`;
  return {
    initContainers: [
      { ...CONFINED, name: 'puller', image: options.program, command: [PROGRAM, 'copy', copied], volumeMounts: [program] },
    ],
    containers: [
      {
        ...CONFINED,
        name: IMAGE_CONTAINER,
        image: puller.image,
        // The image's own may be closed to our user.
        workingDir: '/',
        command: [copied, 'wait'],
        startupProbe: startup([copied, 'version']),
        volumeMounts: [{ ...program, readOnly: true }],
      },
    ],
    volumes: [{ name: PROGRAM_VOLUME, emptyDir: {} }],
  };
}

function startup(command: string[]): unknown {
  return { exec: { command }, periodSeconds: 1, failureThreshold: STARTUP_ATTEMPTS, timeoutSeconds: 10 };
}

/** Terms are ORed and each may name one node only (API validation of matchFields). */
export function nodeTerms(nodes: Iterable<string>): unknown[] {
  return [...nodes].sort().map((name) => ({ matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }] }));
}
