import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { LEGS, secondsText, timelineOf } from '../../../../src/cli/timeline/model.js';
import { COLD, OURS, WARM, gang } from './fixture.js';

describe('timelineOf', () => {
  test('puts legs that ran at any time and in any order on one axis, cold first', () => {
    const timeline = timelineOf({ gangs: [WARM, OURS, COLD], floorSeconds: 50.3, setting: 'here' });
    expect(timeline.groups.map((g) => g.leg)).toEqual(['cold', 'harbinger', 'warm']);
    expect(timeline.groups.map((g) => g.waitSeconds)).toEqual([54.1, 1.6, 1.3]);
    expect(timeline.headline).toBe('All Pods run 1.6 s after quota is free, instead of 54 s');
    expect(timeline.ticks).toContain(0);
  });

  test('shows the pull of the prewarmed gang before free quota and that of the cold gang after it', () => {
    const timeline = timelineOf({ gangs: [COLD, OURS], setting: '' });
    const pull = (i: number) => timeline.groups[i]?.nodes[0]?.spans.find((s) => s.kind === 'pulling');
    expect(pull(0)).toEqual({ kind: 'pulling', from: 0.9, to: 53.8 });
    expect(pull(1)).toEqual({ kind: 'pulling', from: -56, to: -2 });
  });

  test('draws no pull on a node that did not pull', () => {
    const timeline = timelineOf({ gangs: [WARM], setting: '' });
    expect(timeline.groups[0]?.nodes.flatMap((n) => n.spans.map((s) => s.kind))).toEqual(['running', 'running']);
  });

  test('does not let a night in the queue flatten the rest', () => {
    const timeline = timelineOf({ gangs: [gang('harbinger', { queued: 36_000, wait: 2 })], setting: '' });
    expect(timeline.from).toBeCloseTo(-1.5 * timeline.to);
  });

  test('keeps every wait inside the axis and the ticks few, whatever the times', () => {
    const seconds = fc.double({ min: 0.1, max: 5000, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom(...LEGS), seconds, seconds), { maxLength: 4 }), (legs) => {
        const timeline = timelineOf({ gangs: legs.map(([leg, queued, wait]) => gang(leg, { queued, wait })), setting: '' });
        expect(timeline.from).toBeLessThanOrEqual(0);
        for (const group of timeline.groups) expect(group.waitSeconds).toBeLessThan(timeline.to);
        expect(timeline.ticks.length).toBeLessThanOrEqual(10);
        for (const t of timeline.ticks) expect(t >= timeline.from && t <= timeline.to).toBe(true);
      }),
    );
  });
});

test.each([
  [0.04, '0.0 s'],
  [1.26, '1.3 s'],
  [54.1, '54 s'],
  [125, '2 min 05 s'],
])('secondsText(%p) reads %p', (seconds, text) => {
  expect(secondsText(seconds)).toBe(text);
});
