import { at, list } from '../../../src/api/json.js';
import type { History, ImageTruth, Life, Period, Raw, Silence, Violation } from './history.js';
import { livesOf, nameOf, standing, uncovered } from './history.js';
import type { ByNode } from './proof.js';
import { both, edgesOf, lastHeard, onDisk, vouchedFor } from './proof.js';
import { checksOf, conditionOf, controllerUidOf, countsOf, digestOf, gangUidOf, holds, recordOf, targetsOf } from './read.js';

export interface WarmInput {
  history: History;
  images: readonly ImageTruth[];
  /** How old the sight of a kubelet may be from which warmth is concluded at a time, ms. */
  lagMs: number | ((at: number) => number);
  /** Warmth that was lost has to be taken back within this time, ms, while somebody could see it. */
  takenBackMs: {
    /** What only kubelets know: the image is not on the disk any more. */
    disk: number;
    /** What objects show: the puller does not run, the node is not Ready or is gone. */
    shown: number;
  };
  /** When no controller could see or write: dead, frozen, cut off. */
  blind: readonly Period[];
  /** When kubelets said nothing; none where they always speak. */
  silences?: readonly Silence[];
}

interface Ground extends WarmInput {
  /** Where and when a puller vouched. */
  shown: ByNode;
  /** Where and when it did so rightly. */
  proven: ByNode;
  /** Where and when it did so rightly, as far as anybody could know. */
  known: ByNode;
  /** End of what was seen. */
  until: number;
}

/**
 * P4: what is called warm was on the disks of enough Ready nodes, and vouched for by pullers that ran there, when it was concluded; and the
 * word is taken back once it is not so.
 */
export function provenWarm(input: WarmInput): Violation[] {
  const shown = vouchedFor(input.history);
  const until = Math.max(0, input.history.at(-1)?.at ?? 0, input.images.at(-1)?.at ?? 0);
  const disks = onDisk(input.images);
  const known = both(lastHeard(disks, input.silences ?? []), shown);
  const ground: Ground = { ...input, shown, proven: both(disks, shown), known, until };
  const prewarms = livesOf(input.history, 'ImagePrewarm');
  return [...prewarms.flatMap((p) => claims(p, ground)), ...checks(prewarms, ground)];
}

/** The time from which on a conclusion at a moment may draw. */
function windowAt({ lagMs }: WarmInput, to: number): Period {
  return { from: to - (typeof lagMs === 'number' ? lagMs : lagMs(to)), to };
}

/** How many nodes had every image of the record at some time of the period, summed over targets up to what each needs. */
function warmNodes(prewarm: Raw, period: Period, nodes: ByNode): number {
  const record = recordOf(prewarm);
  const sums = targetsOf(prewarm).map((target) => {
    const digests = record.filter((r) => r.target === target.name).map((r) => digestOf(r.resolved ?? ''));
    if (digests.length === 0 || digests.includes(undefined)) return 0;
    const named = list(at(target.raw, 'nodes')['names']);
    const full = [...nodes].filter(
      ([node, held]) =>
        named?.includes(node) !== false &&
        digests.every((d) => held.get(d ?? '')?.some((p) => p.from <= period.to && p.to > period.from)),
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
  return versions.flatMap(({ at: from, object }, i) => {
    const ready = conditionOf(object, 'Ready');
    if (ready?.status !== 'True' || countsOf(object).desired === 0) return [];
    return [{ from, to: versions[i + 1]?.at ?? goneAt, prewarm: object }];
  });
}

function claims(life: Life, ground: Ground): Violation[] {
  const { takenBackMs, blind, shown, proven, known } = ground;
  return claimsOf(life).flatMap((claim, i, all): Violation[] => {
    const { desired } = countsOf(claim.prewarm);
    const found = (message: string, when: number): Violation => ({
      promise: 'P4',
      at: when,
      object: nameOf(claim.prewarm),
      message,
    });
    const fresh = all[i - 1]?.to !== claim.from;
    const had = warmNodes(claim.prewarm, windowAt(ground, claim.from), known);
    if (fresh && had < desired) return [found(`Ready with ${desired} warm nodes, proven was it on ${had}`, claim.from)];
    // A gang that was let go pulls for itself; nobody waits for the word any more.
    if (holds(claim.prewarm, 'Released')) return [];
    const long =
      deficits(claim, shown, ground).find((d) => uncovered(d, blind) > takenBackMs.shown) ??
      deficits(claim, proven, ground).find((d) => uncovered(d, blind) > takenBackMs.disk);
    return long === undefined
      ? []
      : [found(`still Ready ${long.to - long.from} ms after fewer than ${desired} nodes were proven warm`, long.from)];
  });
}

/** The stretches of a claim in which fewer nodes were warm than it says. */
function deficits({ from, to, prewarm }: Claim, nodes: ByNode, { until }: Ground): Period[] {
  const { desired } = countsOf(prewarm);
  const end = Math.min(to, until);
  const times = [from, ...edgesOf(nodes).filter((t) => t > from && t < end), end];
  const lacking: Period[] = [];
  times.slice(0, -1).forEach((t, i) => {
    const next = times[i + 1] ?? t;
    if (next <= t || warmNodes(prewarm, { from: t, to: t }, nodes) >= desired) return;
    const last = lacking.at(-1);
    if (last?.to === t) last.to = next;
    else lacking.push({ from: t, to: next });
  });
  return lacking;
}

const WARM_MESSAGE = /^images warm on (\d+)\/(\d+) nodes/;

/** Checks that became Ready with the word that images are warm. */
function checks(prewarms: readonly Life[], ground: Ground): Violation[] {
  return livesOf(ground.history, 'Workload').flatMap(({ versions }) =>
    versions.flatMap(({ at: when, object }, i) => {
      const before = versions[i - 1]?.object;
      const turned = checksOf(object).filter(
        (c) =>
          c.state === 'Ready' && before !== undefined && checksOf(before).some((b) => b.name === c.name && b.state !== 'Ready'),
      );
      return turned.flatMap(({ message }): Violation[] => {
        const said = Number(WARM_MESSAGE.exec(message)?.[1] ?? 0);
        if (said === 0) return [];
        const window = windowAt(ground, when);
        // Whoever names a count has seen a record: one of those that stood lately, whatever object it was on.
        const counts = recordsOf(prewarms, controllerUidOf(object), window).map((p) => warmNodes(p, window, ground.known));
        if (counts.some((count) => count >= said)) return [];
        const had = counts.length === 0 ? 'there was no ImagePrewarm' : `proven was it on ${Math.max(...counts)} nodes`;
        return [{ promise: 'P4', at: when, object: nameOf(object), message: `"${message}", ${had}` }];
      });
    }),
  );
}

/** What stood in a period on any ImagePrewarm of a gang. */
function recordsOf(prewarms: readonly Life[], gangUid: string | undefined, period: Period): Raw[] {
  return prewarms.flatMap((life) => standing(life, period)).filter((p) => gangUidOf(p) === gangUid);
}
