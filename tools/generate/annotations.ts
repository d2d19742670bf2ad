import { ANNOTATION } from '../../src/api/names.js';
import { MAX_HOLD_MS } from '../../src/gangs/hold.js';
import { OPT_IN_ORDER } from '../../src/gangs/opt-in.js';

/** Facts of one annotation, a row each; what it is good for and an example stand above them, written by hand. */
interface Facts {
  on: string;
  values: string;
  initial: string;
  writtenBy: string;
  readBy: string;
  /** Which of several objects counts. */
  precedence: string;
  /** What a value that cannot be used does. */
  typo: string;
  /** When a change is noticed. */
  changes: string;
}

const NEAREST = `the nearest that says something: ${OPT_IN_ORDER.join(', then ')}; its value counts even if it cannot be used`;
const POD_FIRST = 'the Pod before its Namespace';
const GANG_OBJECTS = 'Kueue Workload, the job and the jobs above it, Pod template, Namespace';
const OUTPUT = 'Harbinger alone';

/** Every annotation of src/api/names.ts; the type refuses one that is missing here. */
const FACTS: Readonly<Record<keyof typeof ANNOTATION, Facts>> = {
  prewarm: {
    on: GANG_OBJECTS,
    values: '`"true"`, `"false"`',
    initial: 'absent: not prewarmed, not held',
    writtenBy: 'users',
    readBy: 'controller',
    precedence: NEAREST,
    typo: 'counts as `"false"`; the message on the Kueue check names the object and the value',
    changes: 'at once, in both directions: `"false"` on a gang that is held lets it go (reason `OptedOut`)',
  },
  prewarmHold: {
    on: GANG_OBJECTS,
    values: `a duration such as \`"90s"\`, \`"10m"\`, \`"1h30m"\`, at most ${MAX_HOLD_MS / 3_600_000} hours; \`"0"\``,
    initial: 'that of the `PrewarmCheckConfig` of the check, else `"0"`: no hold once quota is reserved',
    writtenBy: 'users',
    readBy: 'controller; the watchdog of the webhook reads the deadline that follows from it',
    precedence: NEAREST,
    typo: 'counts as `"0"`; the message on the Kueue check names the object and the value',
    changes: 'at once: a shorter hold ends sooner, counted from the reservation of quota (of a gated job: from its creation)',
  },
  accelerate: {
    on: 'Pod template, Namespace',
    values: '`"false"`',
    initial: 'absent: images may be replaced where the namespace carries the label of the same name',
    writtenBy: 'users',
    readBy: 'webhook, `explain`, `simulate`',
    precedence: POD_FIRST,
    typo: 'anything but `"false"` changes nothing',
    changes: 'with the next Pod',
  },
  skipContainers: {
    on: 'Pod template, Namespace',
    values: 'names of containers, separated by commas; `volume/NAME` for an image volume',
    initial: 'absent: none is skipped',
    writtenBy: 'users',
    readBy: 'webhook, `explain`, `simulate`',
    precedence: POD_FIRST,
    typo: 'a name that no container has skips nothing',
    changes: 'with the next Pod',
  },
  decisions: {
    on: 'Pod',
    values: 'JSON: a list of `{container, source, outcome, image, policy, sourceDigest, format, message}`',
    initial: 'absent where no webhook has read the Pod, or its annotations would pass 200 KiB',
    writtenBy: 'webhook',
    readBy: 'people, `kubectl harbinger explain`; the webhook weighs what comes in with a Pod as a claim',
    precedence: 'one object only',
    typo: 'what cannot be read is written anew; a forged entry is weighed and never believed',
    changes: 'written once, when the Pod is made',
  },
  holdDeadline: {
    on: 'Kueue Workload',
    values: 'a time, RFC 3339',
    initial: 'absent: no hold was begun',
    writtenBy: `${OUTPUT}: the controller before a hold begins, and \`release\``,
    readBy: 'controller, watchdog of the webhook',
    precedence:
      'one object only; one from before the present reservation, or for another one by [hold-since](hold-since.md), counts for nothing',
    typo: 'counts as absent: the hold ends `budgets.unstampedHoldSeconds` after the reservation',
    changes: `at once; one later than ${MAX_HOLD_MS / 3_600_000} hours after the reservation is cut to that`,
  },
  holdSince: {
    on: 'Kueue Workload',
    values: 'a time, RFC 3339',
    initial: 'absent: the deadline counts for any reservation that began before it',
    writtenBy: `${OUTPUT}: the controller and \`release\`, together with \`hold-deadline\``,
    readBy: 'controller, watchdog of the webhook',
    precedence: 'one object only',
    typo: 'counts as absent',
    changes: 'at once',
  },
  gateDeadline: {
    on: 'Kueue Workload',
    values: 'a time, RFC 3339',
    initial: 'absent: the job is not gated, or no controller has seen it yet',
    writtenBy: OUTPUT,
    readBy: 'controller, watchdog of the webhook',
    precedence: 'one object only',
    typo: 'counts as absent',
    changes: 'at once',
  },
  sourceDigest: {
    on: 'manifest of a variant, in the registry',
    values: '`sha256:` and 64 hexadecimal digits',
    initial: 'absent: other proofs are looked for',
    writtenBy: 'whoever converts the image',
    readBy: 'webhook, controller, `explain`, `record`',
    precedence: 'first of the proofs of [formats](../../formats.md#how-it-is-known-to-be-the-same-program)',
    typo: 'the variant is not used (`variant-stale`), since it says that it was made from something else',
    changes: 'when the registry is asked again; facts are kept for minutes',
  },
};

const ROWS: readonly [keyof Facts, string][] = [
  ['on', 'stands on'],
  ['values', 'values'],
  ['initial', 'default'],
  ['writtenBy', 'written by'],
  ['readBy', 'read by'],
  ['precedence', 'which object counts'],
  ['typo', 'a value that cannot be used'],
  ['changes', 'a change is noticed'],
];

/** One page an annotation, named after the part behind the slash. */
export function annotationPages(): { title: string; path: string; body: string }[] {
  return Object.entries(ANNOTATION).map(([key, name]) => {
    const facts = FACTS[key as keyof typeof ANNOTATION];
    const rows = ROWS.map(([field, title]) => `| ${title} | ${facts[field]} |`);
    const body = [`## Facts\n`, `| \`${name}\` | |`, '|---|---|', ...rows].join('\n');
    return { title: name, path: `docs/spec/annotations/${name.slice(name.indexOf('/') + 1)}.md`, body };
  });
}
