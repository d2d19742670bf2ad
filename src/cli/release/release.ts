import { formatTime } from '../../api/duration.js';
import { ADMISSION_GATED_BY, ANNOTATION, CHECK_CONTROLLER } from '../../api/names.js';
import { at, string } from '../../api/json.js';
import type { KubeObject } from '../../api/object.js';
import { gatedKindOf } from '../../gangs/gated-kinds.js';
import { ungatePatch } from '../../gangs/gates.js';
import { KubeError, isConflict, isForbidden, isInvalid, isNotFound } from '../../kube/errors.js';
import type { KubePort } from '../../kube/port.js';
import { RESOURCE } from '../../kube/resources.js';
import type { Clock } from '../../observe/clock.js';
import { sleep } from '../../observe/clock.js';
import type { GangName, HeldBy, RawWorkload, ReleasableGang } from './gang.js';
import { means, releasableGang } from './gang.js';

export interface ReleaseRequest {
  /** Absent: those of all namespaces. */
  namespace?: string | undefined;
  /** Empty with `all`. */
  names: readonly GangName[];
  all: boolean;
  dryRun: boolean;
  /** How long to wait until nothing of Harbinger keeps them any more, ms; 0: not at all. */
  waitMs: number;
}

/** What became of one gang. */
export interface Released {
  namespace: string;
  /** `Job/train`, or `Workload/x` where nobody owns it. */
  gang: string;
  workload: string;
  result: 'released' | 'would-release' | 'not-held' | 'failed' | 'still-held';
  heldBy: HeldBy;
  message: string;
}

export interface ReleaseDeps {
  client: Pick<KubePort, 'get' | 'list' | 'patch'>;
  clock: Clock;
  /** Called with what could not be read and what is assumed instead. */
  note: (text: string) => void;
}

/** How often is looked while waiting, ms. */
const LOOK_MS = 500;
/** How often the list of gates of one Workload is read at most. */
const LISTS_READ = 4;

/** Lets gangs go with the rights of whoever asks; what was asked for and is not there is an error. */
export async function releaseGangs(request: ReleaseRequest, deps: ReleaseDeps): Promise<Released[]> {
  const checks = await ownChecks(deps);
  const gangs = await find(request, deps, checks);
  const results: Released[] = [];
  for (const gang of gangs) results.push(await releaseOne(gang, request, deps));
  if (request.waitMs > 0) await untilFree(results, { request, deps, checks });
  return results;
}

/** Names of Harbinger's checks; undefined where they may not be read. Checks belong to the cluster, so many users may not. */
async function ownChecks({ client, note }: ReleaseDeps): Promise<Set<string> | undefined> {
  const names = new Set<string>();
  try {
    for await (const page of client.list<RawWorkload>(RESOURCE.admissionChecks)) {
      const ours = page.filter((raw) => string(at(raw, 'spec')['controllerName']) === CHECK_CONTROLLER);
      for (const { metadata } of ours) names.add(metadata.name);
    }
    return names;
  } catch (error) {
    if (!isForbidden(error)) throw error;
    note('AdmissionChecks may not be read: every open check counts as one of Harbinger');
    return undefined;
  }
}

async function find(
  { namespace, names, all }: ReleaseRequest,
  { client }: ReleaseDeps,
  checks: ReadonlySet<string> | undefined,
): Promise<ReleasableGang[]> {
  const found: ReleasableGang[] = [];
  const where = namespace === undefined ? 'the cluster' : `namespace ${namespace}`;
  try {
    for await (const page of client.list<RawWorkload>(RESOURCE.workloads, namespace === undefined ? {} : { namespace }))
      found.push(...page.map((raw) => releasableGang(raw, checks)));
  } catch (error) {
    if (isNotFound(error))
      throw new Error('this cluster has no Kueue Workloads: Harbinger holds nothing on it', { cause: error });
    if (isForbidden(error))
      throw new Error(`you may not list Workloads in ${where}; ask for the right to list and patch workloads.kueue.x-k8s.io`, {
        cause: error,
      });
    throw error;
  }
  if (all) return found.filter((g) => g.heldBy !== 'nothing');
  return names.flatMap((name) => {
    const meant = found.filter((gang) => means(name, gang));
    const text = name.kind === undefined ? name.name : `${name.kind}/${name.name}`;
    if (meant.length === 0) throw new Error(`no gang ${text} in ${where}: neither a Workload nor a job with one has that name`);
    return meant;
  });
}

async function releaseOne(gang: ReleasableGang, { dryRun }: ReleaseRequest, deps: ReleaseDeps): Promise<Released> {
  const { namespace, workload, job, heldBy, why } = gang;
  const base = { namespace, gang: job === undefined ? `Workload/${workload}` : `${job.kind}/${job.name}`, workload, heldBy };
  const held = heldBy !== 'nothing';
  if (dryRun) return { ...base, result: held ? 'would-release' : 'not-held', message: why };
  try {
    await letGo(gang, deps);
    return { ...base, result: held ? 'released' : 'not-held', message: why };
  } catch (error) {
    if (!(error instanceof KubeError) && !(error instanceof Error)) throw error;
    return { ...base, result: 'failed', message: failureText(gang, error) };
  }
}

