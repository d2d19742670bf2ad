import { at, records, string, time } from '../../../src/api/json.js';
import type { Period, Raw, Violation } from './history.js';
import { nameOf, uncovered } from './history.js';
import { checksOf, conditionOf, controllerUidOf, gangUidOf, holds, isActive, recordOf, reservedAt } from './read.js';

export interface SettledInput {
  /** All objects once everything has come to rest. */
  objects: readonly Raw[];
  now: number;
  checks: ReadonlySet<string>;
  /** Whether a gang is opted in now. */
  optedIn: (workload: Raw) => boolean;
}

/** P7: after the last fault nothing is left over, nothing is missing and nobody waits in vain. */
export function settled(input: SettledInput): Violation[] {
  const found = (object: Raw, message: string): Violation => ({ promise: 'P7', at: input.now, object: nameOf(object), message });
  return [...leftovers(input, found), ...gaps(input, found)];
}

type Found = (object: Raw, message: string) => Violation;
const ofKind = (objects: readonly Raw[], kind: string): Raw[] => objects.filter((o) => o.kind === kind);

/** Reasons of Ready with which an ImagePrewarm keeps no pullers. */
const RESTING: ReadonlySet<string> = new Set(['Finished', 'Suspended']);

function leftovers({ objects }: SettledInput, found: Found): Violation[] {
  const uids = new Set(objects.map((o) => o.metadata.uid));
  const prewarms = ofKind(objects, 'ImagePrewarm');
  const orphans = prewarms.filter((p) => gangUidOf(p) !== undefined && !uids.has(gangUidOf(p)));
  const wanted = new Set(
    prewarms
      .filter((p) => !RESTING.has(conditionOf(p, 'Ready')?.reason ?? ''))
      .flatMap(recordOf)
      .map((r) => r.resolved),
  );
  const sets = ofKind(objects, 'DaemonSet').filter((d) => d.metadata.labels?.['harbinger.dev/puller'] !== undefined);
  const pods = ofKind(objects, 'Pod').filter((p) => p.metadata.labels?.['harbinger.dev/puller'] !== undefined);
  const stay = pods.filter((p) => p.metadata.deletionTimestamp === undefined && !uids.has(controllerUidOf(p)));
  return [
    ...stay.map((p) => found(p, 'its DaemonSet is gone, and nobody deletes it')),
    ...orphans.map((p) => found(p, 'its job is gone')),
    ...sets.filter((d) => !wanted.has(imageOf(d))).map((d) => found(d, `nobody wants ${imageOf(d) ?? 'what it pulls'}`)),
  ];
}

/** What a DaemonSet of pullers pulls. */
export function imageOf(set: Raw): string | undefined {
  const volumes = records(at(set, 'spec', 'template', 'spec')['volumes']);
  return volumes.map((v) => string(at(v, 'image')['reference'])).find((r) => r !== undefined);
}

function gaps({ objects, checks, optedIn }: SettledInput, found: Found): Violation[] {
  const prewarmed = new Set(ofKind(objects, 'ImagePrewarm').map(gangUidOf));
  return ofKind(objects, 'Workload').flatMap((workload) => {
    if (holds(workload, 'Finished') || !isActive(workload)) return [];
    const ours = checksOf(workload).filter((c) => checks.has(c.name));
    const missing =
      optedIn(workload) && !prewarmed.has(controllerUidOf(workload)) ? [found(workload, 'opted in, and no ImagePrewarm')] : [];
    const waits = ours.filter((c) => c.state === 'Pending' && (reservedAt(workload) !== undefined || !optedIn(workload)));
    return [...missing, ...waits.map((c) => found(workload, `check ${c.name} is still Pending: ${c.message}`))];
  });
}

export interface Spent {
  /** When no controller could see or write. */
  blind: readonly Period[];
  /** The least time that a prewarm has for its pulls, ms. */
  deadlineMs: number;
}

/** What a run came to, without times, names of Pods and places: equal for equal wishes, whatever went wrong on the way. */
export function outcomeOf(objects: readonly Raw[], spent?: Spent): string[] {
  const lines = [
    ...ofKind(objects, 'Workload').map((w) => `Workload of ${ownerOf(w)}: ${stateOf(w)}`),
    // Those at rest may be gone: they are not made again for a gang that has finished.
    ...ofKind(objects, 'ImagePrewarm')
      .filter((p) => restOf(p) !== 'at rest' && !ranOut(p, spent))
      .map((p) => `ImagePrewarm of ${ownerOf(p)}: ${restOf(p)}`),
    ...ofKind(objects, 'DaemonSet').map((d) => `DaemonSet of ${imageOf(d)?.replace(/@.*$/, '') ?? '?'}`),
  ];
  return lines.sort();
}

/** The job that an object is for; names of Workloads and ImagePrewarms hold parts of UIDs. */
function ownerOf({ metadata: { ownerReferences, name } }: Raw): string {
  return ownerReferences?.[0]?.name ?? name;
}

function stateOf(workload: Raw): string {
  if (holds(workload, 'Finished')) return 'finished';
  if (!isActive(workload)) return 'inactive';
  return holds(workload, 'Admitted') ? 'admitted' : 'waiting';
}

/** Its time counts whoever lives: where it went by while nobody could work on it, its end says nothing of what was done. */
function ranOut(prewarm: Raw, { blind, deadlineMs }: Spent = { blind: [], deadlineMs: 0 }): boolean {
  const ready = conditionOf(prewarm, 'Ready');
  const began = time(at(prewarm, 'status')['startTime']);
  if (ready?.reason !== 'DeadlineExceeded' || began === undefined) return false;
  return uncovered({ from: began, to: ready.since }, blind) < deadlineMs;
}

function restOf(prewarm: Raw): string {
  const reason = conditionOf(prewarm, 'Ready')?.reason ?? 'nothing said';
  return RESTING.has(reason) ? 'at rest' : reason;
}
