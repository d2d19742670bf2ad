import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Headcount } from '../../../src/gangs/shape.js';
import type { PodCount } from '../../../src/controller/gangs/pod-counts.js';
import { allRun, GangCounts } from '../../../src/controller/gangs/pod-counts.js';
import type { PodState, PodUse } from '../../../src/placement/usage.js';

const STATES: readonly PodState[] = ['waiting', 'starting', 'running', 'leaving', 'done', 'over'];
const NONE: PodCount = { running: 0, done: 0 };

const shapeOf = (...gangs: string[]): PodUse['shape'] => ({ requests: {}, gangs, images: [], undecided: [] });
const JOB = shapeOf('job');
const pod = (state: PodState, change: Partial<PodUse> = {}): PodUse => ({
  namespace: 'team',
  node: 'n',
  state,
  createdAt: 0,
  shape: JOB,
  ...change,
});
const countsOf = (...pods: PodUse[]): GangCounts => {
  const counts = new GangCounts();
  for (const p of pods) counts.note(p, undefined);
  return counts;
};

describe('what counts of a gang', () => {
  const rows: [string, PodUse[], PodCount][] = [
    ['nothing where there is no Pod', [], NONE],
    ['Pods that run', [pod('running'), pod('running')], { running: 2, done: 0 }],
    ['Pods that ran to their end', [pod('running'), pod('done')], { running: 1, done: 1 }],
    [
      'not those that wait, pull, go or have failed',
      ['waiting', 'starting', 'leaving', 'over'].map((s) => pod(s as PodState)),
      NONE,
    ],
    ['not Pods of other gangs', [pod('running', { shape: shapeOf('other') })], NONE],
    ['not Pods elsewhere that say they are of it', [pod('running', { namespace: 'elsewhere' })], NONE],
    ['a Pod that names it twice once', [pod('running', { shape: shapeOf('set', 'job', 'job') })], { running: 1, done: 0 }],
    ['a Pod that Kueue takes as it is', [pod('running', { shape: shapeOf(), queuedAs: 'job' })], { running: 1, done: 0 }],
  ];
  test.each(rows)('%s', (_title, pods, expected) => expect(countsOf(...pods).of('team', 'job')).toEqual(expected));
});

test('tells of changes of a sum and of nothing else', () => {
  const counts = new GangCounts();
  const told: unknown[] = [];
  counts.onChange((at, now, before) => told.push([at, now, before]));
  const [waits, starts, runs, ends] = (['waiting', 'starting', 'running', 'done'] as const).map((state) => pod(state));
  counts.note(waits, undefined);
  counts.note(starts, waits);
  expect(told).toEqual([]);
  counts.note(runs, starts);
  expect(told.splice(0)).toEqual([['team/job', { running: 1, done: 0 }, NONE]]);
  // A heartbeat of its status, and a label that makes another shape of it.
  counts.note(runs, runs);
  counts.note(pod('running', { shape: shapeOf('job') }), runs);
  expect(told).toEqual([]);
  counts.note(ends, runs);
  counts.note(undefined, ends);
  expect(told).toEqual([
    ['team/job', { running: 0, done: 1 }, { running: 1, done: 0 }],
    ['team/job', NONE, { running: 0, done: 1 }],
  ]);
});

test('property: sums that were kept up by changes are those of a recount, and what was told adds up to them', () => {
  const change = fc.record({
    key: fc.integer({ min: 0, max: 5 }),
    state: fc.constantFrom(...STATES),
    gangs: fc.uniqueArray(fc.constantFrom('g', 'h'), { maxLength: 2 }),
    queuedAs: fc.constantFrom('g', undefined),
    gone: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
      const counts = new GangCounts();
      const told = new Map<string, PodCount>();
      counts.onChange((at, now, before) => {
        expect(before).toEqual(told.get(at) ?? NONE);
        expect(now).not.toEqual(before);
        told.set(at, now);
      });
      const pods = new Map<number, PodUse>();
      for (const { key, state, gangs, queuedAs, gone } of changes) {
        const before = pods.get(key);
        const now = gone ? undefined : pod(state, { shape: shapeOf(...gangs), ...(queuedAs === undefined ? {} : { queuedAs }) });
        counts.note(now, before);
        if (now === undefined) pods.delete(key);
        else pods.set(key, now);
      }
      const recount = countsOf(...pods.values());
      for (const key of ['g', 'h']) {
        expect(counts.of('team', key)).toEqual(recount.of('team', key));
        expect(told.get(`team/${key}`) ?? NONE).toEqual(recount.of('team', key));
      }
    }),
  );
});

describe('whether a gang runs as a whole', () => {
  const first: Headcount = { admitted: 3, left: 3, again: false };
  const second: Headcount = { admitted: 3, left: 3, again: true };
  const rows: [string, Headcount, PodCount, boolean][] = [
    ['all of its Pods run', first, { running: 3, done: 0 }, true],
    ['one is missing', first, { running: 2, done: 0 }, false],
    ['the missing one ran to its end', first, { running: 2, done: 1 }, true],
    ['the next Pod of a Job with more completions is on its way', first, { running: 2, done: 7 }, true],
    ['one that is done needs no room, and another has not begun', { ...first, left: 2 }, { running: 1, done: 1 }, false],
    ['one that is done was cleaned up', { ...first, left: 2 }, { running: 2, done: 0 }, true],
    ['all are done', { ...first, left: 0 }, NONE, true],
    ['its quota was taken and given again: Pods that are done may be of then', second, { running: 1, done: 2 }, false],
    ['the same, and all of its Pods run', second, { running: 3, done: 2 }, true],
    ['the same, for the one that was left', { admitted: 1, left: 1, again: true }, { running: 0, done: 2 }, false],
    ['the same, and that one runs', { admitted: 1, left: 1, again: true }, { running: 1, done: 2 }, true],
  ];
  test.each(rows)('%s', (_title, headcount, count, expected) => expect(allRun(headcount, count)).toBe(expected));
});
