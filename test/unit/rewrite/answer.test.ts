import { expect, test } from '@jest/globals';
import { sizeProblem } from '../../../src/rewrite/answer.js';
import { makePolicy } from './builders.js';

const limit = (maxImageSize?: string) => makePolicy('p', maxImageSize === undefined ? {} : { maxImageSize }).spec;

test.each<[string, string | undefined, number | undefined, boolean]>([
  ['more bytes than the limit', '1Gi', 2 ** 30 + 1, true],
  ['as many bytes as the limit', '1Gi', 2 ** 30, false],
  ['decimal units', '1G', 2 ** 30, true],
  ['no limit', undefined, 2 ** 50, false],
  ['an unknown size', '1Gi', undefined, false],
])('%s: too large is decided by compressed bytes', (_, max, size, tooLarge) => {
  const problem = sizeProblem(limit(max), size);
  expect(problem !== undefined).toBe(tooLarge);
  if (tooLarge) expect(problem).toMatch(/1\.1 GB compressed, more than maxImageSize 1Gi?/);
});
