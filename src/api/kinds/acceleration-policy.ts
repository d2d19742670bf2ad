import { z } from 'zod';
import type { Condition } from '../conditions.js';
import { conditionsSchema, labelSelectorSchema, quantitySchema } from './common.js';
import type { KubeMeta } from './common.js';

export const FORMATS = ['nydus', 'estargz', 'zstdchunked', 'soci', 'overlaybd', 'zstd'] as const;
export type Format = (typeof FORMATS)[number];

const variant = z
  .object({
    format: z.enum(FORMATS).meta({ description: 'Format of the variant.' }),
    discover: z
      .object({
        tagSuffix: z
          .string()
          .min(1)
          .max(64)
          .regex(/^[A-Za-z0-9_.-]+$/)
          .optional()
          .meta({ description: 'The variant has the tag of the source with this suffix.' }),
        index: z.literal(true).optional().meta({ description: 'The variant is a child of the same index.' }),
        referrers: z.literal(true).optional().meta({ description: 'The variant refers to the source (OCI referrers API).' }),
        repositoryTemplate: z
          .string()
          .min(1)
          .max(512)
          .optional()
          .meta({ description: 'Repository of the variant; {repository} and {tag} stand for those of the source.' }),
      })
      .meta({
        description: 'Where the variant is found. Exactly one.',
        cel: [
          {
            rule: '(has(self.tagSuffix) ? 1 : 0) + (has(self.index) ? 1 : 0) + (has(self.referrers) ? 1 : 0) + (has(self.repositoryTemplate) ? 1 : 0) == 1',
            message: 'exactly one of tagSuffix, index, referrers and repositoryTemplate must be set',
          },
        ],
      } satisfies KubeMeta),
  })
  .meta({ description: 'A variant to look for.' });

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
    freshness: z
      .enum(['Exact', 'Probable'])
      .default('Exact')
      .meta({ description: 'How surely a variant must be the same program as its source.' }),
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
  })
  .meta({ description: 'Observed state.' });

export type AccelerationPolicySpec = z.infer<typeof accelerationPolicySpec>;
export type VariantRule = AccelerationPolicySpec['variants'][number];

/** The status as it is written: conditions are always there. */
export interface PolicyStatus {
  observedGeneration?: number;
  conditions: Condition[];
}
