import type { Change, ImageTruth, Period, PullTruth, Raw } from '../invariants/index.js';
import type { Seen } from './recorder.js';

/** Changes of objects out of what was recorded. */
export function historyOf(seen: readonly Seen[]): Change[] {
  return seen.flatMap((s) => (s.what === 'object' ? [{ at: s.at, type: s.type, object: s.object }] : []));
}

const digestIn = (name: string): string | undefined => /@(sha256:[0-9a-f]{64})$/.exec(name)?.[1];
const hostOf = (name: string): string => name.slice(0, name.indexOf('/'));

/** Images that came to nodes and went from them. */
export function imageTruths(seen: readonly Seen[]): ImageTruth[] {
  const last = new Map<string, ReadonlySet<string>>();
  return seen.flatMap((s) => {
    if (s.what !== 'images') return [];
    const now = new Set(s.images.flatMap((name) => digestIn(name) ?? []));
    const before = last.get(s.node) ?? new Set<string>();
    last.set(s.node, now);
    const came = [...now].filter((digest) => !before.has(digest));
    const went = [...before].filter((digest) => !now.has(digest));
    return [
      ...came.map((digest) => ({ at: s.at, node: s.node, digest, there: true })),
      ...went.map((digest) => ({ at: s.at, node: s.node, digest, there: false })),
    ];
  });
}

interface Puller extends Period {
  node: string;
  image: string;
  /** When its pull had failed and the kubelet was about to try again. */
  failed: Period[];
}

const FAILED = /^(ErrImagePull|ImagePullBackOff)$/;

/** The API server hears of a failed pull a moment after it ended, and of a new attempt when it has ended, ms. */
const TOLD_MS = 1_000;

function hasFailed(pod: Raw): boolean {
  const status = pod['status'] as { containerStatuses?: { state?: { waiting?: { reason?: string } } }[] } | undefined;
  return (status?.containerStatuses ?? []).some((c) => FAILED.test(c.state?.waiting?.reason ?? ''));
}

function noteFailure(puller: Puller, at: number, failed: boolean): void {
  const last = puller.failed.at(-1);
  if (failed && last?.to !== Number.POSITIVE_INFINITY) puller.failed.push({ from: at, to: Number.POSITIVE_INFINITY });
  if (!failed && last?.to === Number.POSITIVE_INFINITY) last.to = at;
}

/** When puller Pods stood on nodes, and for which image. */
function pullersIn(history: readonly Change[]): Puller[] {
  const pullers = new Map<string, Puller>();
  for (const { at, type, object } of history) {
    if (object.kind !== 'Pod' || object.metadata.labels?.['harbinger.dev/puller'] === undefined) continue;
    const spec = object['spec'] as { nodeName?: string; volumes?: { image?: { reference: string } }[] };
    const image = spec.volumes?.map((v) => v.image?.reference).find((r) => r !== undefined);
    const uid = object.metadata.uid ?? '';
    if (image === undefined || spec.nodeName === undefined) continue;
    const puller = pullers.get(uid) ?? { node: spec.nodeName, image, from: at, to: Number.POSITIVE_INFINITY, failed: [] };
    pullers.set(uid, puller);
    noteFailure(puller, at, hasFailed(object));
    if (type === 'DELETED' || object.metadata.deletionTimestamp !== undefined) puller.to = Math.min(puller.to, at);
  }
  return [...pullers.values()];
}

/** Where Pods of gangs want an image, and since when: a pull there may be their own, which no planner has granted. */
function membersIn(history: readonly Change[]): Map<string, number> {
  const since = new Map<string, number>();
  for (const { at, object } of history) {
    if (object.kind !== 'Pod' || object.metadata.labels?.['harbinger.dev/puller'] !== undefined) continue;
    const spec = object['spec'] as { nodeName?: string; containers: { image: string }[] };
    for (const { image } of spec.containers) {
      const key = `${spec.nodeName ?? ''} ${image}`;
      if (!since.has(key)) since.set(key, at);
    }
  }
  return since;
}

