import { describe, expect, test } from '@jest/globals';
import type { Change, Period } from '../../chaos/invariants/index.js';
import { boundedHolds } from '../../chaos/invariants/index.js';
import type { WorkloadDraft } from './histories.js';
import { added, deleted, job, modified, prewarm, workload } from './histories.js';

const RESERVED = 100_000;
const ASKED = 15_000;
const STAMP = RESERVED + ASKED;
const HELD = '0/2 nodes warm; held until 1970-01-01T00:01:55Z at the latest';
const of = (draft: WorkloadDraft) => workload({ reservedAt: RESERVED, ...draft });
const begins = added(RESERVED, of({ state: 'Pending' }));
const held = (stamp = STAMP): Change[] => [
  begins,
  modified(RESERVED + 500, of({ state: 'Pending', stamp })),
  modified(RESERVED + 1_000, of({ state: 'Pending', stamp, message: HELD })),
];
const ends = (at: number, message: string, stamp?: number): Change =>
  modified(at, of({ state: 'Ready', message, ...(stamp === undefined ? {} : { stamp }) }));
/** Stamped for a reservation that was lost, to an end that is still to come. */
const EARLIER = { stamp: STAMP + 60_000, stampedFor: RESERVED - 5_000 };
const former = added(RESERVED, of({ state: 'Pending', ...EARLIER }));
const endsBy = (at: number, message: string): Change => modified(at, of({ state: 'Ready', message, ...EARLIER }));
const sends = (at: number, message: string, stamp: number): Change => modified(at, of({ state: 'Retry', message, stamp }));
const PULLS_OVER = 'timed out, back to the queue: the time for its pulls is over with 0/2 nodes warm';
const JOB = job({ 'harbinger.dev/prewarm': 'true' });
const OVER = 'timed out, starting cold: the hold of 15s is over';

interface Told {
  asked?: number | undefined;
  ahead?: Period[];
}
const told = (history: Change[], { ahead = [], ...wish }: Told = {}): string[] => {
  const asked = 'asked' in wish ? wish.asked : ASKED;
  return boundedHolds({
    history,
    checks: new Set(['images']),
    unstampedHoldMs: 30_000,
    boundMs: 75_000,
    asked: () => asked,
    askedLeast: () => asked,
    lagMs: 12_000,
    pullsMs: 10_000,
    ahead,
    until: 1_000_000,
  }).map((v) => v.message);
};

describe('the checker of P5 tells of', () => {
  test.each<[string, Change[], RegExp, Told?]>([
    [
      'a stamp that vouches for more than was asked for',
      [...held(RESERVED + 85_000), ends(RESERVED + 85_000, OVER, RESERVED + 85_000)],
      /stamped 85000 ms after the reservation, asked were 15000 ms/,
    ],
    ['a hold that outlives its stamp', [...held(), ends(STAMP + 80_000, OVER, STAMP)], /80000 ms too long/],
    ['a hold without a stamp that does not end', [begins, ends(RESERVED + 120_000, 'Unstamped: nobody vouched')], /no stamp/],
    ['a hold that never ends', held(), /too long/],
    [
      'a hold that is told before it is stamped',
      [begins, modified(100_500, of({ state: 'Pending', message: HELD })), ends(101_000, 'images warm on 2/2 nodes')],
      /no stamp vouches/,
    ],
    [
      'a stamp on a gang that did not opt in',
      [...held(), ends(STAMP, 'not opted in to prewarming', STAMP)],
      /did not opt in/,
      { asked: undefined },
    ],
    ['a hold that is called over after a second', [...held(), ends(101_500, OVER, STAMP)], /its hold lasted 13500 ms longer/],
    [
      'one that the watchdog ends before its stamp',
      [...held(), ends(105_000, 'DeadlineExceeded: the deadline passed', STAMP)],
      /lasted 10000 ms longer/,
    ],
    [
      'one that the watchdog ends at once for want of a stamp',
      [begins, ends(101_000, 'Unstamped: nobody vouched')],
      /lasted 29000 ms longer/,
    ],
    [
      'one that ends for want of a stamp that is there',
      [...held(), ends(STAMP, 'Unstamped: nobody vouched', STAMP)],
      /there was a stamp/,
    ],
    [
      'one that ends for want of a stamp though its own is there',
      [
        added(RESERVED, of({ state: 'Pending', stamp: STAMP, stampedFor: RESERVED })),
        ends(STAMP, 'Unstamped: nobody vouched', STAMP),
      ],
      /there was a stamp/,
    ],
    [
      'one that ends by the stamp of another reservation',
      [former, endsBy(RESERVED + 31_000, 'DeadlineExceeded: the deadline passed')],
      /there was no stamp/,
    ],
    [
      'one that outlives the time without a stamp under the stamp of another reservation',
      [former, endsBy(RESERVED + 110_000, 'images warm on 2/2 nodes')],
      /no stamp, 80000 ms too long/,
    ],
    [
      'one that ends for a job that is still there',
      [added(0, JOB), ...held(), ends(105_000, 'its job is gone', STAMP)],
      /was there/,
    ],
    [
      'one that ends as opted out where its job was deleted opted in',
      [added(0, JOB), ...held(), deleted(104_000, JOB), ends(105_000, 'not opted in to prewarming', STAMP)],
      /the gang was opted in/,
    ],
    [
      'one that ends as hopeless while nothing has failed',
      [added(0, prewarm({ digest: 1 })), ...held(), ends(105_000, 'let go cold, waiting cannot help: denied', STAMP)],
      /no ImagePrewarm of it had failed/,
    ],
    [
      'one that ends because nothing is pulled while something is',
      [added(0, prewarm({ digest: 1 })), ...held(), ends(105_000, 'nothing is pulled for the gang any more: at rest', STAMP)],
      /was not at rest/,
    ],
    [
      'one that ends cold though a hold was asked for',
      [...held(), ends(105_000, 'quota is reserved; let go with 0/2', STAMP)],
      /a hold of 15000 ms was asked for/,
    ],
    [
      'one that ends as opted out while it is opted in',
      [...held(), ends(105_000, 'not opted in to prewarming', STAMP)],
      /the gang was opted in/,
    ],
    [
      'one that sends the gang back before it is over',
      [...held(), sends(105_000, 'timed out, back to the queue: the hold of 15s is over', STAMP)],
      /lasted 10000 ms longer/,
    ],
    ['one that sends the gang back that is told to start', [...held(), sends(STAMP, OVER, STAMP)], /its check says Retry/],
    [
      'one that lets a gang go that is told to go back',
      [...held(), ends(STAMP, 'timed out, back to the queue: the hold of 15s is over', STAMP)],
      /its check says Ready/,
    ],
    [
      'one that ends with the time for pulls that have time',
      [added(0, prewarm({ digest: 1 })), ...held(), sends(105_000, PULLS_OVER, STAMP)],
      /had time/,
    ],
    [
      'one that ends with the time for pulls of an earlier reservation',
      [added(0, prewarm({ digest: 1, is: { Ready: 'DeadlineExceeded' } })), ...held(), sends(105_000, PULLS_OVER, STAMP)],
      /lasted 5000 ms longer/,
    ],
    ['one that ends with words of no cause', [...held(), ends(105_000, 'go', STAMP)], /names no cause/],
  ])('%s', (_what, history, message, wish = {}) => {
    expect(told(history, wish)).toEqual([expect.stringMatching(message)]);
  });
});

