import { z } from 'zod';
import { conditionsSchema } from './common.js';

export const prewarmCheckConfigSpec = z
  .object({
    defaultHoldSeconds: z.int().min(0).max(86_400).default(0).meta({
      description:
        'How long an opted-in gang may be held with quota reserved when it names no time itself. 0: never, so that GPUs are not hoarded.',
    }),
    minWarmPercent: z
      .int()
      .min(1)
      .max(100)
      .default(100)
      .meta({ description: 'Share of the desired nodes that have to be warm.' }),
    onTimeout: z.enum(['Start', 'Retry']).default('Start').meta({
      description:
        'What becomes of a gang whose hold is over while nodes are cold. Start: it starts cold. Retry: it gives its quota back and goes to the back of its priority in the queue, while its images are pulled on.',
    }),
    requeueAfterSeconds: z.int().min(0).max(86_400).default(0).meta({
      description:
        'With onTimeout Retry: for how long Kueue gives such a gang no quota again. 0: until its next turn. Kueue 0.19 keeps the present quota reserved for that time, so others get it only then.',
    }),
    maxRetries: z.int().min(1).max(100).default(3).meta({
      description: 'With onTimeout Retry: how often at most; then the gang starts cold.',
    }),
  })
  .meta({ description: 'Parameters of a Kueue AdmissionCheck whose controllerName is harbinger.dev/image-prewarm.' });

export const prewarmCheckConfigStatus = z
  .object({ conditions: conditionsSchema.optional() })
  .meta({ description: 'Observed state.' });

export type PrewarmCheckConfigSpec = z.infer<typeof prewarmCheckConfigSpec>;
