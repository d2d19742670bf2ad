import { describe, expect, test } from '@jest/globals';
import { releasePatch } from '../../../src/webhook/watchdog-holds.js';

const NOW = Date.parse('2030-01-01T00:00:00.500Z');
const view = {
  reservedAt: 1,
  admitted: false,
  evicted: false,
  finished: false,
  active: true,
  checks: [
    { name: 'theirs', state: 'Pending', message: '' },
    { name: 'ours', state: 'Pending', message: '' },
    { name: 'ours-ready', state: 'Ready', message: '' },
  ],
};
const names = new Set(['ours', 'ours-ready']);

describe('releasePatch', () => {
  test('sets our pending checks Ready, on the very version that was judged, and touches no other', () => {
    expect(releasePatch({ view, resourceVersion: '7' }, names, 'DeadlineExceeded', NOW)).toEqual([
      { op: 'test', path: '/metadata/resourceVersion', value: '7' },
      { op: 'replace', path: '/status/admissionChecks/1/state', value: 'Ready' },
      { op: 'add', path: '/status/admissionChecks/1/message', value: expect.stringMatching(/^DeadlineExceeded: /) },
      { op: 'add', path: '/status/admissionChecks/1/lastTransitionTime', value: '2030-01-01T00:00:00Z' },
    ]);
  });
});