describe('the checker of P5 lets pass', () => {
  const failed = prewarm({ digest: 1, is: { Failed: 'AuthDenied' } });
  test.each<[string, Change[], Told?]>([
    ['a hold that ends at its deadline', [...held(), ends(STAMP, OVER, STAMP)]],
    [
      'one that sends the gang back at its deadline',
      [...held(), sends(STAMP, 'timed out, back to the queue: the hold of 15s is over', STAMP)],
    ],
    [
      'one that ends with the time for its pulls',
      [added(0, prewarm({ digest: 1, is: { Ready: 'DeadlineExceeded' } })), ...held(), sends(110_000, PULLS_OVER, STAMP)],
    ],
    [
      'the words of the last hold, which Kueue leaves until the next is told',
      [
        ...held(),
        modified(105_000, of({ state: 'Pending', stamp: STAMP, message: HELD, is: ['Evicted'] })),
        modified(106_000, of({ state: 'Pending', stamp: STAMP, message: HELD, reservedAt: 106_000, stampedFor: RESERVED })),
        modified(107_000, of({ state: 'Ready', stamp: STAMP, message: 'images warm on 2/2 nodes', reservedAt: 106_000 })),
      ],
    ],
    [
      'one that the watchdog ends some time later',
      [...held(), ends(STAMP + 40_000, 'DeadlineExceeded: the deadline passed', STAMP)],
    ],
    ['one that ends warm', [...held(), ends(105_000, 'images warm on 2/2 nodes', STAMP)]],
    ['one that nobody stamped in time', [begins, ends(RESERVED + 31_000, 'Unstamped: nobody vouched')]],
    ['one for which only an earlier reservation was stamped', [former, endsBy(RESERVED + 31_000, 'Unstamped: nobody vouched')]],
    ['one whose job was deleted', [added(0, JOB), ...held(), deleted(104_000, JOB), ends(105_000, 'its job is gone', STAMP)]],
    ['one that is hopeless', [added(0, failed), ...held(), ends(105_000, 'let go cold, waiting cannot help: denied', STAMP)]],
    [
      'one that was hopeless a moment before',
      [
        added(0, failed),
        ...held(),
        modified(104_000, prewarm({ digest: 1 })),
        ends(105_000, 'let go cold, waiting cannot help: denied', STAMP),
      ],
    ],
    [
      'one that a clock which is ahead takes for over',
      [...held(), ends(101_500, OVER, STAMP)],
      { ahead: [{ from: 90_000, to: 180_000 }] },
    ],
    ['a gang that opted out', [begins, ends(105_000, 'not opted in to prewarming')], { asked: undefined }],
    ['an end by eviction', [...held(), modified(105_000, of({ state: 'Pending', stamp: STAMP, is: ['Evicted'] }))]],
  ])('%s', (_what, history, wish = {}) => {
    expect(told(history, wish)).toEqual([]);
  });
});
