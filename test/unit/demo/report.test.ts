import { describe, expect, test } from '@jest/globals';
import { reportOf, STEPS, targetsOf, waitSeconds } from '../../../demo/report.js';
import type { ReportInput } from '../../../demo/report.js';
import { COLD, OURS, WARM } from '../cli/timeline/fixture.js';

const SEEN = new Map(STEPS.map((name, i) => [name, 1_800_000_000_000 + i]));
const INPUT: ReportInput = {
  nodes: 'real',
  linkMbit: 100,
  seen: SEEN,
  legs: [
    { times: WARM, rewritten: 0, bytes: 1000 },
    { times: COLD, rewritten: 0, bytes: 625_000_000 },
    { times: OURS, rewritten: 2, bytes: 625_000_000 },
  ],
  prewarm: { nodesDesired: 2, nodesWarm: 2, seconds: 54 },
};

describe('reportOf', () => {
  test('has the agreed shape', () => {
    const report = reportOf(INPUT);
    expect(Object.keys(report)).toEqual(['schema', 'nodes', 'queue', 'steps', 'legs', 'prewarm', 'floorSeconds', 'speedup']);
    expect(Object.keys(report.legs)).toEqual(['cold', 'harbinger', 'warm']);
    expect(Object.keys(report.legs.cold ?? {})).toEqual([
      'pods',
      'rewritten',
      'queuedAt',
      'quotaFreeAt',
      'admittedAt',
      'firstRunningAt',
      'lastRunningAt',
      'bytes',
    ]);
    expect(report.floorSeconds).toBe(50);
    expect(report.speedup).toBe(33.8);
    expect(waitSeconds(report.legs.harbinger)).toBe(1.6);
    expect(report.steps.every((s) => s.observed && s.at !== null)).toBe(true);
  });

  test('lists steps in the order in which they were seen', () => {
    const seen = new Map(SEEN).set('warm-leg-measured', 5);
    const steps = reportOf({ ...INPUT, seen }).steps;
    expect(steps[0]?.name).toBe('warm-leg-measured');
    expect([...steps].sort((a, b) => String(a.at).localeCompare(String(b.at)))).toEqual(steps);
  });

  test('claims no speedup for fake nodes', () => {
    expect(reportOf({ ...INPUT, nodes: 'fake' }).speedup).toBeNull();
  });

  test('of a run that ended early lists what was not observed and estimates nothing', () => {
    const report = reportOf({ ...INPUT, legs: [], prewarm: null, seen: new Map([['cluster-ready', 0]]) });
    expect(report.steps.filter((s) => !s.observed)).toHaveLength(STEPS.length - 1);
    expect(report).toMatchObject({ legs: {}, prewarm: null, floorSeconds: null, speedup: null });
  });
});

describe('targetsOf', () => {
  test('holds a run on real nodes to the promised figures', () => {
    expect(targetsOf(reportOf(INPUT)).map((t) => [t.value, t.met])).toEqual([
      [1.23, true],
      [33.81, true],
      [1.08, true],
    ]);
  });

  test('says which figure was missed', () => {
    const slow = { ...OURS, lastRunningAt: OURS.quotaFreeAt + 5000 };
    const legs = INPUT.legs.map((l) => (l.times.leg === 'harbinger' ? { ...l, times: slow } : l));
    expect(targetsOf(reportOf({ ...INPUT, legs })).map((t) => t.met)).toEqual([false, false, true]);
  });

  test('asks nothing of fake nodes', () => {
    expect(targetsOf(reportOf({ ...INPUT, nodes: 'fake' }))).toEqual([]);
  });
});
