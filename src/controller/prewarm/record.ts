import type { ImagePrewarm } from '../../api/kinds/index.js';
import type { ImagePrewarmStatus } from '../../api/kinds/image-prewarm.js';
import { clip, isTrue } from '../../api/conditions.js';
import { present } from '../../api/json.js';
import { parseReference, withDigest } from '../../images/reference.js';
import type { Lookup, PrewarmSnapshot } from './snapshot.js';

type TargetRecord = NonNullable<ImagePrewarmStatus['targets']>[number];
export type ImageRecord = TargetRecord['images'][number];

/** The record of one source in the status, if the object has one. */
export function recordOf(prewarm: ImagePrewarm, target: string, source: string): ImageRecord | undefined {
  return prewarm.status?.targets?.find((t) => t.name === target)?.images.find((i) => i.source === source);
}

/** Every image of the spec with its record, in order; the same source in two targets has one record. */
export function imagesOf(prewarm: ImagePrewarm): { target: string; source: string; record: ImageRecord | undefined }[] {
  return prewarm.spec.targets.flatMap((t) =>
    t.images.map(({ reference }) => ({ target: t.name, source: reference, record: recordOf(prewarm, t.name, reference) })),
  );
}

/** A source that names its bytes cannot move. */
export function isPinned(source: string): boolean {
  const parsed = parseReference(source);
  return parsed.ok && parsed.reference.digest !== undefined;
}

/** Whether the record is final (promise P3): every member, retry and replacement of the gang runs it from now on. */
export function isFrozen({ prewarm, gang }: Pick<PrewarmSnapshot, 'prewarm' | 'gang'>): boolean {
  const { pin = 'AtRelease' } = prewarm.spec;
  if (pin === 'Never') return false;
  if (pin === 'AtQueue') return true;
  if (isTrue(prewarm.status?.conditions, 'Released')) return true;
  // A job whose Workload is gone may run all the same, and nobody tells when its next Pod comes.
  if (gang === undefined) return prewarm.spec.gangRef !== undefined;
  const { admitted, ran, reservedAt } = gang.gang.state;
  // It may have been let go, run and come back while no controller was there to write that down.
  if (admitted || ran === true) return true;
  return reservedAt !== undefined && (gang.checkReady || !gang.checked);
}

export interface LookupNeed {
  source: string;
  /** Asks the registry itself, whatever is remembered. */
  fresh: boolean;
}

/** How long to wait before an image that could not be looked up is tried again, ms. */
const RETRY_MS = 15_000;

/** How long to wait before an image that the controller was not shown is asked for again, ms; registries count denials. */
const UNREAD_MS = 60_000;

/** A look that old still counts as "just before" the gang is let go, ms. */
const LATELY_MS = 5_000;

/**
 * Which images have to be looked up now: those without a record, moving tags whose last look is too old to let a gang go on,
 * variants that cannot be used any more, for which there may be another one, and images that no registry has shown yet.
 */
export function lookupsNeeded(snapshot: PrewarmSnapshot, now: number, recheckMs: number): LookupNeed[] {
  const frozen = isFrozen(snapshot);
  const warm = allWarm(snapshot);
  // What makes it Ready is a look just now; while it stays Ready, one every now and then.
  const maxAge = isTrue(snapshot.prewarm.status?.conditions, 'Ready') ? recheckMs : Math.min(recheckMs, LATELY_MS);
  const needs = imagesOf(snapshot.prewarm).filter(({ source, record }) => {
    const last = snapshot.lookups.get(source);
    if (!frozen && unusableBecause(record, snapshot) !== undefined)
      return last === undefined || (last.ok && last.resolved === record?.resolved);
    const afterMs = lookAgainAfter(source, record, { warm, frozen, maxAge });
    return afterMs !== undefined && isOlder(last, afterMs, now) && (record?.resolved !== undefined || last?.ok !== true);
  });
  const unique = new Map(
    needs.map(({ source, record }) => [source, record?.resolved !== undefined || snapshot.lookups.has(source)]),
  );
  return [...unique].map(([source, fresh]) => ({ source, fresh }));
}

/** Age from which on a look at an image is made again, ms; undefined where there is nothing to learn. */
function lookAgainAfter(
  source: string,
  record: ImageRecord | undefined,
  { warm, frozen, maxAge }: { warm: boolean; frozen: boolean; maxAge: number },
): number | undefined {
  if (record?.resolved === undefined) return RETRY_MS;
  if (isUnread(record)) return warm ? undefined : UNREAD_MS;
  return warm && !frozen && !isPinned(source) ? maxAge : undefined;
}

/** A look from the future was made before the clock was set back: its age is not known. */
function isOlder(last: Lookup | undefined, ms: number, now: number): boolean {
  return last === undefined || now >= last.at + ms || now < last.at;
}

