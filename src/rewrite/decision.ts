import { clip } from '../api/conditions.js';
import type { Decision, Outcome } from '../api/outcomes.js';

/** Longest message of one decision; all decisions of a Pod share one annotation. */
const MAX_MESSAGE = 256;

export type Details = {
  [K in Exclude<keyof Decision, 'container' | 'source' | 'outcome' | 'image'>]?: Decision[K] | undefined;
};

/** The decision that a container keeps `source`. */
export function leave(container: string, source: string, { outcome, ...details }: Details & { outcome: Outcome }): Decision {
  return decision({ container, source, outcome, image: source }, details);
}

/** A decision without absent fields, which are no JSON, and with a message of bounded length. */
export function decision(core: Pick<Decision, 'container' | 'source' | 'outcome' | 'image'>, details: Details): Decision {
  const message = details.message === undefined ? {} : { message: clip(details.message, MAX_MESSAGE) };
  const known = Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined));
  return { ...core, ...known, ...message };
}