/**
 * Pulls that ran because of a puller Pod, as the nodes told. One whose Pod was taken away by somebody else counts while the Pod
 * stood: a controller that starts later cannot know of it, which docs/prewarm.md says.
 */
export function pullTruths(seen: readonly Seen[]): PullTruth[] {
  const history = historyOf(seen);
  const pullers = pullersIn(history);
  const members = membersIn(history);
  const open = new Map<string, PullTruth>();
  const done: PullTruth[] = [];
  for (const s of seen) {
    if (s.what !== 'pulls') continue;
    for (const [key, pull] of [...open].filter(([, p]) => p.node === s.node)) {
      if (s.images.includes(key.slice(s.node.length + 1))) continue;
      open.delete(key);
      done.push({ ...pull, to: Math.min(pull.to, s.at) });
    }
    for (const image of s.images) {
      const key = `${s.node} ${image}`;
      if (open.has(key) || (members.get(key) ?? Number.POSITIVE_INFINITY) <= s.at) continue;
      const puller = pullers.find((p) => p.node === s.node && p.image === image && p.from <= s.at && s.at < p.to);
      const digest = digestIn(image);
      if (puller === undefined || digest === undefined) continue;
      const again = puller.failed.some((f) => f.from - TOLD_MS <= s.at && s.at < f.to);
      const begunBy = again ? 'kubelet' : 'planner';
      open.set(key, { node: s.node, digest, registry: hostOf(image), from: s.at, to: puller.to, begunBy });
    }
  }
  return [...done, ...open.values()].filter((p) => p.to > p.from);
}

/** A leader renews its Lease every two seconds. */
const RENEWED_WITHIN_MS = 4_000;
/** A new leader knows everything and has written what it found so long after its first renewal. */
const SETTLED_MS = 4_000;

/** When nobody led: gaps between renewals of the controllers' Lease. */
export function leaderless(history: readonly Change[], lease: string, until: number): Period[] {
  const renewals = history.flatMap((c) => (c.object.kind === 'Lease' && c.object.metadata.name === lease ? [c.at] : []));
  return [...renewals, until].flatMap((at, i, all) => {
    const before = all[i - 1];
    return before !== undefined && at - before > RENEWED_WITHIN_MS ? [{ from: before, to: at + SETTLED_MS }] : [];
  });
}

/** Holds in ms that the owner of a Workload asks for at a time or asked for shortly before; undefined among them: it was not opted in. */
function askedHolds(history: readonly Change[], lagMs: number): (workload: Raw, at: number) => (number | undefined)[] {
  return (workload, at) => {
    const job = workload.metadata.ownerReferences?.[0]?.uid;
    const versions = history.filter((c) => c.object.kind === 'Job' && c.object.metadata.uid === job && c.at <= at);
    const recent = versions.filter((c, i) => (versions[i + 1]?.at ?? Number.POSITIVE_INFINITY) >= at - lagMs);
    return recent.map(({ object }) => holdOf(object));
  };
}

/** The longest of the holds that were asked for lately, undefined: never opted in; and the shortest, undefined: not always opted in. */
export function askedHold(
  history: readonly Change[],
  lagMs: number,
): Record<'asked' | 'askedLeast', (workload: Raw, at: number) => number | undefined> {
  const holds = askedHolds(history, lagMs);
  const known = (all: readonly (number | undefined)[]): number[] => all.filter((h) => h !== undefined);
  return {
    asked: (workload, at) => {
      const some = known(holds(workload, at));
      return some.length === 0 ? undefined : Math.max(...some);
    },
    askedLeast: (workload, at) => {
      const all = holds(workload, at);
      return all.length === 0 || all.includes(undefined) ? undefined : Math.min(...known(all));
    },
  };
}

/** Hold in ms that a Job's annotations ask for; undefined: not opted in. Holds of these tests are in seconds. */
export function holdOf(job: Raw): number | undefined {
  const annotations = job.metadata.annotations ?? {};
  if (annotations['harbinger.dev/prewarm'] !== 'true') return undefined;
  return Number.parseInt(annotations['harbinger.dev/prewarm-hold'] ?? '0', 10) * 1000;
}
