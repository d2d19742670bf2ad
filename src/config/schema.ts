import { z } from 'zod';
import { GENERIC_KINDS } from '../api/generic-kinds.js';
import { FORMATS } from '../api/kinds/acceleration-policy.js';
import { labelSelectorSchema, objectName } from '../api/kinds/common.js';

/** Controllers that never compare the images of their Pods with those they asked for. Bare Pods have no such controller. */
const DEFAULT_OWNERS: string[] = [
  'Job.batch',
  'ReplicaSet.apps',
  'StatefulSet.apps',
  'DaemonSet.apps',
  'ReplicationController',
  // Executors of Spark are made by the driver, a Pod, which asks no more of them than to run.
  'Pod',
  'JobSet.jobset.x-k8s.io',
  'LeaderWorkerSet.leaderworkerset.x-k8s.io',
  'MPIJob.kubeflow.org',
  'PyTorchJob.kubeflow.org',
  'TFJob.kubeflow.org',
  'XGBoostJob.kubeflow.org',
  'PaddleJob.kubeflow.org',
  'JAXJob.kubeflow.org',
  'TrainJob.trainer.kubeflow.org',
  'RayCluster.ray.io',
  'RayJob.ray.io',
  'Job.batch.volcano.sh',
  'AppWrapper.workload.codeflare.dev',
  'SparkApplication.sparkoperator.k8s.io',
  'RoleBasedGroup.workloads.x-k8s.io',
  'PodClique.grove.io',
];

const host = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[A-Za-z0-9.[\]:-]+$/, 'a host, with a port if it is not 443, and without scheme or path');

const credential = z
  .strictObject({
    dockerConfigFile: z
      .string()
      .min(1)
      .optional()
      .meta({ description: 'File in the format of ~/.docker/config.json; read again when it changes.' }),
    exec: z
      .strictObject({
        command: z.string().min(1).meta({ description: 'Path of a kubelet credential provider plugin.' }),
        args: z.array(z.string().max(1024)).max(32).default([]).meta({ description: 'Its arguments.' }),
        env: z
          .record(z.string(), z.string())
          .default({})
          .meta({ description: 'Environment variables that are added to those of Harbinger.' }),
        timeoutSeconds: z.int().min(1).max(60).default(10).meta({ description: 'The plugin is ended after this time.' }),
      })
      .optional()
      .meta({
        description:
          'A program that speaks credentialprovider.kubelet.k8s.io/v1, such as those that kubelets use for the registries of clouds.',
      }),
    forPods: z.boolean().default(true).meta({
      description:
        "False: images of Pods and of gangs are looked up without this credential, so that Harbinger's rights show nobody existence, digest, size or variants of a private image. Pods' own secrets still count where rewrite.podSecrets allows; gangs have none here, so their private images are not warmed.",
    }),
  })
  .refine((c) => (c.dockerConfigFile === undefined) !== (c.exec === undefined), 'exactly one of dockerConfigFile and exec');

const registry = z
  .strictObject({
    host: host.meta({ description: 'Registry as image references name it, for example registry.example.com:5000 or docker.io.' }),
    allow: z
      .boolean()
      .default(true)
      .meta({ description: 'False: Harbinger never asks this registry, and its images are left alone.' }),
    caFile: z.string().min(1).optional().meta({
      description:
        'PEM file with the authorities to trust for this registry, instead of those of the system; read again when it changes.',
    }),
    plainHTTP: z.boolean().default(false).meta({ description: 'The registry speaks HTTP without TLS.' }),
    allowLocalAddresses: z.boolean().default(false).meta({
      description:
        'The host may resolve to a loopback or link-local address; refused otherwise, because the metadata service of a cloud is one.',
    }),
    mirrors: z.array(host).max(8).default([]).meta({
      description:
        'Hosts that are asked first, in this order; any failure leads to the next. List a mirror as a registry too where it needs a caFile, plainHTTP or a credential: it is never sent that of this registry.',
    }),
    credential: credential.optional().meta({ description: "Harbinger's own read-only credential; exactly one source." }),
  })
  .meta({ description: 'What to know of one registry.' });

