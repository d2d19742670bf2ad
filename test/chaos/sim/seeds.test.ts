import { describe, expect, test } from '@jest/globals';
import { runSeed } from './run.js';

const TIMEOUT_MS = 180_000;
/** Its gangs are held while both replicas of the controller are dead. */
const ABANDONED = 3;
/** In both gangs are sent back as often as they may and start cold then; in the second they may have quota again only after a while. */
const SENT_BACK = [19, 44];

describe('the simulated cluster', () => {
  test(
    'keeps every promise with the faults of seed 3',
    async () => {
      const { violations, lines } = await runSeed({ seed: 3, faults: true });
      expect(violations).toEqual([]);
      expect(lines.filter((line) => line.includes('FAULT')).length).toBeGreaterThan(20);
    },
    TIMEOUT_MS,
  );

  test(
    'ends holds while the controller is dead',
    async () => {
      const { violations, releases } = await runSeed({ seed: ABANDONED, faults: true });
      expect(releases.Watchdog).toBeGreaterThan(0);
      expect(violations.filter((v) => v.promise === 'P5')).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test(
    'sends gangs back as often as their check says, and then lets them start',
    async () => {
      for (const seed of SENT_BACK) {
        const { violations, releases } = await runSeed({ seed, faults: false });
        expect(violations).toEqual([]);
        expect(releases.SentBack).toBeGreaterThan(1);
        expect(releases.DeadlineExceeded).toBeGreaterThan(0);
      }
    },
    TIMEOUT_MS,
  );

  test(
    'does the same for the same seed, to the last version of the last object',
    async () => {
      const [one, again] = [await runSeed({ seed: 5, faults: true }), await runSeed({ seed: 5, faults: true })];
      const other = await runSeed({ seed: 6, faults: false });
      expect(again.trace).toBe(one.trace);
      expect(other.trace).not.toBe(one.trace);
    },
    TIMEOUT_MS,
  );
});
