import { describe, expect, test } from '@jest/globals';
import type { Change } from '../../chaos/invariants/index.js';
import { uniformGangs } from '../../chaos/invariants/index.js';
import { added, deleted, digest, job, member, modified, prewarm } from './histories.js';

const RELEASED = { Released: 'QuotaReservedCold' };
const IN = { 'harbinger.dev/prewarm': 'true' };
const OUT = { 'harbinger.dev/prewarm': 'false' };
const told = (history: Change[]): string[] => uniformGangs(history, { lagMs: 1_000 }).map((v) => v.message);
const moved = `the record of main r/a:v1 became ${digest(2)} while Pods ran ${digest(1)}`;

describe('the checker of P3 tells of', () => {
  test.each<[string, Change[], string]>([
    [
      'a record that moves under Pods though nobody wrote that the gang was let go',
      [
        added(0, prewarm({ digest: 1 })),
        added(10_000, member('a', 1)),
        modified(20_000, prewarm({ digest: 2 })),
        added(40_000, member('b', 2)),
      ],
      moved,
    ],
    [
      'a record that was open at the first Pod and moved after it was complete',
      [
        added(0, prewarm({ is: RELEASED })),
        added(10_000, member('a')),
        modified(20_000, prewarm({ digest: 1, is: RELEASED })),
        added(30_000, member('b', 1)),
        modified(40_000, prewarm({ digest: 2, is: RELEASED })),
        added(60_000, member('c', 2)),
      ],
      moved,
    ],
    [
      'a record that was deleted and made anew with other bytes beside Pods that run',
      [
        added(0, prewarm({ digest: 1, is: RELEASED })),
        added(10_000, member('a', 1)),
        deleted(20_000, prewarm({ digest: 1, is: RELEASED })),
        added(21_000, prewarm({ uid: 'p2', digest: 2, is: RELEASED })),
        added(40_000, member('b', 2)),
      ],
      moved,
    ],
    [
      'a member that runs what is not recorded',
      [added(0, prewarm({ digest: 1 })), added(10_000, member('a', 2))],
      `runs r/a@${digest(2)}, recorded was r/a@${digest(1)}`,
    ],
    [
      'a member that came by its tag while everything was recorded',
      [added(0, prewarm({ digest: 1 })), added(10_000, member('a'))],
      `runs r/a:v1, recorded was r/a@${digest(1)}`,
    ],
    [
      'a member that came by its tag when its image, edited before, had been recorded for longer than a copy lags',
      [
        added(0, prewarm({ digest: 1 })),
        modified(8_900, prewarm({ repository: 'r/b', digest: 2 })),
        added(10_000, member('a', undefined, 'r/b')),
      ],
      `runs r/b:v1, recorded was r/b@${digest(2)}`,
    ],
    [
      'a member that came by its tag while two records that followed each other listed it',
      [added(0, prewarm({ digest: 1 })), modified(9_500, prewarm({ digest: 1, is: RELEASED })), added(10_000, member('a'))],
      `runs r/a:v1, recorded was r/a@${digest(1)}`,
    ],
  ])('%s', (_what, history, message) => {
    expect(told(history)).toEqual([message]);
  });
});

describe('the checker of P3 lets pass', () => {
  test.each<[string, Change[]]>([
    [
      'a record that moved before the first Pod',
      [added(0, prewarm({ digest: 1 })), modified(5_000, prewarm({ digest: 2 })), added(10_000, member('a', 2))],
    ],
    [
      'a member that got the record of a moment before',
      [added(0, prewarm({ digest: 1 })), modified(9_500, prewarm({ digest: 2 })), added(10_000, member('a', 1))],
    ],
    [
      'a member that came by its tag when its image was edited and recorded a moment before',
      [
        added(0, prewarm({ digest: 1 })),
        modified(9_500, prewarm({ repository: 'r/b', digest: 2 })),
        added(10_000, member('a', undefined, 'r/b')),
      ],
    ],
    ['a member that came while nothing was recorded', [added(0, prewarm({})), added(10_000, member('a'))]],
    [
      'a record made anew with the same bytes',
      [
        added(0, prewarm({ digest: 1 })),
        added(10_000, member('a', 1)),
        deleted(20_000, prewarm({ digest: 1 })),
        added(21_000, prewarm({ uid: 'p2', digest: 1 })),
      ],
    ],
    [
      'a record that moves after Pods of a gang that was not opted in then',
      [
        added(0, job(OUT)),
        added(0, prewarm({ digest: 1 })),
        added(10_000, member('a', 1)),
        modified(20_000, job(IN)),
        modified(30_000, prewarm({ digest: 2 })),
      ],
    ],
    [
      'a record that its owner never wants to be final',
      [
        added(0, prewarm({ digest: 1, pin: 'Never' })),
        added(10_000, member('a', 1)),
        modified(20_000, prewarm({ digest: 2, pin: 'Never' })),
      ],
    ],
    [
      'the record of another gang',
      [
        added(0, prewarm({ digest: 1, gang: 'other' })),
        added(10_000, member('a', 3)),
        modified(20_000, prewarm({ digest: 2, gang: 'other' })),
      ],
    ],
  ])('%s', (_what, history) => {
    expect(told(history)).toEqual([]);
  });

  test('nothing of the same kind once the gang was opted in', () => {
    const history = [
      added(0, job(IN)),
      added(0, prewarm({ digest: 1 })),
      added(10_000, member('a', 1)),
      modified(30_000, prewarm({ digest: 2 })),
    ];
    expect(told(history)).toEqual([moved]);
  });
});