const budgets = z
  .strictObject({
    admissionMs: z.int().min(50).max(2500).default(1000).meta({
      description:
        'Time for one admission; images that are not decided by then are left alone. Must stay below timeoutSeconds of the webhook configuration.',
    }),
    maxInFlightRequests: z.int().min(1).max(10_000).default(1000).meta({
      description:
        'Admissions at once in one replica; above it Pods pass unread. Most of them wait for a registry, which costs little.',
    }),
    maxInFlightBytes: z
      .int()
      .min(1 << 20)
      .default(64 << 20)
      .meta({ description: 'Bytes of admissions at once in one replica; above it Pods pass unread.' }),
    eventLoopLagMs: z.int().min(10).default(200).meta({ description: 'Lag of the event loop above which Pods pass unread.' }),
    maxRegistryCalls: z
      .int()
      .min(1)
      .max(10_000)
      .default(128)
      .meta({ description: 'Calls to registries at once in one process; more wait, and their images are left alone in time.' }),
    maxRegistryCallsPerHost: z
      .int()
      .min(1)
      .max(1000)
      .default(16)
      .meta({ description: 'Calls to one registry at once in one process; no more than 16 connections are opened to one.' }),
    maxPullingNodes: z
      .int()
      .min(0)
      .max(5000)
      .default(100)
      .meta({ description: 'Nodes that pull for Harbinger at once in the whole cluster.' }),
    maxPullingNodesPerRegistry: z
      .int()
      .min(0)
      .max(5000)
      .default(50)
      .meta({ description: 'Nodes that pull from one registry at once.' }),
    maxPullingNodesPerNamespace: z.int().min(0).max(5000).optional().meta({
      description: 'Nodes that pull at once for the ImagePrewarms of one namespace; only the other limits hold when absent.',
    }),
    maxPullingGiBPerNamespace: z.int().min(0).max(1_000_000).optional().meta({
      description:
        'Compressed GiB that are pulled at once for the ImagePrewarms of one namespace; no limit when absent. An image that is larger is pulled by one node at a time.',
    }),
    retainAfterAdmissionMinutes: z.int().min(0).max(1440).default(15).meta({
      description:
        'How long after its admission pullers keep the images of a gang whose Pods do not all run; once they do, pullers go.',
    }),
    unstampedHoldSeconds: z
      .int()
      .min(5)
      .max(600)
      .default(30)
      .meta({ description: 'A held gang whose hold has no deadline is released after this time: nobody vouches for it.' }),
    assumedPullMiBPerSecond: z
      .int()
      .min(1)
      .max(100_000)
      .default(50)
      .meta({ description: 'Rate per node from which deadlines are derived when a prewarm names none.' }),
    minDeadlineSeconds: z.int().min(1).max(86_400).default(600).meta({ description: 'Shortest derived deadline of a prewarm.' }),
    gangsAheadPerQueue: z.int().min(1).max(1000).default(8).meta({
      description: 'Gangs at the head of each queue whose images are pulled; those behind them wait with reason QueuePosition.',
    }),
    tagRecheckSeconds: z
      .int()
      .min(1)
      .max(86_400)
      .default(60)
      .meta({ description: 'How often a moving tag is looked up again while its gang waits warm.' }),
  })
  .meta({ description: 'Limits on what Harbinger takes from the cluster.' });

const pullers = z
  .strictObject({
    pullSecrets: z.array(objectName).max(16).default([]).meta({
      description:
        "Secrets in Harbinger's namespace with which pullers pull, as imagePullSecrets; none where the kubelets' credential providers serve.",
    }),
    method: z.enum(['Auto', 'ImageVolume', 'Container']).default('Auto').meta({
      description:
        'How pullers have the kubelet pull: ImageVolume mounts the image, Container runs the puller program inside a container of the image, which works before Kubernetes 1.35. Auto takes ImageVolume until the API server is seen to drop image volumes.',
    }),
    workloadNamespaces: z.enum(['Off', 'WhereAllowed']).default('Off').meta({
      description:
        "WhereAllowed: images that only a gang's own pull secrets may read are pulled by DaemonSets in its namespace, where the controller may make them and read the secrets; bind ClusterRole harbinger-workload-pullers there. Off: such images are not warmed.",
    }),
  })
  .meta({ description: 'The Pods that hold images on nodes.' });

