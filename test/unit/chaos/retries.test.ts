import { describe, expect, test } from '@jest/globals';
import type { Change, Period, PullTruth } from '../../chaos/invariants/index.js';
import { boundedRetries, releasesOf } from '../../chaos/invariants/index.js';
import type { WorkloadDraft } from './histories.js';
import { added, deleted, digest, modified, prewarm, puller, workload } from './histories.js';

const BACK = 'timed out, back to the queue: the hold of 20s is over';
const of = (draft: Partial<WorkloadDraft>) => workload({ state: 'Pending', ...draft });
const queued = added(0, of({}));
const reserved = (at: number): Change => modified(at, of({ reservedAt: at }));
const retry = (at: number, since: number, is: string[] = []): Change =>
  modified(at, of({ state: 'Retry', message: BACK, reservedAt: since, is }));
const evicted = (at: number, since: number, evictedBy = 'AdmissionCheck'): Change =>
  modified(at, of({ reservedAt: since, evictedBy }));
const waits = (at: number): Change => modified(at, of({ evictedBy: 'AdmissionCheck' }));
const starts = (at: number, since: number): Change =>
  modified(at, of({ state: 'Ready', message: 'go', reservedAt: since, is: ['Admitted'] }));
/** One reservation that ends with the gang back in its queue. */
const tryAt = (at: number): Change[] => [reserved(at), retry(at + 20_000, at), evicted(at + 20_100, at), waits(at + 20_400)];

interface Told {
  times?: number;
  requeueAfterMs?: number;
  pulls?: PullTruth[];
  blind?: Period[];
  troubles?: Period[];
  optedIn?: boolean;
}
const told = (history: Change[], { times = 1, requeueAfterMs = 0, pulls = [], ...more }: Told = {}): string[] => {
  const { blind = [], troubles = [], optedIn = true } = more;
  return boundedRetries({
    history: [...history].sort((a, b) => a.at - b.at),
    pulls,
    checks: new Set(['images']),
    allowed: () => ({ times, requeueAfterMs }),
    asked: () => 20_000,
    askedLeast: () => (optedIn ? 20_000 : undefined),
    unstampedHoldMs: 15_000,
    boundMs: 5_000,
    lagMs: 10_000,
    blind,
    troubles,
    until: 1_000_000,
  }).map((v) => v.message);
};

const pulling = added(0, prewarm({ digest: 1, warm: 1 }));
const pulled = (node: string, from: number, to: number): PullTruth => ({
  ...{ node, digest: digest(1), registry: 'r', from, to },
  begunBy: 'planner',
});
const both = [pulled('a', 5_000, 10_000), pulled('b', 15_000, 90_000)];

describe('the checker of gangs that are sent back tells of', () => {
  test.each<[string, Change[], RegExp, Told?]>([
    ['one that has no quota', [queued, modified(10_000, of({ state: 'Retry', message: BACK }))], /without quota/],
    [
      'one that is on its way back already',
      [queued, reserved(10_000), evicted(29_000, 10_000), retry(30_000, 10_000)],
      /while it is Evicted/,
    ],
    [
      'one that runs',
      [
        queued,
        reserved(10_000),
        modified(11_000, of({ reservedAt: 10_000, is: ['Admitted'] })),
        retry(30_000, 10_000, ['Admitted']),
      ],
      /while it is Admitted/,
    ],
    [
      'one that was let go',
      [queued, reserved(10_000), modified(11_000, of({ state: 'Ready', reservedAt: 10_000 })), retry(30_000, 10_000)],
      /after it was let go/,
    ],
    [
      'one that was sent back before as often as it may',
      [queued, ...tryAt(10_000), ...tryAt(40_000), reserved(70_000), starts(71_000, 70_000)],
      /sent back 2 times, 1 are allowed/,
    ],
    ['one whose check lets it start', [queued, ...tryAt(10_000)], /1 times, 0 are allowed/, { times: 0 }],
    [
      'one whose holds take too long together',
      [queued, reserved(10_000), retry(60_000, 10_000), evicted(60_100, 10_000), waits(60_400), starts(70_000, 65_000)],
      /had quota for 50400 ms before it ran, 50000 ms are the most/,
    ],
    [
      'one for which nothing is pulled while it waits',
      [queued, ...tryAt(10_000), added(0, prewarm({ digest: 1, is: { Ready: 'Finished' } }))],
      /nothing is pulled for it/,
    ],
    [
      'one that loses a puller while it waits',
      [queued, ...tryAt(10_000), pulling, added(5_000, puller('a', 1)), deleted(60_000, puller('a', 1))],
      /its puller puller-a goes/,
    ],
  ])('%s', (_what, history, message, wish = {}) => {
    expect(told(history, wish)).toEqual([expect.stringMatching(message)]);
  });

  test('one for which a third node pulls what two have or are about to have', () =>
    expect(told([queued, ...tryAt(10_000), pulling], { pulls: [...both, pulled('c', 50_000, 60_000)] })).toEqual([
      'sent back, and what it has is pulled once more on c',
    ]));
});

