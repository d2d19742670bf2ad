import { z } from 'zod';
import type { Condition } from '../conditions.js';
import type { Outcome } from '../outcomes.js';
import { OUTCOMES } from '../outcomes.js';
import { conditionsSchema, labelSelectorSchema, quantitySchema } from './common.js';
import type { KubeMeta } from './common.js';

export const FORMATS = ['nydus', 'estargz', 'zstdchunked', 'soci', 'overlaybd', 'zstd'] as const;
export type Format = (typeof FORMATS)[number];

/**
 * A repository path of the registry of the source, and a tag behind a colon if it is not that of the source. There is no way to write a host:
 * the credentials of the Pod must serve for the variant too.
 */
export const REPOSITORY_TEMPLATE = /^(?:[a-z0-9._/-]|\{repository\}|\{tag\})+(?::(?:[A-Za-z0-9_.-]|\{tag\})+)?$/;

const DISCOVER_ONE = 'exactly one of tagSuffix, index, referrers and repositoryTemplate must be set';
const DISCOVER_INDEX =
  'index finds a second image of a platform that can run alone; a Nydus or SOCI image in the index of the source needs no rule, as nodes find it themselves';
/** Formats whose part of an index cannot run without the rest. */
const NOT_ALONE: readonly Format[] = ['nydus', 'soci'];

const discover = z
  .object({
    tagSuffix: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Za-z0-9_.-]+$/)
      .optional()
      .meta({ description: 'The variant has the tag of the source with this suffix, in the same repository.' }),
    index: z.literal(true).optional().meta({
      description: 'The variant is a second image for the platform in the index of the source, as podman and buildah add.',
    }),
    referrers: z.literal(true).optional().meta({
      description:
        'The variant refers to the source (OCI subject). The registry must have the referrers API or the fallback tag.',
    }),
    repositoryTemplate: z.string().min(1).max(512).regex(REPOSITORY_TEMPLATE).optional().meta({
      description:
        'Repository of the variant in the registry of the source, and its tag behind a colon if it is another; {repository} and {tag} stand for those of the source. For example lazy/{repository}:{tag}-nydus.',
    }),
  })
  .refine((ways) => Object.values(ways).filter((way) => way !== undefined).length === 1, { message: DISCOVER_ONE })
  .meta({
    description: 'Where the variant is found. Exactly one.',
    cel: [
      {
        rule: '(has(self.tagSuffix) ? 1 : 0) + (has(self.index) ? 1 : 0) + (has(self.referrers) ? 1 : 0) + (has(self.repositoryTemplate) ? 1 : 0) == 1',
        message: DISCOVER_ONE,
      },
    ],
  } satisfies KubeMeta);

const variant = z
  .object({
    format: z.enum(FORMATS).meta({ description: 'Format of the variant; docs/formats.md explains each.' }),
    discover,
  })
  .refine(({ format, discover: { index } }) => index === undefined || !NOT_ALONE.includes(format), { message: DISCOVER_INDEX })
  .meta({
    description: 'A variant to look for.',
    cel: [
      {
        rule: `!(self.format in [${NOT_ALONE.map((name) => `'${name}'`).join(', ')}] && has(self.discover.index))`,
        message: DISCOVER_INDEX,
      },
    ],
  } satisfies KubeMeta);

export const accelerationPolicySpec = z
  .object({
    match: z
      .object({
        namespaceSelector: labelSelectorSchema.optional().meta({ description: 'Namespaces with these labels; all when absent.' }),
        images: z
          .array(z.string().min(1).max(512))
          .max(200)
          .optional()
          .meta({ description: 'Image patterns: * within a path component, ** across them. All images when absent.' }),
        excludeImages: z
          .array(z.string().min(1).max(512))
          .max(200)
          .optional()
          .meta({ description: 'Image patterns that do not match, whatever images says.' }),
      })
      .optional()
      .meta({ description: 'Which images in which namespaces; all when absent.' }),
    priority: z
      .int()
      .min(-1_000_000)
      .max(1_000_000)
      .default(0)
      .meta({ description: 'The matching policy with the highest priority decides; ties go to the first name.' }),
    mode: z
      .enum(['Enforce', 'Audit'])
      .default('Enforce')
      .meta({ description: 'Audit records the decision and changes nothing.' }),
    variants: z.array(variant).min(1).max(16).meta({ description: 'Variants in order of preference.' }),
    freshness: z.enum(['Exact', 'Probable']).default('Exact').meta({
      description:
        'How surely a variant must be the same program as its source. Exact: a record, or what it is made of, proves it. Probable: for variants without any, equal config (time of creation, history, command, environment) is enough.',
    }),
    output: z
      .enum(['Digest', 'TagAndDigest', 'Tag'])
      .default('Digest')
      .meta({ description: 'Form of the image in the Pod. Only Digest lets the scheduler see that a node has the image.' }),
    whenPrewarmed: z.enum(['Source', 'Variant']).default('Source').meta({ description: 'What a prewarmed gang runs.' }),
    maxImageSize: quantitySchema.optional().meta({
      description: 'Sources with more compressed bytes (of one platform) are left alone (too-large); for example 30Gi.',
    }),
    nodePoolClosed: z
      .boolean()
      .default(false)
      .meta({ description: 'No node of another kind will join the nodes that the Pods may land on.' }),
  })
  .meta({ description: 'Which images may be replaced by which variants.' });

export const accelerationPolicyStatus = z
  .object({
    observedGeneration: z.int().min(0).optional().meta({ description: 'Generation of the spec that this status is about.' }),
    conditions: conditionsSchema.optional(),
    decisions: z
      .object({
        accelerated: z.int().min(0).meta({ description: 'Replaced by a variant.' }),
        left: z.int().min(0).meta({ description: 'Left as they were.' }),
      })
      .optional()
      .meta({ description: 'Images of new Pods that this policy decided about, since it was made; counted to the minute.' }),
    lastProblem: z
      .object({
        time: z.string().meta({ format: 'date-time', description: 'When.' }),
        outcome: z.enum(OUTCOMES).meta({ description: 'What became of the image; docs/reasons.md explains each.' }),
        image: z.string().max(1024).meta({ description: 'The image.' }),
        message: z.string().max(1024).meta({ description: 'Why, in a sentence for people.' }),
      })
      .optional()
      .meta({ description: 'The latest image that was left for something that somebody can mend.' }),
  })
  .meta({ description: 'Observed state.' });

export type AccelerationPolicySpec = z.infer<typeof accelerationPolicySpec>;
export type VariantRule = AccelerationPolicySpec['variants'][number];

/** What the controller writes of the status: conditions are always there. */
export interface PolicyStatus {
  observedGeneration?: number;
  conditions: Condition[];
}

/** What the webhook's replicas write of the status. */
export interface PolicyTally {
  decisions: { accelerated: number; left: number };
  lastProblem?: { time: string; outcome: Outcome; image: string; message: string };
}