const holds = z
  .strictObject({
    gatedJobs: z.enum(['Off', 'On']).default('Off').meta({
      description:
        'On: jobs made with annotation kueue.x-k8s.io/admission-gated-by: harbinger.dev/image-prewarm wait without quota until their images are warm; bind ClusterRole harbinger-gated-jobs to both processes. Off: nobody takes the gate off such jobs.',
    }),
    gatedSeconds: z.int().min(0).max(86_400).default(600).meta({
      description:
        'How long a gated job waits at most, from its creation on, where neither it nor its Pod template or namespace names a time in harbinger.dev/prewarm-hold.',
    }),
  })
  .meta({ description: 'What may keep a gang from starting.' });

const operatorImages = z
  .strictObject({
    kind: z
      .string()
      .max(317)
      .regex(/^[A-Za-z0-9]+(\.[a-z0-9.-]+)?$/)
      .meta({ description: 'Kind.group of the job.' }),
    podSets: z
      .array(z.string().min(1).max(63))
      .max(18)
      .optional()
      .meta({ description: 'Only Pods of these podSets; all when absent.' }),
    images: z.array(z.string().min(1).max(512)).min(1).max(8).meta({ description: 'Images as the operator writes them.' }),
  })
  .meta({ description: 'What one operator adds.' });

const gangs = z
  .strictObject({
    withoutKueue: z
      .array(z.enum(GENERIC_KINDS))
      .max(64)
      .default([...GENERIC_KINDS])
      .meta({
        description:
          'Kinds of jobs (Kind.group) that are warmed while they are suspended, where they are annotated with harbinger.dev/prewarm themselves and Kueue does not queue them. Kinds that the API server does not serve cost nothing.',
      }),
    operatorImages: z.array(operatorImages).max(64).default([]).meta({
      description:
        'Images that operators add to Pods and that no template shows, for example alpine:3.10 in workers of a PyTorchJob. They are warmed with the rest, and keep a gang from being warm if they cannot be had.',
    }),
  })
  .meta({ description: 'Which gangs are seen beside those of Kueue, and what their templates do not say.' });

/** Taints that mark a kind of machine: they come with the node and leave with it. */
const DEFAULT_LASTING_TAINTS: string[] = [
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
  'nvidia.com/gpu',
];

const taintKey = z
  .string()
  .max(317)
  .regex(/^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/, 'the key of a taint')
  .refine(
    (key) => !/^node(\.cloudprovider)?\.kubernetes\.io\//.test(key),
    'Kubernetes sets and removes this taint with the state of a node, so it never lasts',
  );

const nodes = z
  .strictObject({
    allow: labelSelectorSchema.optional().meta({ description: 'Only these nodes are warmed; all when absent.' }),
    exclude: labelSelectorSchema
      .optional()
      .meta({ description: 'These nodes are never warmed. Control planes and nodes labelled harbinger.dev/exclude never are.' }),
    steer: z.enum(['Off', 'Preferred']).default('Off').meta({
      description:
        'Preferred: Pods of prewarmed gangs that have no preferred node affinity get one for the nodes on which their images are held, up to 256 of them. It keeps no Pod from any node.',
    }),
    lastingTaints: z.array(taintKey).max(100).default(DEFAULT_LASTING_TAINTS).meta({
      description:
        'Keys of taints that stay for the life of a node. Only these prove that a Pod without a toleration cannot land there; all others may be gone before it is placed.',
    }),
  })
  .meta({ description: 'Which nodes may be warmed, and what keeps Pods from nodes for good.' });