/** Whether an image stands on record, by the digest in its name, that no registry has shown to the controller. */
function isUnread(record: ImageRecord | undefined): boolean {
  return record?.resolved !== undefined && record.outcome === 'pinned' && record.sizeBytes === undefined;
}

export function allWarm({ progress }: Pick<PrewarmSnapshot, 'progress'>): boolean {
  return progress !== undefined && progress.warm >= progress.desired && progress.desired > 0;
}

export interface RecordUpdate {
  targets: TargetRecord[];
  /** Sources whose record is out of date and could not be changed yet, since Pods may come at any moment. */
  held: string[];
  /** Sources whose record was changed. */
  moved: string[];
  /** Those of both whose tag is where it was but whose variant cannot be used any more, and why. */
  givenUp: ReadonlyMap<string, string>;
}

/** The record as it should stand after the latest lookups. A failed second look never takes a record away: its bytes are there. */
export function updateRecord(snapshot: PrewarmSnapshot): RecordUpdate {
  const { prewarm, gang, lookups } = snapshot;
  const frozen = isFrozen(snapshot);
  const held = new Set<string>();
  const moved = new Set<string>();
  const givenUp = new Map<string, string>();
  const targets = prewarm.spec.targets.map((target) => ({
    name: target.name,
    images: target.images.map(({ reference: source }): ImageRecord => {
      const record = recordOf(prewarm, target.name, source);
      const lookup = lookups.get(source);
      if (record?.resolved === undefined) return lookup === undefined ? { source, ...record } : fromLookup(source, lookup);
      const change = changeOf(record, snapshot, frozen);
      if (change === undefined) return withLook(record, lookup);
      if (change.why !== undefined) givenUp.set(source, change.why);
      if (!frozen && gang?.checkReady === true) {
        held.add(source);
        return record;
      }
      moved.add(source);
      return change.record;
    }),
  }));
  return { targets, held: [...held], moved: [...moved], givenUp };
}

/** What a look tells of an image that was recorded unread. Pods run the same as before, so nothing has moved (P3). */
function withLook(record: ImageRecord, lookup: Lookup | undefined): ImageRecord {
  if (!isUnread(record) || lookup?.ok !== true || lookup.digest !== record.digest) return record;
  const { sizeBytes, pulledWith, message } = lookup;
  const text = sizeBytes !== undefined || message === undefined ? undefined : clip(message);
  return present<ImageRecord>({ ...record, sizeBytes, pulledWith, message: text });
}

/** What a record is replaced by, and why if it is not for its tag; undefined where it stands. */
function changeOf(
  record: ImageRecord,
  snapshot: PrewarmSnapshot,
  frozen: boolean,
): { record: ImageRecord; why?: string } | undefined {
  const lookup = frozen ? undefined : snapshot.lookups.get(record.source);
  if (lookup?.ok === true && lookup.digest !== record.digest) return { record: fromLookup(record.source, lookup) };
  const why = unusableBecause(record, snapshot);
  const next = why === undefined ? undefined : replacementOf(record, why, lookup);
  return next === undefined || why === undefined ? undefined : { record: next, why };
}

/** Why Pods must not be given the variant on record any more; undefined where they may, or where there is none. */
function unusableBecause(record: ImageRecord | undefined, { unusable }: PrewarmSnapshot): string | undefined {
  return record?.outcome === 'accelerated' ? unusable.get(record.source) : undefined;
}

/**
 * What takes the place of a variant that cannot be used any more. The plain image of the same digest is the same program, so a gang
 * that was let go may be given it too (P3); there is no way back, or members would change with every node.
 * @param lookup absent once the record is final; before that another variant will do
 */
function replacementOf(record: ImageRecord, why: string, lookup: Lookup | undefined): ImageRecord | undefined {
  const isOther = lookup?.ok === true && lookup.outcome === 'accelerated' && lookup.resolved !== record.resolved;
  return isOther ? fromLookup(record.source, lookup) : plainOf(record, why);
}

function plainOf({ source, digest, sizeBytes, pulledWith }: ImageRecord, why: string): ImageRecord | undefined {
  const reading = parseReference(source);
  if (digest === undefined || !reading.ok) return undefined;
  const message = clip(`the plain image in place of its variant: ${why}`);
  return present<ImageRecord>({
    source,
    resolved: withDigest(reading.reference, digest),
    digest,
    sizeBytes,
    outcome: 'pinned',
    pulledWith,
    message,
  });
}

function fromLookup(source: string, lookup: Lookup): ImageRecord {
  if (!lookup.ok) return { source, outcome: lookup.outcome, message: clip(lookup.message) };
  const { digest, resolved, outcome, format, portable, sizeBytes, pulledWith, message } = lookup;
  const text = message === undefined ? undefined : clip(message);
  return present<ImageRecord>({ source, resolved, digest, sizeBytes, outcome, format, portable, pulledWith, message: text });
}
