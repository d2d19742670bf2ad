import { describe, expect, test } from '@jest/globals';
import { gpusOf } from '../../../src/controller/holds/held-gpus.js';
import type { GateSnapshot, Group, Removal } from '../../../src/controller/holds/decide-gate.js';
import { decideGate, ofAllGroups } from '../../../src/controller/holds/decide-gate.js';
import type { Warmth } from '../../../src/controller/holds/decide.js';
import { Flaps, hasLost } from '../../../src/controller/holds/flaps.js';
import { isHeldByUs } from '../../../src/controller/holds/hold-counts.js';
import { T0 } from './fixtures.js';
import { MINUTE, cold as pulling } from './hold-fixtures.js';

const cold: Warmth = { ...pulling, eta: T0 + 170_000 };

const snapshot = (change: Partial<GateSnapshot> = {}): GateSnapshot => ({
  gate: {
    uid: 'w',
    list: 'harbinger.dev/image-prewarm',
    job: { apiGroup: 'batch', version: 'v1', kind: 'Job', name: 'train', uid: 'u' },
    createdAt: T0 + 1_000,
    deadline: T0 + 10 * MINUTE,
  },
  optIn: { optedIn: true, problems: [] },
  hasImages: true,
  mode: 'On',
  warmth: cold,
  countedFrom: T0,
  gatedMs: 10 * MINUTE,
  ...change,
});
const { deadline: _none, ...unstamped } = snapshot().gate;

describe('our gate on a job', () => {
  const rows: [string, Partial<GateSnapshot>, number, object][] = [
    ['stays while nodes are cold', {}, T0, { do: 'wait', after: 30_000 }],
    ['is looked at no later than at its end', {}, T0 + 10 * MINUTE - 1_000, { do: 'wait', after: 1_000 }],
    ['counts from the creation of the job, which is read first', { countedFrom: undefined, gate: unstamped }, T0, { do: 'read' }],
    ['is stamped before anything else', { gate: unstamped }, T0, { do: 'stamp', deadline: T0 + 10 * MINUTE }],
    [
      'is stamped anew when the job asks for another time',
      { optIn: { optedIn: true, problems: [], holdMs: 20 * MINUTE } },
      T0,
      { do: 'stamp', deadline: T0 + 20 * MINUTE },
    ],
    ['has whole seconds, as stamps do', { gatedMs: 90_500, gate: unstamped }, T0, { do: 'stamp', deadline: T0 + 90_000 }],
    ['goes when its time is over', {}, T0 + 10 * MINUTE, { do: 'remove', reason: 'DeadlineExceeded' }],
    [
      'goes at once where the job asks for none',
      { optIn: { optedIn: true, problems: [], holdMs: 0 } },
      T0,
      { do: 'remove', reason: 'DeadlineExceeded' },
    ],
    ['goes warm', { warmth: { ...cold, ready: true, warm: 3 } }, T0, { do: 'remove', reason: 'WarmVerified' }],
    [
      'negative twin: stays for words about an older generation',
      { warmth: { ...cold, ready: true, current: false } },
      T0,
      { do: 'wait' },
    ],
    ['goes when no wait can help', { warmth: { ...cold, hopeless: 'no such image' } }, T0, { do: 'remove', reason: 'Hopeless' }],
    [
      'goes at first sight without an opt-in',
      { optIn: { optedIn: false, problems: [] } },
      T0,
      { do: 'remove', reason: 'OptedOut' },
    ],
    ['goes in mode Observe, in which nobody opted out', { mode: 'Observe' }, T0, { do: 'remove', reason: 'SwitchedOff' }],
    ['goes in mode Off, whoever opted in', { mode: 'Off' }, T0, { do: 'remove', reason: 'SwitchedOff' }],
    ['goes where there is no image', { hasImages: false }, T0, { do: 'remove', reason: 'OptedOut' }],
    ['stays before its images are looked up', { warmth: undefined }, T0, { do: 'wait' }],
  ];
  test.each(rows)('%s', (_title, change, now, expected) => expect(decideGate(snapshot(change), now)).toMatchObject(expected));

  test('tells how far it came', () =>
    expect(decideGate(snapshot(), T0 + 10 * MINUTE)).toMatchObject({
      message: 'timed out, queued with cold nodes: the gate of 10m is over with 2/3 nodes warm, about 10 s',
    }));
});