const capability = z
  .strictObject({
    format: z.enum(FORMATS).meta({ description: 'Format that these nodes run although plain nodes do not.' }),
    nodeSelector: z.record(z.string(), z.string()).optional().meta({
      description:
        'Labels of nodes whose snapshotter reads the format, kept by whoever watches the snapshotter. An empty map declares every node.',
    }),
    runtimeClass: objectName.optional().meta({
      description:
        'The nodes that scheduling.nodeSelector of this RuntimeClass selects, instead of nodeSelector; none while it selects by no label.',
    }),
    condition: z.string().min(1).max(316).optional().meta({
      description: 'Node condition that has to be True as well, with a heartbeat that is young enough.',
    }),
    heartbeatSeconds: z
      .int()
      .min(10)
      .max(86_400)
      .default(600)
      .meta({ description: 'Oldest heartbeat of the condition that still counts.' }),
    privateImages: z.boolean().default(false).meta({
      description:
        'Snapshotters of these nodes have credentials of their own for private images. What a Pod or the kubelet has does not reach them, so while it is false images that nobody may read anonymously are left.',
    }),
  })
  .refine(
    (c) => (c.nodeSelector === undefined) !== (c.runtimeClass === undefined),
    'exactly one of nodeSelector and runtimeClass',
  )
  .meta({ description: 'Which nodes read a format that is not portable.' });

const rewrite = z
  .strictObject({
    imageVolumes: z.boolean().default(false).meta({
      description:
        'Image volumes of Pods get variants too; only of portable formats, because kubelets mount them in their own way.',
    }),
    ephemeralContainers: z.boolean().default(false).meta({
      description: 'Containers that kubectl debug adds get variants too; only of portable formats.',
    }),
    podSecrets: z.enum(['Off', 'WhereAllowed']).default('Off').meta({
      description:
        'WhereAllowed: images are looked up with the pull secrets of the Pod first, in namespaces that let the webhook get them.',
    }),
    owners: z
      .array(z.string().regex(/^(\*|[A-Za-z0-9]+(\.[a-z0-9.-]+)?)$/))
      .max(200)
      .default(DEFAULT_OWNERS)
      .meta({
        description:
          'Controllers (Kind.group, or * for all) whose Pods may be changed. Others compare their Pods with what they asked for and would make them again and again.',
      }),
  })
  .meta({ description: 'Whose images the webhook may change.' });

/** The one configuration file of all processes; docs/spec/config.md is generated from it. */
export const harbingerConfig = z
  .strictObject({
    mode: z.enum(['On', 'Observe', 'Off']).default('On').meta({
      description:
        'Observe plans and records, and changes nothing. Off is the kill switch: gangs are released, Pods pass unread.',
    }),
    scope: z.enum(['LabelledNamespaces', 'AllNamespaces']).default('LabelledNamespaces').meta({
      description:
        'Namespaces whose Pods the webhook rewrites: those labelled harbinger.dev/accelerate=enabled, or all that are not labelled disabled. The chart changes the namespaceSelector of the webhook configuration with it; with the plain manifests do that yourself (docs/runbook.md).',
    }),
    registries: z
      .array(registry)
      .max(200)
      .default([])
      .meta({ description: 'Registries that Harbinger may ask. Images of all others are left alone.' }),
    budgets: budgets.prefault({}),
    nodes: nodes.prefault({}),
    pullers: pullers.prefault({}),
    rewrite: rewrite.prefault({}),
    holds: holds.prefault({}),
    gangs: gangs.prefault({}),
    capabilities: z
      .array(capability)
      .max(32)
      .default([])
      .meta({ description: 'Which nodes read formats that are not portable: nydus alone, overlaybd.' }),
    dragonfly: z
      .array(z.strictObject({ name: z.string().min(1).max(63).meta({ description: 'Name that prewarms refer to.' }) }))
      .max(0, 'is not supported yet')
      .default([])
      .meta({ description: 'Reserved.' }),
  })
  .meta({ description: 'Configuration of Harbinger.' });

export type HarbingerConfig = Readonly<z.infer<typeof harbingerConfig>>;
export type RegistryConfig = HarbingerConfig['registries'][number];
export type Budgets = HarbingerConfig['budgets'];
