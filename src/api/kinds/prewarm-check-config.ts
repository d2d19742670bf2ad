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
  })
  .meta({ description: 'Parameters of a Kueue AdmissionCheck whose controllerName is harbinger.dev/image-prewarm.' });

export const prewarmCheckConfigStatus = z
  .object({ conditions: conditionsSchema.optional() })
  .meta({ description: 'Observed state.' });

export type PrewarmCheckConfigSpec = z.infer<typeof prewarmCheckConfigSpec>;
