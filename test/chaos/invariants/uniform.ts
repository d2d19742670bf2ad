import type { History, Life, Raw, Violation } from './history.js';
import { livesOf, nameOf, versionAt } from './history.js';
import { controllerUidOf, digestOf, gangUidOf, holds, imagesOf, recordOf } from './read.js';

/**
 * P3: every Pod of a gang that was let go runs what is recorded for it, and the record stands from the first Pod on. A variant may be
 * given up for the plain image of the same digest, which is the same program.
 * @param lagMs how old a record may be that a webhook gives to a Pod
 */
export function uniformGangs(history: History, { lagMs }: { lagMs: number }): Violation[] {
  const pods = livesOf(history, 'Pod');
  return livesOf(history, 'ImagePrewarm').flatMap((prewarm) => {
    const [first] = prewarm.versions;
    const uid = first === undefined ? undefined : gangUidOf(first.object);
    if (uid === undefined) return [];
    const members = pods.filter((p) => p.versions.some((v) => controllerUidOf(v.object) === uid));
    return [...strangers(prewarm, members, lagMs), ...movedRecords(prewarm, members)];
  });
}

/** Members that run something else than what was recorded when they came. */
function strangers(prewarm: Life, members: readonly Life[], lagMs: number): Violation[] {
  return members.flatMap((member) => {
    const [born] = member.versions;
    if (born === undefined) return [];
    const known = [born.at, born.at - lagMs].map((at) => versionAt(prewarm, at)).filter((v) => v !== undefined);
    const [now] = known;
    // Until everything is recorded a member may come as its template says: there is nothing to be like.
    if (now === undefined || recordOf(now).length === 0 || recordOf(now).some((r) => r.resolved === undefined)) return [];
    if (known.some((v) => recordOf(v).some((r) => r.resolved === undefined)) || known.length < 2) return [];
    const allowed = new Set(known.flatMap(recordOf).flatMap((r) => [r.resolved, ...plainOf(r)]));
    return imagesOf(born.object)
      .filter((image) => !allowed.has(image))
      .map((image) => ({
        promise: 'P3' as const,
        at: born.at,
        object: nameOf(born.object),
        message: `runs ${image}, recorded was ${[...allowed].join(', ')}`,
      }));
  });
}

function plainOf({ source, digest }: { source: string; digest: string | undefined }): string[] {
  return digest === undefined ? [] : [`${source.replace(/@.*$/, '').replace(/:[^:/]+$/, '')}@${digest}`];
}

/** Records that name other bytes after a member of the gang that was let go has come. */
function movedRecords(prewarm: Life, members: readonly Life[]): Violation[] {
  const firstPod = Math.min(...members.map((m) => m.versions[0]?.at ?? Number.POSITIVE_INFINITY));
  const before = prewarm.versions.findLast((v) => v.at <= firstPod)?.object;
  if (before === undefined) return [];
  const frozen = digests(before);
  return prewarm.versions
    .filter((v) => v.at > firstPod && holds(v.object, 'Released'))
    .flatMap(({ at, object }) =>
      [...digests(object)]
        .filter(([key, digest]) => frozen.get(key) !== undefined && frozen.get(key) !== digest)
        .map(([key, digest]) => ({
          promise: 'P3' as const,
          at,
          object: nameOf(object),
          message: `the record of ${key} became ${digest} while Pods ran ${frozen.get(key) ?? ''}`,
        })),
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
