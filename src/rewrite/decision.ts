import { clip } from '../api/conditions.js';
import type { Decision, Outcome } from '../api/outcomes.js';

/** Longest message of one decision; all decisions of a Pod share one annotation. */
const MAX_MESSAGE = 256;

export type Details = {
  [K in Exclude<keyof Decision, 'container' | 'source' | 'outcome' | 'image'>]?: Decision[K] | undefined;
};

/** The decision that a container keeps `source`. */
export function leave(container: string, source: string, details: Details & { outcome: Outcome }): Decision {
  return decision({ container, source, outcome: details.outcome, image: source }, details);
}

/**
 * A decision without absent fields, which are no JSON, and with a message of bounded length. Field by field: this is done several times
 * for each Pod, and copying whatever is there took a tenth of an admission.
 */
export function decision(core: Pick<Decision, 'container' | 'source' | 'outcome' | 'image'>, details: Details): Decision {
  const { container, source, outcome, image } = core;
  const { policy, prewarm, sourceDigest, format, message } = details;
  const made: Decision = { container, source, outcome, image };
  if (policy !== undefined) made.policy = policy;
  if (prewarm !== undefined) made.prewarm = prewarm;
  if (sourceDigest !== undefined) made.sourceDigest = sourceDigest;
  if (format !== undefined) made.format = format;
  if (message !== undefined) made.message = clip(message, MAX_MESSAGE);
  return made;
}