describe('the checker of gangs that are sent back lets pass', () => {
  const gone = [added(5_000, puller('a', 1)), deleted(60_000, puller('a', 1))];
  const resting = added(0, prewarm({ digest: 1, is: { Ready: 'Finished' } }));
  test.each<[string, Change[], Told?]>([
    ['one that starts after its last time', [queued, ...tryAt(10_000), reserved(40_000), starts(60_000, 40_000)]],
    [
      'one that keeps its quota for as long as its check says',
      [queued, reserved(10_000), retry(30_000, 10_000), evicted(65_000, 10_000), waits(65_400), starts(70_000, 68_000)],
      { requeueAfterMs: 30_000 },
    ],
    [
      'one that others evict in between: each reservation has the whole hold, and Kueue does not count it',
      [
        ...[queued, reserved(10_000), retry(30_000, 10_000), evicted(30_100, 10_000, 'Preempted'), waits(30_400)],
        ...[...tryAt(40_000), reserved(70_000), starts(90_000, 70_000)],
      ],
    ],
    ['one whose puller stays', [queued, ...tryAt(10_000), pulling, added(5_000, puller('a', 1))]],
    ['one that loses a puller once it starts', [queued, ...tryAt(10_000), reserved(40_000), pulling, ...gone]],
    [
      'one that loses a puller after something went wrong',
      [queued, ...tryAt(10_000), pulling, ...gone],
      { troubles: [{ from: 50_000, to: 70_000 }] },
    ],
    [
      'one that needs something else now',
      [queued, ...tryAt(10_000), pulling, modified(55_000, prewarm({ digest: 2, warm: 0 })), ...gone],
    ],
    ['one that is not opted in any more', [queued, ...tryAt(10_000), resting], { optedIn: false }],
    [
      'one for which nothing is pulled while nobody lives',
      [queued, ...tryAt(10_000), resting],
      { blind: [{ from: 0, to: 1e6 }] },
    ],
    [
      'pulls on as many nodes as it needs',
      [queued, ...tryAt(10_000), pulling],
      { pulls: [both[0] as PullTruth, pulled('b', 50_000, 60_000)] },
    ],
    [
      'a pull on a third node for another gang',
      [queued, ...tryAt(10_000), pulling, added(0, prewarm({ uid: 'p2', digest: 1, gang: 'other' }))],
      { pulls: [...both, pulled('c', 50_000, 60_000)] },
    ],
  ])('%s', (_what, history, wish = {}) => {
    expect(told(history, wish)).toEqual([]);
  });
});

test('each time that a check sends a gang back counts as an end of a hold', () => {
  const again = modified(30_050, of({ state: 'Retry', message: BACK, reservedAt: 10_000 }));
  const history = [queued, ...tryAt(10_000).slice(0, 2), again, ...tryAt(40_000)];
  expect(releasesOf(history)).toMatchObject({ SentBack: 2, Watchdog: 0 });
});