/**
 * Never held again: the Workload is the nearest object that may say so. The stamp of the present reservation is one that is over,
 * by the clock of whoever reserved, so that the watchdog ends the hold while the controller is dead.
 */
async function letGo(gang: ReleasableGang, deps: ReleaseDeps): Promise<void> {
  const { namespace, workload, uid, reservedAt, heldBy } = gang;
  const annotations = {
    [ANNOTATION.prewarmHold]: '0s',
    ...(reservedAt === undefined ? {} : stampedAt(formatTime(reservedAt))),
  };
  // The gate first: it is what the person sees, and with one right of two at least that is done.
  if (heldBy === 'gate') await ungate(gang, deps);
  // A Workload of the same name that came meanwhile is another gang: the API server refuses a patch with another UID.
  const body = { metadata: { uid, annotations } };
  await deps.client.patch(RESOURCE.workloads, { namespace, name: workload }, { type: 'merge', body });
}

const stampedAt = (time: string): Record<string, string> => ({ [ANNOTATION.holdDeadline]: time, [ANNOTATION.holdSince]: time });

/** First off the job, from which Kueue would copy our name again, then off the Workload, to which it mostly copies that by itself. */
async function ungate(gang: ReleasableGang, deps: ReleaseDeps): Promise<void> {
  const { namespace, job } = gang;
  if (job !== undefined) {
    const kind = gatedKindOf(job);
    if (kind === undefined)
      throw new Error(`its kind is not known; take ${CHECK_CONTROLLER} out of annotation ${ADMISSION_GATED_BY} of the job`);
    const name = { namespace, name: job.name };
    const read = await deps.client.get<KubeObject>(kind, name);
    if (read.metadata.uid !== job.uid) throw new Error('its job was deleted and made anew; its Workload goes by itself');
    const ops = ungatePatch(read, job.uid);
    if (ops !== undefined) await deps.client.patch(kind, name, { type: 'json', ops });
  }
  await ungateWorkload(gang, deps);
}

/** Kueue and others may change the list between our look and our write: then it is looked at again, a few times. */
async function ungateWorkload({ namespace, workload, uid }: ReleasableGang, { client }: ReleaseDeps): Promise<void> {
  for (let left = LISTS_READ; ; left -= 1) {
    const raw = await readWorkload({ namespace, workload }, client);
    const ops = raw === undefined ? undefined : ungatePatch(raw, uid);
    if (ops === undefined) return;
    try {
      await client.patch(RESOURCE.workloads, { namespace, name: workload }, { type: 'json', ops });
      return;
    } catch (error) {
      if (left <= 1 || !(isInvalid(error) || isConflict(error))) throw error;
    }
  }
}

/** By a list of one: the right to get Workloads is not asked for. */
async function readWorkload(
  { namespace, workload }: Pick<ReleasableGang, 'namespace' | 'workload'>,
  client: ReleaseDeps['client'],
): Promise<RawWorkload | undefined> {
  for await (const page of client.list<RawWorkload>(RESOURCE.workloads, {
    namespace,
    fieldSelector: `metadata.name=${workload}`,
  })) {
    const found = page.find((w) => w.metadata.name === workload);
    if (found !== undefined) return found;
  }
  return undefined;
}

function failureText({ namespace, workload, job, heldBy }: ReleasableGang, error: Error): string {
  if (!isForbidden(error)) return error.message;
  if (job === undefined) return `you may not patch Workload ${workload}`;
  if (heldBy === 'gate') return `you may not get and patch ${job.kind} ${job.name} and patch Workload ${workload}`;
  const other = `kubectl annotate -n ${namespace} ${job.kind.toLowerCase()}/${job.name} ${ANNOTATION.prewarmHold}=0s --overwrite`;
  return `you may not patch Workload ${workload}; or, while the controller lives: ${other}`;
}

/** Looks until no hold is left on what was released, or time is up. */
async function untilFree(
  results: Released[],
  { request, deps, checks }: { request: ReleaseRequest; deps: ReleaseDeps; checks: ReadonlySet<string> | undefined },
): Promise<void> {
  const end = deps.clock.now() + request.waitMs;
  for (const [i, result] of results.entries()) {
    if (result.result !== 'released') continue;
    for (;;) {
      const now = await look(result, deps, checks);
      if (now === undefined || now.heldBy === 'nothing') break;
      if (deps.clock.now() >= end) {
        results[i] = { ...result, result: 'still-held', message: now.why };
        break;
      }
      await sleep(deps.clock, LOOK_MS);
    }
  }
}

async function look(
  { namespace, workload }: Released,
  { client }: ReleaseDeps,
  checks: ReadonlySet<string> | undefined,
): Promise<ReleasableGang | undefined> {
  const raw = await readWorkload({ namespace, workload }, client);
  return raw === undefined ? undefined : releasableGang(raw, checks);
}

const WORD: Record<Released['result'], string> = {
  released: 'released',
  'would-release': 'would release',
  'not-held': 'not held',
  failed: 'FAILED',
  'still-held': 'STILL HELD',
};

/** One line a gang, for people. */
export function renderReleased(results: readonly Released[]): string {
  if (results.length === 0) return 'nothing is held\n';
  const width = Math.max(...results.map((r) => WORD[r.result].length));
  return results.map((r) => `${WORD[r.result].padEnd(width)}  ${r.namespace}/${r.gang}: ${r.message}\n`).join('');
}
