import { describe, expect, test } from '@jest/globals';
import { EVENT_KINDS, schedule } from './schedule.js';

describe('the schedule of a seed', () => {
  test('is the same each time, and another one for another seed', () => {
    expect(schedule(7)).toEqual(schedule(7));
    expect(schedule(8).map((e) => e.kind)).not.toEqual(schedule(7).map((e) => e.kind));
  });

  test('has every kind of event and thirty events at least', () => {
    for (const seed of [1, 2, 3]) {
      const events = schedule(seed);
      expect(events.length).toBeGreaterThanOrEqual(30);
      expect(new Set(events.map((e) => e.kind))).toEqual(new Set(EVENT_KINDS));
    }
  });
});
