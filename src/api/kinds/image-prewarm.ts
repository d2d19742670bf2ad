import { z } from 'zod';
import { FAILURE_REASONS } from '../reasons.js';
import { OUTCOMES } from '../outcomes.js';
import { FORMATS } from './acceleration-policy.js';
import { conditionsSchema, labelSelectorSchema, objectName, tolerationSchema } from './common.js';
import type { KubeMeta } from './common.js';

const gangRef = z
  .object({
    apiGroup: z.string().max(253).meta({ description: 'API group of the job, "" for the core group.' }),
    kind: z.string().min(1).max(63).meta({ description: 'Kind of the job.' }),
    name: z.string().min(1).max(253).meta({ description: 'Name of the job, in the namespace of this object.' }),
    uid: z
      .string()
      .min(1)
      .max(64)
      .meta({ description: 'UID of the job: a job of the same name that comes later is another gang.' }),
  })
  .meta({ description: 'The job whose Pods form the gang. Set by the controller; absent when the object was made by hand.' });

const nodeAffinityTerm = z.object({
  matchExpressions: z
    .array(
      z.object({
        key: z.string().min(1).meta({ description: 'Label of the node.' }),
        operator: z
          .enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt'])
          .meta({ description: 'How the label relates to the values.' }),
        values: z
          .array(z.string())
          .max(1000)
          .optional()
          .meta({ description: 'Values; none for Exists and DoesNotExist, one integer for Gt and Lt.' }),
      }),
    )
    .max(50)
    .optional()
    .meta({ description: 'Terms on labels, all of which must hold.' }),
  matchFields: z
    .array(
      z.object({
        key: z.literal('metadata.name').meta({ description: 'The only field that the scheduler knows.' }),
        operator: z.enum(['In', 'NotIn']).meta({ description: 'Whether the node has that name.' }),
        values: z.array(z.string()).max(1).meta({ description: 'One node name.' }),
      }),
    )
    .max(50)
    .optional()
    .meta({ description: 'Terms on the name of the node, all of which must hold.' }),
});

const nodes = z
  .object({
    names: z
      .array(objectName)
      .max(5000)
      .optional()
      .meta({ description: 'Exactly these nodes.', listSet: true } satisfies KubeMeta),
    selector: labelSelectorSchema.optional().meta({ description: 'Nodes with these labels.' }),
    affinity: z
      .array(nodeAffinityTerm)
      .max(20)
      .optional()
      .meta({ description: 'Required node affinity terms (ORed), as in a Pod.' }),
    count: z
      .int()
      .min(0)
      .max(100_000)
      .optional()
      .meta({ description: 'How many of the candidate nodes have to be warm; all of them when absent.' }),
  })
  .meta({
    description: 'Where the images have to be. Exactly one of names, selector and affinity.',
    cel: [
      {
        rule: '(has(self.names) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.affinity) ? 1 : 0) == 1',
        message: 'exactly one of names, selector and affinity must be set',
      },
    ],
  } satisfies KubeMeta);

const target = z
  .object({
    name: z.string().min(1).max(63).meta({ description: 'Name of the podSet or task.' }),
    images: z
      .array(z.object({ reference: z.string().min(1).max(512).meta({ description: 'The image as the Pod template names it.' }) }))
      .min(1)
      .max(32)
      .meta({ description: 'Images of all containers of these Pods.' }),
    imagePullSecrets: z
      .array(z.object({ name: objectName.meta({ description: 'Name of a Secret in the namespace of this object.' }) }))
      .max(16)
      .optional()
      .meta({ description: 'Secrets with which the Pods pull.' }),
    serviceAccountName: objectName.optional().meta({ description: 'Service account of the Pods, whose pull secrets count too.' }),
    runtimeClassName: objectName
      .optional()
      .meta({ description: 'Selects the snapshotter that unpacks the image, where nodes have several.' }),
    tolerations: z
      .array(tolerationSchema)
      .max(32)
      .optional()
      .meta({ description: 'Tolerations of the Pods: nodes with other taints are no candidates.' }),
    nodes,
  })
  .meta({ description: 'One podSet: Pods that share images, secrets and eligible nodes.' });

export const imagePrewarmSpec = z
  .object({
    gangRef: gangRef.optional(),
    targets: z
      .array(target)
      .min(1)
      .max(18)
      .meta({ description: 'What has to be warm, one entry per podSet or task.', listMapKeys: ['name'] } satisfies KubeMeta),
    seed: z
      .object({
        dragonfly: z
          .object({
            name: z.string().min(1).max(63).meta({ description: 'Entry of the configuration.' }),
            scope: z
              .enum(['single_seed_peer', 'all_seed_peers', 'all_peers'])
              .optional()
              .meta({ description: 'Peers that are seeded.' }),
          })
          .optional()
          .meta({ description: 'A Dragonfly cluster.' }),
      })
      .optional()
      .meta({ description: 'Seed a P2P network before nodes pull. Not supported yet: an object that asks for it is Invalid.' }),
    pull: z
      .object({
        rampUp: z.enum(['SlowStart', 'Immediate', 'SeedThenAll']).default('SlowStart').meta({
          description:
            'How fast the number of pulling nodes grows. SlowStart: one node, and one more for each that is warm. SeedThenAll: one node, then all, for mirrors between nodes. Immediate: all.',
        }),
        maxConcurrentNodes: z
          .int()
          .min(1)
          .max(5000)
          .optional()
          .meta({ description: 'Nodes that pull for this object at once; the budgets of the configuration apply as well.' }),
        busyNodes: z
          .enum(['Allow', 'Avoid'])
          .default('Allow')
          .meta({ description: 'Avoid: no pull begins on a node while other Pods start there or a gang runs on it.' }),
      })
      .optional()
      .meta({ description: 'How nodes pull.' }),
    pin: z
      .enum(['AtRelease', 'AtQueue', 'Never'])
      .default('AtRelease')
      .meta({ description: 'When the digest of a moving tag is frozen for the rest of the life of the job.' }),
    retain: z
      .enum(['UntilGangStarts', 'WhileGangRuns', 'Always', 'Never'])
      .default('UntilGangStarts')
      .meta({ description: 'How long pullers keep the images from garbage collection.' }),
    spareNodes: z.int().min(0).max(1000).default(0).meta({ description: 'Nodes to warm beyond those that the gang needs.' }),
    activeDeadlineSeconds: z.int().min(1).optional().meta({
      description:
        'Give up after this time; derived from image size when absent. A gang that waits in its queue is tried until quota is reserved.',
    }),
    ttlSecondsAfterFinished: z
      .int()
      .min(0)
      .optional()
      .meta({ description: 'Delete this object so long after it finished; only for objects made by hand.' }),
    suspend: z.boolean().default(false).meta({ description: 'Stop pulling; what is warm stays warm.' }),
  })
  .meta({ description: 'What to warm and where.' });

