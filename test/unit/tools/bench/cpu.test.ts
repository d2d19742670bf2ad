import { describe, expect, test } from '@jest/globals';
import { parseStat } from '../../../../tools/bench/cpu.js';

describe('processor time of /proc/PID/stat', () => {
  const rest = 'S 1 1 1 0 -1 4194560 100 0 0 0 1234 66 0 0 20 0 11 0 100 1000 100';
  test.each([
    ['is user and system time', `12 (node) ${rest}`],
    ['whatever the program is called', `12 (a (b) c) 7) ${rest}`],
  ])('%s', (_, line) => {
    expect(parseStat(line)).toBe(13);
  });

  test('is an error where there is none', () => {
    expect(() => parseStat('12 (node) S 1')).toThrow('no processor time');
  });
});
