import type { Json } from '../../api/json.js';
import { at, string, stringMap } from '../../api/json.js';
import { formatTime } from '../../api/duration.js';
import { ADMISSION_GATED_BY, ANNOTATION } from '../../api/names.js';
import type { KubeObject } from '../../api/object.js';
import type { GatedJob } from '../../gangs/gates.js';
import { isGated, jobOfWorkload } from '../../gangs/gates.js';
import type { HoldView } from '../../gangs/hold.js';
import { heldChecks, holdView } from '../../gangs/hold.js';

export type RawWorkload = KubeObject & Json;

/** What keeps a gang from starting, as far as Harbinger has a part in it. */
export type HeldBy = 'check' | 'gate' | 'nothing';

/** A gang as `release` sees it. */
export interface ReleasableGang {
  namespace: string;
  /** Name of the Workload. */
  workload: string;
  /** Its UID. */
  uid: string;
  /** Absent for a Workload that nobody owns. */
  job?: GatedJob;
  heldBy: HeldBy;
  /** Why, for people. */
  why: string;
  /** Epoch ms of the reservation, where quota is held. */
  reservedAt?: number;
}

/**
 * How a gang is held.
 * @param checks names of Harbinger's AdmissionChecks; undefined where whoever asks may not read them: any open check counts then
 */
export function releasableGang(raw: RawWorkload, checks: ReadonlySet<string> | undefined): ReleasableGang {
  const { metadata } = raw;
  const view = holdView(raw);
  const job = jobOfWorkload(raw);
  return {
    namespace: metadata.namespace ?? '',
    workload: metadata.name,
    uid: metadata.uid ?? '',
    ...(job === undefined ? {} : { job }),
    ...(view.reservedAt === undefined ? {} : { reservedAt: view.reservedAt }),
    ...holdOf(raw, view, checks ?? new Set(view.checks.map((c) => c.name))),
  };
}

function holdOf(raw: RawWorkload, view: HoldView, checks: ReadonlySet<string>): Pick<ReleasableGang, 'heldBy' | 'why'> {
  const held = heldChecks(view, checks);
  if (held.length > 0) return { heldBy: 'check', why: heldWhy(raw, view, held) };
  const gated = isGated(stringMap(raw.metadata.annotations)) && view.reservedAt === undefined && !view.finished;
  return gated ? { heldBy: 'gate', why: gatedWhy(raw) } : { heldBy: 'nothing', why: notHeldWhy(raw, view) };
}

function heldWhy(raw: RawWorkload, view: HoldView, held: readonly string[]): string {
  const queue = string(at(raw, 'status', 'admission')['clusterQueue']) ?? '?';
  const said = view.checks.find((c) => c.name === held[0])?.message ?? '';
  return `held by check ${held.join(', ')} with quota of ClusterQueue ${queue} since ${formatTime(view.reservedAt ?? 0)}: ${said}`;
}

function gatedWhy({ metadata }: RawWorkload): string {
  const until = metadata.annotations?.[ANNOTATION.gateDeadline];
  return `gated without quota by ${ADMISSION_GATED_BY}${until === undefined ? '' : `, until ${until} at the latest`}`;
}

function notHeldWhy({ metadata }: RawWorkload, { finished, active, admitted, reservedAt, evicted, checks }: HoldView): string {
  const gates = stringMap(metadata.annotations)[ADMISSION_GATED_BY] ?? '';
  if (finished) return 'it has finished';
  if (!active) return 'it is not active (spec.active of its Workload is false)';
  if (admitted) return 'it is admitted';
  if (evicted) return 'it was evicted and is on its way back to the queue';
  if (reservedAt === undefined && gates !== '') return `it is gated by ${gates}, which Harbinger has no part in`;
  if (reservedAt === undefined)
    return 'it waits for quota, which no check keeps from it; from now on it starts cold when its turn comes';
  const sentBack = checks.filter((c) => c.state === 'Retry').map((c) => c.name);
  if (sentBack.length > 0)
    return `${sentBack.join(', ')} sends it back to its queue, for which Kueue waits until the check's requeueAfterSeconds are over`;
  const others = checks.filter((c) => c.state !== 'Ready').map((c) => c.name);
  return others.length === 0 ? 'its checks are Ready' : `it waits for ${others.join(', ')}, which Harbinger has no part in`;
}

/** `train`, `job/train`, `jobs.batch/train`: what a person writes for a gang. Kind and plural count, in any case. */
export interface GangName {
  kind?: string;
  name: string;
}

export function parseGangName(text: string): GangName | undefined {
  const parts = text.split('/');
  const [first = '', second] = parts;
  if (parts.length > 2 || first === '' || second === '') return undefined;
  if (second === undefined) return { name: first };
  return { kind: (first.split('.')[0] ?? first).toLowerCase(), name: second };
}

/** Whether a name means a gang: that of its job or of its Workload. */
export function means({ kind, name }: GangName, { workload, job }: Pick<ReleasableGang, 'workload' | 'job'>): boolean {
  const is = (own: string): boolean => kind === undefined || kind === own || kind === `${own}s`;
  return (name === workload && is('workload')) || (job !== undefined && name === job.name && is(job.kind.toLowerCase()));
}
