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

export const conditionSchema = z
  .object({
    type: z.string().max(316),
    status: z.enum(['True', 'False', 'Unknown']),
    reason: z.string().min(1).max(1024),
    message: z.string().max(32768),
    lastTransitionTime: z.string().meta({ format: 'date-time' }),
    observedGeneration: z.int().min(0).optional(),
  })
  .meta({ description: 'One aspect of the state of this object.' });

export const conditionsSchema = z
  .array(conditionSchema)
  .max(16)
  .meta({ description: 'Conditions; wait on Ready.', listMapKeys: ['type'] } satisfies KubeMeta);

const expression = z.object({
  key: z.string().min(1),
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
  values: z.array(z.string()).max(100).optional(),
});

export const labelSelectorSchema = z
  .object({
    matchLabels: z.record(z.string(), z.string()).optional(),
    matchExpressions: z.array(expression).max(20).optional(),
  })
  .meta({ description: 'A label selector; empty selects all.' });

export const tolerationSchema = z.object({
  key: z.string().optional(),
  operator: z.enum(['Exists', 'Equal', 'Lt', 'Gt']).optional(),
  value: z.string().optional(),
  effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
  tolerationSeconds: z.int().optional(),
});

/** Kubernetes quantity ("30Gi"): the grammar is checked, the value is not. */
export const quantitySchema = z
  .string()
  .regex(/^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$/)
  .meta({ description: 'Quantity, for example 30Gi.' });
