import { z } from 'zod';

/** `.meta()` keys that the CRD generator understands beside JSON Schema's own; see tools/crds.ts. */
export interface KubeMeta {
  description?: string;
  /** x-kubernetes-list-map-keys; makes the list a map. */
  listMapKeys?: string[];
  /** x-kubernetes-list-type: set */
  listSet?: true;
  /** x-kubernetes-validations */
  cel?: { rule: string; message: string }[];
  /** x-kubernetes-preserve-unknown-fields */
  preserveUnknown?: true;
  intOrString?: true;
  [key: string]: unknown;
}

/** Names of most objects (RFC 1123 subdomain). What breaks it is refused here, with a message, and not later in an object of ours. */
export const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export const objectName = z.string().min(1).max(253).regex(DNS_SUBDOMAIN);

export const conditionSchema = z
  .object({
    type: z.string().max(316).meta({ description: 'What the condition is about.' }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'Whether it holds.' }),
    reason: z.string().min(1).max(1024).meta({ description: 'Why, in one word for programs; docs/reasons.md explains each.' }),
    message: z.string().max(32768).meta({ description: 'Why, in a sentence for people.' }),
    lastTransitionTime: z.string().meta({ format: 'date-time', description: 'When status changed last.' }),
    observedGeneration: z.int().min(0).optional().meta({ description: 'Generation of the spec that the condition is about.' }),
  })
  .meta({ description: 'One aspect of the state of this object.' });

export const conditionsSchema = z
  .array(conditionSchema)
  .max(16)
  .meta({ description: 'Conditions; wait on Ready.', listMapKeys: ['type'] } satisfies KubeMeta);

const expression = z.object({
  key: z.string().min(1).meta({ description: 'Label.' }),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']).meta({ description: 'How the label relates to the values.' }),
  values: z.array(z.string()).max(100).optional().meta({ description: 'Values; none for Exists and DoesNotExist.' }),
});

export const labelSelectorSchema = z
  .object({
    matchLabels: z.record(z.string(), z.string()).optional().meta({ description: 'Labels with these values.' }),
    matchExpressions: z.array(expression).max(20).optional().meta({ description: 'Further terms; all must hold.' }),
  })
  .meta({ description: 'A label selector; empty selects all.' });

export const tolerationSchema = z.object({
  key: z.string().optional().meta({ description: 'Key of the taint; all when absent.' }),
  operator: z
    .enum(['Exists', 'Equal', 'Lt', 'Gt'])
    .optional()
    .meta({ description: 'How the value of the taint is compared; Equal when absent.' }),
  value: z.string().optional().meta({ description: 'Value to compare with.' }),
  effect: z
    .enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute'])
    .optional()
    .meta({ description: 'Effect of the taint; all when absent.' }),
  tolerationSeconds: z.int().optional().meta({ description: 'How long a NoExecute taint is borne.' }),
});

/** Kubernetes quantity ("30Gi"): the grammar is checked, the value is not. */
export const quantitySchema = z
  .string()
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$/)
  .meta({ description: 'Quantity, for example 30Gi.' });
