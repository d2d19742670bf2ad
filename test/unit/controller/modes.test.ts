import { describe, expect, test } from '@jest/globals';
import type { ImagePrewarmStatus } from '../../../src/api/kinds/image-prewarm.js';
import { decidePrewarm } from '../../../src/controller/prewarm/decide.js';
import type { PrewarmDecision } from '../../../src/controller/prewarm/decide.js';
import type { Lifecycle } from '../../../src/controller/prewarm/lifecycle.js';
import { inMode } from '../../../src/controller/prewarm/lifecycle.js';
import type { PrewarmSnapshot } from '../../../src/controller/prewarm/snapshot.js';
import { condition, conditionOf, context, gang, iso, prewarm, progress, recorded, snapshot, T0 } from './fixtures.js';

const MINUTE = 60_000;
const pulls: Lifecycle = { mayPull: true, keep: true };
const observing: Lifecycle = { mayPull: false, keep: true, why: 'Observing' };
const off: Lifecycle = { mayPull: false, keep: false, why: 'SwitchedOff' };

describe('what may be done in a mode', () => {
  const behind: Lifecycle = { mayPull: false, keep: true, why: 'QueuePosition' };
  const done: Lifecycle = { mayPull: false, keep: false, why: 'Finished' };
  test.each<[string, Lifecycle, 'On' | 'Observe' | 'Off', Lifecycle]>([
    ['On: all that the gang calls for', pulls, 'On', pulls],
    ['Observe: nothing but looking', pulls, 'Observe', observing],
    ['Observe: a gang far back in its queue says so', behind, 'Observe', behind],
    ['Off: nothing', pulls, 'Off', off],
    ['Off: nothing for a gang far back either', behind, 'Off', off],
    ['Off: what is done stays done', done, 'Off', done],
    ['Observe: what is done stays done', done, 'Observe', done],
  ])('%s', (_title, life, mode, want) => {
    expect(inMode(life, mode)).toEqual(want);
  });
});

describe('the status in mode Observe', () => {
  const cold = progress({ warm: 0, pending: 3 });
  const decide = (now: number, status: ImagePrewarmStatus = { targets: recorded() }, more: Partial<PrewarmSnapshot> = {}) =>
    decidePrewarm(snapshot({ prewarm: prewarm(status), progress: cold, concurrency: 1, mode: 'Observe', ...more }), {
      ...context({ lifecycle: observing }),
      now,
    });
  // 1 GB at 50 MiB/s is 19.1 s a node; three nodes, one at a time.
  const eta = iso(T0 + 3 * 19_074).replace(/\.\d+Z/, 'Z');

  test('says that nothing is pulled, for how many nodes and how long it would take', () => {
    const { status } = decide(T0);
    expect(condition(status, 'Ready')).toMatchObject({ status: 'False', reason: 'Observing' });
    expect(condition(status, 'Ready')?.message).toMatch(
      /^mode is Observe .* 3 nodes would be warm about 57s after the first pull$/,
    );
    expect(condition(status, 'TargetsResolved')).toMatchObject({ status: 'True' });
    expect(status).toMatchObject({ progress: '0/3', nodes: { desired: 3, pending: 3 }, estimatedCompletionTime: eta });
    expect(status).not.toHaveProperty('startTime');
  });
  test('is written once: an hour later it is the same, with the time that it would have been warm', () => {
    const { status } = decide(T0);
    expect(decide(T0 + 60 * MINUTE, status).status).toEqual(status);
  });
  test('the control: another number of nodes gives another time', () => {
    const { status } = decide(T0);
    const more = { progress: progress({ desired: 4, warm: 0, pending: 4 }) };
    expect(decide(T0 + MINUTE, status, more).status.estimatedCompletionTime).not.toBe(eta);
  });
});

describe('switching the mode', () => {
  const warm = (): ImagePrewarmStatus => decidePrewarm(snapshot({}), context()).status;
  const reasons = (d: PrewarmDecision): string[] => d.events.map((e) => e.reason);
  test('to Off says so once, shows that nothing is held, and calls it no loss', () => {
    const decision = decidePrewarm(
      snapshot({ prewarm: prewarm(warm()), progress: progress({ warm: 0, pending: 3 }), mode: 'Off' }),
      context({ lifecycle: off, now: T0 + MINUTE }),
    );
    expect(condition(decision.status, 'Ready')).toMatchObject({ status: 'False', reason: 'SwitchedOff' });
    expect(condition(decision.status, 'Failed')).toMatchObject({ status: 'False' });
    expect(decision.status.progress).toBe('0/3');
    expect(reasons(decision)).toEqual([]);
  });
  test('back to On warms again and is Ready again', () => {
    const switched = { ...warm(), conditions: [conditionOf('Ready', false, 'SwitchedOff')] };
    const decision = decidePrewarm(snapshot({ prewarm: prewarm(switched) }), context({ now: T0 + MINUTE }));
    expect(condition(decision.status, 'Ready')).toMatchObject({ status: 'True' });
    expect(reasons(decision)).toContain('ImagesWarm');
  });
  test('the control: warmth that is lost in mode On is a warning', () => {
    const lost = { prewarm: prewarm(warm()), progress: progress({ warm: 2, pending: 1 }) };
    expect(reasons(decidePrewarm(snapshot(lost), context({ now: T0 + MINUTE })))).toEqual(['WarmthLost']);
  });
});

describe('a gang that gets quota while Harbinger holds nobody', () => {
  const cold = {
    progress: progress({ warm: 0, pending: 3 }),
    gang: gang({ checkReady: true }, { reservedAt: T0, admitted: true }),
  };
  test.each<['Observe' | 'Off' | undefined, Lifecycle, string]>([
    ['Observe', observing, 'SwitchedOff'],
    ['Off', off, 'SwitchedOff'],
    [undefined, { mayPull: false, keep: true, why: 'Finished' }, 'QuotaReservedCold'],
  ])('in mode %s', (mode, lifecycle, reason) => {
    const { status } = decidePrewarm(snapshot({ ...cold, mode }), context({ lifecycle }));
    expect(condition(status, 'Released')).toMatchObject({ status: 'True', reason });
  });
});
