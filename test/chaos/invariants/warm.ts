import type { History, ImageTruth, Life, Period, Raw, Violation } from './history.js';
import { livesOf, nameOf, uncovered, versionAt } from './history.js';
import { checksOf, conditionOf, controllerUidOf, countsOf, digestOf, gangUidOf, holds, recordOf, targetsOf } from './read.js';

export interface WarmInput {
  history: History;
  images: readonly ImageTruth[];
  /** How old the sight of a kubelet may be from which warmth is concluded at a time, ms. */
  lagMs: number | ((at: number) => number);
  /** Lost warmth has to be taken back within this time, ms, while somebody could see it. */
  takenBackMs: number;
  /** When no controller could see or write: dead, frozen, cut off. */
  blind: readonly Period[];
  /** Whether a node counts for a target of an ImagePrewarm. */
  eligible: (target: Raw, node: string) => boolean;
}

/** P4: what is called warm was on the disks of enough nodes when it was concluded, and the word is taken back once it is not. */
export function provenWarm(input: WarmInput): Violation[] {
  const disks = disksOf(input.images);
  const prewarms = livesOf(input.history, 'ImagePrewarm');
  return [...prewarms.flatMap((p) => claims(p, disks, input)), ...checks(prewarms, disks, input)];
}

const lagAt = (lagMs: WarmInput['lagMs'], at: number): number => (typeof lagMs === 'number' ? lagMs : lagMs(at));

/** When a node had an image: node -> digest -> periods. */
type Disks = ReadonlyMap<string, ReadonlyMap<string, Period[]>>;

function disksOf(truths: readonly ImageTruth[]): Disks {
  const disks = new Map<string, Map<string, Period[]>>();
  for (const { at, node, digest, there } of truths) {
    const disk = disks.get(node) ?? new Map<string, Period[]>();
    const periods = disk.get(digest) ?? [];
    const last = periods.at(-1);
    if (there && last?.to !== Number.POSITIVE_INFINITY) periods.push({ from: at, to: Number.POSITIVE_INFINITY });
    if (!there && last?.to === Number.POSITIVE_INFINITY) last.to = at;
    disks.set(node, disk.set(digest, periods));
  }
  return disks;
}

/** How many nodes had every image of the record at some time of the period, summed over targets up to what each needs. */
function warmNodes(prewarm: Raw, period: Period, { disks, eligible }: { disks: Disks; eligible: WarmInput['eligible'] }): number {
  const record = recordOf(prewarm);
  const sums = targetsOf(prewarm).map((target) => {
    const digests = record.filter((r) => r.target === target.name).map((r) => digestOf(r.resolved ?? ''));
    if (digests.length === 0 || digests.includes(undefined)) return 0;
    const full = [...disks].filter(
      ([node, disk]) =>
        eligible(target.raw, node) &&
        digests.every((d) => disk.get(d ?? '')?.some((p) => p.from <= period.to && p.to > period.from)),
    );
    return Math.min(full.length, target.count ?? full.length);
  });
  return sums.reduce((a, b) => a + b, 0);
}

interface Claim extends Period {
  prewarm: Raw;
}

/** The stretches over which Ready=True stood because nodes are warm, one for each count and record. */
function claimsOf({ versions, goneAt }: Life): Claim[] {
  return versions.flatMap(({ at, object }, i) => {
    const ready = conditionOf(object, 'Ready');
    if (ready?.status !== 'True' || countsOf(object).desired === 0) return [];
    return [{ from: at, to: versions[i + 1]?.at ?? goneAt, prewarm: object }];
  });
}

function claims(life: Life, disks: Disks, input: WarmInput): Violation[] {
  const { lagMs, takenBackMs, blind } = input;
  const ground = { disks, eligible: input.eligible };
  return claimsOf(life).flatMap((claim, i, all): Violation[] => {
    const { desired } = countsOf(claim.prewarm);
    const found = (message: string, at: number): Violation => ({ promise: 'P4', at, object: nameOf(claim.prewarm), message });
    const fresh = all[i - 1]?.to !== claim.from;
    const had = warmNodes(claim.prewarm, { from: claim.from - lagAt(lagMs, claim.from), to: claim.from }, ground);
    if (fresh && had < desired) return [found(`Ready with ${desired} warm nodes, disks had the images on ${had}`, claim.from)];
    // A gang that was let go pulls for itself; nobody waits for the word any more.
    if (holds(claim.prewarm, 'Released')) return [];
    const lacking = deficits(claim, { ...ground, images: input.images, desired });
    const long = lacking.find((d) => uncovered(d, blind) > takenBackMs);
    return long === undefined
      ? []
      : [found(`still Ready ${long.to - long.from} ms after fewer than ${desired} nodes had the images`, long.from)];
  });
}

/** The stretches of a claim in which fewer nodes had the images than it says. */
function deficits(
  { from, to, prewarm }: Claim,
  ground: { disks: Disks; eligible: WarmInput['eligible']; images: readonly ImageTruth[]; desired: number },
): Period[] {
  const times = [from, ...ground.images.map((i) => i.at).filter((at) => at > from && at < to)];
  const lacking: Period[] = [];
  times.forEach((at, i) => {
    const end = times[i + 1] ?? Math.min(to, Math.max(at, ...ground.images.map((t) => t.at)));
    if (end <= at || warmNodes(prewarm, { from: at, to: at }, ground) >= ground.desired) return;
    const last = lacking.at(-1);
    if (last?.to === at) last.to = end;
    else lacking.push({ from: at, to: end });
  });
  return lacking;
}

const WARM_MESSAGE = /^images warm on (\d+)\/(\d+) nodes/;

/** Checks that became Ready with the word that images are warm. */
function checks(prewarms: readonly Life[], disks: Disks, input: WarmInput): Violation[] {
  return livesOf(input.history, 'Workload').flatMap(({ versions }) =>
    versions.flatMap(({ at, object }, i) => {
      const before = versions[i - 1]?.object;
      const turned = checksOf(object).filter(
        (c) =>
          c.state === 'Ready' && before !== undefined && checksOf(before).some((b) => b.name === c.name && b.state !== 'Ready'),
      );
      return turned.flatMap(({ message }): Violation[] => {
        const said = WARM_MESSAGE.exec(message);
        const uid = controllerUidOf(object);
        if (said === null || Number(said[1]) === 0) return [];
        const life = prewarms.find((p) => gangUidOf(p.versions[0]?.object as Raw) === uid);
        const prewarm = life === undefined ? undefined : versionAt(life, at);
        if (prewarm === undefined) return [];
        const had = warmNodes(prewarm, { from: at - lagAt(input.lagMs, at), to: at }, { disks, eligible: input.eligible });
        if (had >= Number(said[1])) return [];
        return [{ promise: 'P4', at, object: nameOf(object), message: `"${message}", disks had the images on ${had} nodes` }];
      });
    }),
  );
}
