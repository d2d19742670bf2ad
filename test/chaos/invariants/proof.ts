import { at, records, string, time } from '../../../src/api/json.js';
import type { History, ImageTruth, Life, Period, Raw, Silence } from './history.js';
import { livesOf } from './history.js';
import { digestOf, holds, imagesOf } from './read.js';

/** Node -> digest -> when. */
export type ByNode = ReadonlyMap<string, ReadonlyMap<string, readonly Period[]>>;

/** When nodes had images on their disks, as kubelets know it. */
export function onDisk(truths: readonly ImageTruth[]): ByNode {
  const disks = new Map<string, Map<string, Period[]>>();
  for (const { at: when, node, digest, there } of truths) {
    const periods = periodsIn(disks, node, digest);
    const last = periods.at(-1);
    if (there && last?.to !== Number.POSITIVE_INFINITY) periods.push({ from: when, to: Number.POSITIVE_INFINITY });
    if (!there && last?.to === Number.POSITIVE_INFINITY) last.to = when;
  }
  return disks;
}

/** After so long without a word a node counts as gone, ms: until then nobody can tell a dead machine from a slow one. */
const GRACE_MS = 40_000;

/** What nodes had on their disks when they were last heard of: what is lost in a silence shows once the node counts as gone. */
export function lastHeard(disks: ByNode, silences: readonly Silence[]): ByNode {
  const heard = ({ from, to }: Period, node: string): Period => {
    const silence = silences.find((s) => s.node === node && s.from <= to && to < s.to);
    return { from, to: silence === undefined ? to : Math.max(to, Math.min(silence.to, silence.from + GRACE_MS)) };
  };
  return new Map(
    [...disks].map(([node, digests]) => [
      node,
      new Map([...digests].map(([digest, periods]) => [digest, periods.map((p) => heard(p, node))] as const)),
    ]),
  );
}

function periodsIn(map: Map<string, Map<string, Period[]>>, node: string, digest: string): Period[] {
  const ofNode = map.get(node) ?? new Map<string, Period[]>();
  const periods = ofNode.get(digest) ?? [];
  map.set(node, ofNode.set(digest, periods));
  return periods;
}

/** When somebody could vouch for images: a puller of the digest ran on the machine, past its startup probe, and the node was Ready. */
export function vouchedFor(history: History): ByNode {
  const nodes = livesOf(history, 'Node');
  const vouched = new Map<string, Map<string, Period[]>>();
  for (const pod of livesOf(history, 'Pod')) {
    for (const { node, digest, object, ...ran } of runsOf(pod)) {
      const machines = nodes.filter((n) => n.versions[0]?.object.metadata.name === node && isItsMachine(n, object));
      for (const machine of machines) periodsIn(vouched, node, digest).push(...overlaps([ran], readyPeriods(machine)));
    }
  }
  return vouched;
}

/** Per version of a puller Pod that runs: where, for which digest, and for how long it stood. */
function runsOf({ versions, goneAt }: Life): (Period & { node: string; digest: string; object: Raw })[] {
  return versions.flatMap(({ at: from, object }, i) => {
    const { labels, deletionTimestamp } = object.metadata;
    const node = string(at(object, 'spec')['nodeName']);
    if (labels?.['harbinger.dev/puller'] === undefined || deletionTimestamp !== undefined || node === undefined) return [];
    if (!records(at(object, 'status')['containerStatuses']).some((c) => c['started'] === true)) return [];
    return pulledBy(object).map((digest) => ({ from, to: versions[i + 1]?.at ?? goneAt, node, digest, object }));
  });
}

/** Digests that a puller mounts, or runs where nodes know no image volumes. */
function pulledBy(pod: Raw): string[] {
  const volumes = records(at(pod, 'spec')['volumes']).map((v) => string(at(v, 'image')['reference']) ?? '');
  return [...volumes, ...imagesOf(pod)].flatMap((reference) => digestOf(reference) ?? []);
}

/** A node that joined after the Pod was made is another machine, unless the container was started there. */
function isItsMachine({ versions }: Life, pod: Raw): boolean {
  const joined = time(versions[0]?.object.metadata.creationTimestamp) ?? 0;
  const made = time(pod.metadata.creationTimestamp) ?? joined;
  const [started] = records(at(pod, 'status')['containerStatuses']).map((c) => time(at(c, 'state', 'running')['startedAt']) ?? 0);
  return joined <= made || (started ?? 0) >= joined;
}

const readyPeriods = ({ versions, goneAt }: Life): Period[] =>
  versions.flatMap(({ at: from, object }, i) => (holds(object, 'Ready') ? [{ from, to: versions[i + 1]?.at ?? goneAt }] : []));

/** What lies in a period of either list. */
function overlaps(some: readonly Period[], others: readonly Period[]): Period[] {
  return some.flatMap((a) =>
    others.map((b) => ({ from: Math.max(a.from, b.from), to: Math.min(a.to, b.to) })).filter(({ from, to }) => from < to),
  );
}

/** Where and when both hold. */
export function both(some: ByNode, others: ByNode): ByNode {
  return new Map(
    [...some].map(([node, digests]) => [
      node,
      new Map([...digests].map(([digest, periods]) => [digest, overlaps(periods, others.get(node)?.get(digest) ?? [])] as const)),
    ]),
  );
}

/** The moments at which anything begins or ends, in order. */
export function edgesOf(map: ByNode): number[] {
  const all = [...map.values()].flatMap((digests) => [...digests.values()].flat()).flatMap(({ from, to }) => [from, to]);
  return [...new Set(all)].filter(Number.isFinite).sort((a, b) => a - b);
}
