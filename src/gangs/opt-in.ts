import { parseDuration } from '../api/duration.js';
import { ANNOTATION } from '../api/names.js';
import { MAX_HOLD_MS } from './hold.js';

/** The objects that may say whether a gang is prewarmed, nearest first. This order is the rule; docs/annotations.md shows it. */
export const OPT_IN_ORDER = ['workload', 'job', 'template', 'namespace'] as const;
export type OptInSource = (typeof OPT_IN_ORDER)[number];

type Annotations = Readonly<Record<string, string>>;

/** Annotations of each object; absent where the object is not known. Of several templates the first that says something counts. */
export interface OptInSources {
  workload?: Annotations | undefined;
  job?: Annotations | undefined;
  templates?: readonly Annotations[] | undefined;
  namespace?: Annotations | undefined;
}

export interface OptIn {
  optedIn: boolean;
  /** The object whose word counted; absent when none said anything. */
  source?: OptInSource;
  /** Longest hold with quota reserved in ms; absent when no object names one. */
  holdMs?: number;
  /** Values that could not be used, one sentence each, for the message on the check. */
  problems: string[];
}

function nearest(sources: OptInSources, annotation: string): { source: OptInSource; value: string } | undefined {
  for (const source of OPT_IN_ORDER) {
    const places = source === 'template' ? (sources.templates ?? []) : [sources[source]];
    const value = places.map((p) => p?.[annotation]).find((v) => v !== undefined);
    if (value !== undefined) return { source, value };
  }
  return undefined;
}

/**
 * Whether a gang asked to be prewarmed and how long it may be held. The nearest object wins even when its value is bad: a
 * gang with a typo is left alone (never held against its will), it does not fall back to what its namespace says.
 */
export function optIn(sources: OptInSources): OptIn {
  const problems: string[] = [];
  const said = nearest(sources, ANNOTATION.prewarm);
  if (said !== undefined && said.value !== 'true' && said.value !== 'false') {
    problems.push(
      `annotation ${ANNOTATION.prewarm} of the ${said.source} is "${said.value}": it must be "true" or "false", and counts as "false"`,
    );
  }
  const hold = nearest(sources, ANNOTATION.prewarmHold);
  let holdMs: number | undefined;
  if (hold !== undefined) {
    holdMs = parseDuration(hold.value);
    if (holdMs === undefined) {
      problems.push(
        `annotation ${ANNOTATION.prewarmHold} of the ${hold.source} is "${hold.value}": it must be a duration like "10m", and counts as "0"`,
      );
      holdMs = 0;
    }
    holdMs = Math.min(holdMs, MAX_HOLD_MS);
  }
  return {
    optedIn: said?.value === 'true',
    ...(said === undefined ? {} : { source: said.source }),
    ...(holdMs === undefined ? {} : { holdMs }),
    problems,
  };
}