describe('the one gate of several groups', () => {
  const removal = (reason: Removal['reason']): Removal => ({ do: 'remove', reason, message: reason });
  const warm: Group = { decision: removal('WarmVerified'), far: false };
  const waits: Group = { decision: { do: 'wait', after: 1 }, far: false };
  const unstampedYet: Group = { decision: { do: 'read' }, far: false };
  const far: Group = { ...waits, far: true };
  const free: Group = { far: false };
  const rows: [string, Removal['reason'], Group[], number, string | undefined][] = [
    ['goes at once where there is one group', 'WarmVerified', [], 1, 'WarmVerified'],
    ['goes when all are warm', 'WarmVerified', [warm, warm], 3, 'WarmVerified'],
    ['waits for a cold one', 'WarmVerified', [warm, waits], 3, undefined],
    ['waits for one that nobody has looked at yet', 'WarmVerified', [unstampedYet], 2, undefined],
    ['waits for one that Kueue has not made yet', 'WarmVerified', [warm], 3, undefined],
    ['waits for a cold one where another cannot become warm', 'Hopeless', [warm, waits], 3, undefined],
    [
      'says so where one cannot become warm',
      'WarmVerified',
      [warm, { decision: removal('Hopeless'), far: false }],
      3,
      'Hopeless',
    ],
    ['does not wait for one that is too far back to be warmed', 'WarmVerified', [warm, far], 3, 'WarmVerified'],
    ['does not wait for one that is not gated', 'WarmVerified', [free], 2, 'WarmVerified'],
    ['goes when its time is over, whoever is cold', 'DeadlineExceeded', [waits], 3, 'DeadlineExceeded'],
    ['goes without an opt-in, whoever is cold', 'OptedOut', [waits], 3, 'OptedOut'],
  ];
  test.each(rows)('%s', (...[, own, others, wanted, reason]) =>
    expect(ofAllGroups(removal(own), others, wanted)?.reason).toBe(reason),
  );
});

describe('checks whose nodes come and go', () => {
  test('are Ready again after ten seconds, and later each time', () => {
    const flaps = new Flaps();
    expect(flaps.waitMs('g', T0)).toBe(0);
    const waits = [0, 1, 2, 3, 4, 5].map((n) => {
      flaps.takenBack('g', T0 + n);
      return flaps.waitMs('g', T0 + n);
    });
    expect(waits).toEqual([10_000, 20_000, 40_000, 80_000, 120_000, 120_000]);
    expect(flaps.waitMs('other', T0)).toBe(0);
  });
  test('begin anew after ten quiet minutes, and when the gang is gone', () => {
    const flaps = new Flaps();
    flaps.takenBack('g', T0);
    flaps.takenBack('g', T0 + 10 * MINUTE);
    expect(flaps.waitMs('g', T0 + 10 * MINUTE)).toBe(10_000);
    flaps.forget('g');
    expect(flaps.waitMs('g', T0 + 10 * MINUTE)).toBe(0);
  });
  test.each([
    ['a node lost its copy', { warm: 2, reason: 'PullingImages' }, true],
    ['a node went away', { warm: 2, reason: 'NodeLost' }, true],
    ['somebody took the gang out of its queue', { warm: 2, reason: 'Suspended' }, false],
    ['and put it back a moment ago', { warm: 0, reason: 'Pending' }, false],
    ['a node of one far back in the line flaps', { warm: 2, reason: 'QueuePosition' }, true],
    ['others came in front of it', { warm: 3, reason: 'QueuePosition' }, false],
    ['a status on its way is not known yet', { warm: 3, reason: 'AllNodesWarm', current: false }, false],
    ['nothing is known of it', undefined, false],
  ])('count what was lost: %s', (_title, change, lost) => {
    const warmth = { ready: false, current: true, desired: 3, message: '' };
    expect(hasLost(change === undefined ? undefined : { ...warmth, ...change })).toBe(lost);
  });
  test('wait no longer for a clock that goes back', () => {
    const flaps = new Flaps();
    flaps.takenBack('g', T0);
    expect(flaps.waitMs('g', T0 - 1)).toBe(0);
  });
});

describe('GPUs of a held gang', () => {
  const podSet = (requests: Record<string, string>, count: number) => ({
    name: 'main',
    count,
    template: { spec: { containers: [{ name: 'c', image: 'i', resources: { requests } }] } },
  });
  const rows: [string, ReturnType<typeof podSet>[], number][] = [
    ['of all podSets', [podSet({ 'nvidia.com/gpu': '8' }, 4), podSet({ 'nvidia.com/gpu': '1', cpu: '4' }, 2)], 34],
    ['and no network cards beside them', [podSet({ 'nvidia.com/gpu': '8', 'rdma/hca': '8' }, 1)], 8],
    ['by another name', [podSet({ 'google.com/tpu': '4' }, 2)], 8],
    ['none', [podSet({ cpu: '4', memory: '1Gi', 'ephemeral-storage': '1Gi' }, 2)], 0],
  ];
  test.each(rows)('%s', (_title, podSets, gpus) => expect(gpusOf({ podSets })).toBe(gpus));

  test('count only while ours is the check that keeps them', () => {
    const hold = (checks: { name: string; state: string; message: string }[]) => ({
      hold: { reservedAt: 1, admitted: false, evicted: false, finished: false, active: true, checks },
    });
    const ours = { name: 'ours', state: 'Pending', message: '' };
    const theirs = { name: 'theirs', state: 'Pending', message: '' };
    const names = new Set(['ours']);
    expect(isHeldByUs(hold([ours]), names)).toBe(true);
    expect(isHeldByUs(hold([ours, { ...theirs, state: 'Ready' }]), names)).toBe(true);
    expect(isHeldByUs(hold([ours, theirs]), names)).toBe(false);
    expect(isHeldByUs(hold([{ ...ours, state: 'Ready' }]), names)).toBe(false);
  });
});
