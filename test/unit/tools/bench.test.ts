import { describe, expect, test } from '@jest/globals';
import { measurement } from '../../../tools/bench/results.js';

describe('a measurement', () => {
  test.each([
    ['its middle repeat, whatever their order', [3, 1, 2], { value: 2, min: 1, max: 3, repeats: 3 }],
    ['the lower of two middle ones', [4, 1, 3, 2], { value: 2, min: 1, max: 4, repeats: 4 }],
    ['numbers to three digits', [0.12345, 0.12345, 0.12345], { value: 0.123, min: 0.123, max: 0.123, repeats: 3 }],
  ])('is %s', (...[, samples, expected]) => {
    expect(measurement('x', 's', samples)).toEqual({ name: 'x', unit: 's', ...expected });
  });

  test('needs three repeats', () => {
    expect(() => measurement('x', 's', [1, 2])).toThrow('x: 2 repeats, at least 3 are needed');
  });
});
