import type { Decision } from '../api/outcomes.js';
import type { Reference } from '../images/reference.js';
import { obstacleTo } from '../placement/landing.js';
import { decision, leave } from './decision.js';
import type { PodContainer } from './pod-view.js';
import { pickPolicy } from './policy-match.js';
import type { RecordHit, RecordedImage } from './record.js';
import type { Situation } from './situation.js';

export const PORTABLE_ONLY = 'image volumes and ephemeral containers get portable formats only, whatever the nodes can run';

interface Subject {
  container: PodContainer;
  source: string;
  reference: Reference;
}

/**
 * What the record of its gang gives one Pod. A variant was chosen for the nodes of its time; where this Pod may land on one that is not
 * proven to run it, or where nodes fail to pull it, the Pod gets the very source that the variant was made from: the same program (P3).
 */
export function decideRecorded(subject: Subject, { prewarm, image }: RecordHit, situation: Situation): Decision {
  const { container, source } = subject;
  const { resolved, outcome, sourceDigest, plain, format } = image;
  const known = { sourceDigest, prewarm };
  const { cause, text } = refusal(subject, image, situation) ?? {};
  if (cause === undefined) return decision({ container: container.name, source, outcome, image: resolved }, { ...known, format });
  if (plain === undefined)
    return leave(container.name, source, {
      ...known,
      outcome: cause,
      message: `the recorded variant is not given, and the record names no source digest: ${text ?? ''}`,
    });
  const message = `the source that was recorded, as its variant is not given: ${text ?? ''}`;
  return decision({ container: container.name, source, outcome: 'pinned', image: plain }, { ...known, message });
}

interface Refusal {
  cause: 'variant-missing' | 'node-incapable';
  text: string;
}

function refusal({ container, reference }: Subject, recorded: RecordedImage, situation: Situation): Refusal | undefined {
  if (recorded.outcome === 'pinned') return undefined;
  const failed = situation.quarantined?.(recorded.resolved);
  if (failed !== undefined) return { cause: 'variant-missing', text: failed };
  if (recorded.portable) return undefined;
  const text = container.kind === 'container' ? obstacle(reference, recorded, situation) : PORTABLE_ONLY;
  return text === undefined ? undefined : { cause: 'node-incapable', text };
}

function obstacle(reference: Reference, { format }: RecordedImage, situation: Situation): string | undefined {
  const { landing, policies, namespace } = situation;
  if (format === undefined) return 'the record does not say which nodes run it';
  const policy = pickPolicy(policies, namespace.labels, reference);
  return obstacleTo(format, landing, policy?.spec.nodePoolClosed ?? false);
}