const count = z.int().min(0);

export const imagePrewarmStatus = z
  .object({
    observedGeneration: count.optional().meta({ description: 'Generation of the spec that this status is about.' }),
    conditions: conditionsSchema.optional(),
    placement: z
      .enum(['Assigned', 'Candidates'])
      .optional()
      .meta({ description: 'Whether the nodes are known exactly or are candidates.' }),
    progress: z.string().optional().meta({ description: 'Warm and desired nodes, for example 48/64.' }),
    queue: z.string().optional().meta({ description: 'Queue in which the gang waits.' }),
    gang: z.string().optional().meta({ description: 'Kind/name of the gang.' }),
    size: z.string().optional().meta({ description: 'Bytes to pull per node, for people.' }),
    nodes: z
      .object({
        desired: count.meta({ description: 'Nodes that have to be warm.' }),
        warm: count.meta({ description: 'Nodes on which every image is proven to be.' }),
        pulling: count.meta({ description: 'Nodes that pull now.' }),
        pending: count.meta({ description: 'Nodes whose turn has not come.' }),
        failed: count.meta({ description: 'Nodes on which an image cannot be had; see failures.' }),
      })
      .optional()
      .meta({ description: 'Nodes by state; desired is the sum of the others.' }),
    targets: z
      .array(
        z.object({
          name: z.string().meta({ description: 'Name of the target.' }),
          images: z
            .array(
              z.object({
                source: z.string().meta({ description: 'The image as the Pod template names it.' }),
                resolved: z.string().optional().meta({ description: 'What Pods of the gang are given: repository@digest.' }),
                digest: z.string().optional().meta({ description: 'Digest of the source manifest or index.' }),
                sizeBytes: z.int().min(0).optional().meta({
                  description: 'Compressed bytes of one platform; absent where the registry shows the image to nodes only.',
                }),
                outcome: z
                  .enum(OUTCOMES)
                  .optional()
                  .meta({ description: 'What was decided; docs/reasons.md explains each word.' }),
                format: z.enum(FORMATS).optional().meta({ description: 'Format of the variant; only for outcome accelerated.' }),
                portable: z.boolean().optional().meta({
                  description:
                    'Whether nodes without a snapshotter for the format run the variant too; only for outcome accelerated.',
                }),
                pulledWith: z.enum(['Harbinger', 'Workload']).optional().meta({
                  description:
                    'Whose credentials pull the image: those of Harbinger or of nodes (when absent too), or the pull secrets of the target, in the namespace of this object.',
                }),
                message: z.string().max(1024).optional().meta({ description: 'The decision in a sentence.' }),
              }),
            )
            .meta({ description: 'One entry per image of the target.' }),
        }),
      )
      .optional()
      .meta({ description: 'The record of what the gang runs; the webhook reads it.', listMapKeys: ['name'] } satisfies KubeMeta),
    failures: z
      .array(
        z.object({
          node: z.string().meta({ description: 'Name of the node.' }),
          image: z.string().meta({ description: 'The image that is not there.' }),
          reason: z.enum(FAILURE_REASONS).meta({ description: 'Why; docs/reasons.md explains each word.' }),
          message: z.string().max(1024).meta({ description: 'What the kubelet or the registry said.' }),
        }),
      )
      .max(50)
      .optional()
      .meta({ description: 'At most 50 failures, oldest kept.' }),
    truncated: z.boolean().optional().meta({ description: 'Whether there are more failures than are listed.' }),
    estimatedCompletionTime: z
      .string()
      .optional()
      .meta({ format: 'date-time', description: 'When all nodes will be warm at the present rate.' }),
    startTime: z.string().optional().meta({
      format: 'date-time',
      description:
        'When the first node began to pull; counted anew after an edit, and after a time in which none was allowed to.',
    }),
    completionTime: z
      .string()
      .optional()
      .meta({ format: 'date-time', description: 'When all nodes were warm for the first time since the spec was edited last.' }),
    holdDeadline: z
      .string()
      .optional()
      .meta({ format: 'date-time', description: 'When the hold on the gang ends at the latest.' }),
  })
  .meta({ description: 'Observed state. Puller Pods are the per-node truth.' });

export type ImagePrewarmSpec = z.infer<typeof imagePrewarmSpec>;
export type ImagePrewarmStatus = z.infer<typeof imagePrewarmStatus>;
export type PrewarmTarget = ImagePrewarmSpec['targets'][number];
export type GangRef = NonNullable<ImagePrewarmSpec['gangRef']>;
export type NodeFailure = NonNullable<ImagePrewarmStatus['failures']>[number];
