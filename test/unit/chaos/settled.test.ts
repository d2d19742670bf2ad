import { describe, expect, test } from '@jest/globals';
import type { Raw } from '../../chaos/invariants/index.js';
import { outcomeOf } from '../../chaos/invariants/index.js';

const START = Date.parse('2026-01-01T00:00:00Z');
const after = (ms: number): string => new Date(START + ms).toISOString();
const ended = (reason: string): Raw => ({
  apiVersion: 'harbinger.dev/v1',
  kind: 'ImagePrewarm',
  metadata: { name: 'once' },
  status: {
    startTime: after(0),
    conditions: [{ type: 'Ready', status: 'False', reason, message: '', lastTransitionTime: after(200_000) }],
  },
});
const blind = (from: number, to: number) => ({ blind: [{ from: START + from, to: START + to }], deadlineMs: 120_000 });

describe('of an ImagePrewarm whose time was over', () => {
  test.each<[string, string, ReturnType<typeof blind>, string[]]>([
    ['nothing is told where nobody could work on it in that time', 'DeadlineExceeded', blind(10_000, 190_000), []],
    [
      'its end is told where it had its time',
      'DeadlineExceeded',
      blind(10_000, 60_000),
      ['ImagePrewarm of once: DeadlineExceeded'],
    ],
    [
      'its end is told where nobody could work later',
      'DeadlineExceeded',
      blind(200_000, 900_000),
      ['ImagePrewarm of once: DeadlineExceeded'],
    ],
    ['any other end is told', 'ImageNotFound', blind(10_000, 190_000), ['ImagePrewarm of once: ImageNotFound']],
  ])('%s', (_what, reason, spent, told) => {
    expect(outcomeOf([ended(reason)], spent)).toEqual(told);
  });
});
