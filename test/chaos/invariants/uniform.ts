import { at, stringMap } from '../../../src/api/json.js';
import type { History, Life, Raw, Violation } from './history.js';
import { livesOf, nameOf } from './history.js';
import { controllerUidOf, digestOf, gangUidOf, imagesOf, recordOf } from './read.js';

/** A record of a gang, and the time for which it stood. */
interface Stood {
  from: number;
  /** Infinity while it stands. */
  to: number;
  prewarm: Raw;
}

/**
 * P3: every Pod of a gang runs what is recorded for it, and from the first Pod on that stands, whether or not the objects under test say
 * that the gang was let go, and also where somebody deletes the record and it is made anew. A variant may be given up for the plain image
 * of the same digest, which is the same program. A gang that is not opted in when its Pods come is promised nothing.
 * @param lagMs how old a record may be that a webhook gives to a Pod
 */
export function uniformGangs(history: History, { lagMs }: { lagMs: number }): Violation[] {
  const pods = livesOf(history, 'Pod');
  const jobs = new Map(livesOf(history, 'Job').map((life) => [life.uid, life]));
  return [...recordsByGang(history)].flatMap(([uid, records]) => {
    const members = pods.filter((p) => p.versions.some((v) => controllerUidOf(v.object) === uid));
    const promised = members.filter((m) => wasOptedIn(jobs.get(uid), bornAt(m), lagMs));
    const first = Math.min(...promised.map(bornAt));
    return [...strangers(records, members, lagMs), ...movedRecords(records, first)];
  });
}

const bornAt = ({ versions }: Life): number => versions[0]?.at ?? Number.POSITIVE_INFINITY;

/** All records that gangs ever had, in order: several objects may have followed each other. */
function recordsByGang(history: History): Map<string, Stood[]> {
  const gangs = new Map<string, Stood[]>();
  for (const { versions, goneAt } of livesOf(history, 'ImagePrewarm')) {
    const uid = versions.map((v) => gangUidOf(v.object)).find((u) => u !== undefined);
    if (uid === undefined) continue;
    const stood = versions.map(({ at: from, object }, i) => ({ from, to: versions[i + 1]?.at ?? goneAt, prewarm: object }));
    gangs.set(
      uid,
      [...(gangs.get(uid) ?? []), ...stood].sort((a, b) => a.from - b.from),
    );
  }
  return gangs;
}

/** Whether a job asked for prewarming all the time around a moment; one that nobody has seen did. */
function wasOptedIn(job: Life | undefined, time: number, lagMs: number): boolean {
  if (job === undefined) return true;
  return job.versions
    .filter((v, i) => v.at <= time + lagMs && (job.versions[i + 1]?.at ?? Number.POSITIVE_INFINITY) > time - lagMs)
    .every((v) => stringMap(v.object.metadata.annotations)['harbinger.dev/prewarm'] === 'true');
}

/** Members that run something else than what was recorded when they came. */
function strangers(records: readonly Stood[], members: readonly Life[], lagMs: number): Violation[] {
  return members.flatMap((member) => {
    const [born] = member.versions;
    if (born === undefined) return [];
    const known = records.filter((r) => r.from <= born.at && r.to > born.at - lagMs);
    const whole = known.every(({ prewarm }) => recordOf(prewarm).length > 0 && recordOf(prewarm).every((r) => r.resolved));
    // Until everything is recorded a member may come as its template says: there is nothing to be like.
    const window = { from: born.at - lagMs, to: born.at };
    if (!whole || !coversWindow(known, window)) return [];
    const allowed = new Set(known.flatMap(({ prewarm }) => recordOf(prewarm)).flatMap((r) => [r.resolved, ...plainOf(r)]));
    // What nobody recorded comes as it is written: the template was changed while the controller was dead, or a moment ago, and the
    // record that the webhook gave was still that of the image before.
    const isListed = (image: string): boolean => coversWindow(known.filter(lists(image)), window);
    return imagesOf(born.object)
      .filter((image) => !allowed.has(image) && (isListed(image) || digestOf(image) !== undefined))
      .map((image) => ({
        promise: 'P3' as const,
        at: born.at,
        object: nameOf(born.object),
        message: `runs ${image}, recorded was ${[...allowed].join(', ')}`,
      }));
  });
}

const lists =
  (image: string) =>
  ({ prewarm }: Stood): boolean =>
    recordOf(prewarm).some((r) => r.source === image);

/** Whether some record stood at every moment. */
function coversWindow(records: readonly Stood[], { from, to }: { from: number; to: number }): boolean {
  let covered = from;
  for (const record of records) if (record.from <= covered) covered = Math.max(covered, record.to);
  return covered > to;
}

function plainOf({ source, digest }: { source: string; digest: string | undefined }): string[] {
  return digest === undefined ? [] : [`${source.replace(/@.*$/, '').replace(/:[^:/]+$/, '')}@${digest}`];
}

/** Records that name other bytes than those that stood first at or after the first Pod: siblings run those. */
function movedRecords(records: readonly Stood[], firstPod: number): Violation[] {
  const frozen = new Map<string, string>();
  return records
    .filter((r) => r.to > firstPod && at(r.prewarm, 'spec')['pin'] !== 'Never')
    .flatMap(({ from, prewarm }) =>
      [...digests(prewarm)].flatMap(([key, digest]): Violation[] => {
        const before = frozen.get(key);
        frozen.set(key, digest);
        if (before === undefined || before === digest) return [];
        const message = `the record of ${key} became ${digest} while Pods ran ${before}`;
        return [{ promise: 'P3', at: from, object: nameOf(prewarm), message }];
      }),
    );
}

function digests(prewarm: Raw): Map<string, string> {
  return new Map(
    recordOf(prewarm).flatMap((r) => {
      const digest = r.digest ?? digestOf(r.resolved ?? '');
      return digest === undefined ? [] : [[`${r.target} ${r.source}`, digest] as const];
    }),
  );
}
