import { describe, expect, test } from '@jest/globals';
import type { JestReport, Mutant } from '../../../tools/testing/mutants.js';
import { problemsOf, verdictOn } from '../../../tools/testing/mutants.js';

const mutant: Mutant = {
  name: 'late',
  guards: 'P5',
  file: 'src/a.ts',
  line: 'if (late) return;',
  replacement: 'if (false) return;',
  test: { suite: 'unit', file: 'test/unit/a.test.ts', name: 'a hold ends' },
};
const report = (fullName: string, status: string, message = ''): JestReport => ({
  testResults: [{ message, assertionResults: [{ fullName, status }] }],
});

describe('a mutant', () => {
  test('is caught by the test that it names', () => {
    expect(verdictOn(mutant, report('holds a hold ends in time', 'failed'))).toBeUndefined();
  });
  test.each([
    ['that test passes', report('holds a hold ends in time', 'passed'), /passes/],
    ['only another test fails', report('holds are told', 'failed'), /no test is named/],
    ['no test of the name ran', report('holds a hold ends in time', 'pending'), /no test is named/],
    ['the file cannot be loaded', { testResults: [{ message: 'SyntaxError', assertionResults: [] }] }, /SyntaxError/],
    ['jest did not come to its end', undefined, /no report/],
  ])('survives where %s', (_what, given, why) => {
    expect(verdictOn(mutant, given)).toMatch(why);
  });

  const read = (text: string) => () => Promise.resolve(text);
  test('is refused once its line is not there exactly once', async () => {
    expect(await problemsOf([mutant], read('if (late) return;'))).toEqual([]);
    expect(await problemsOf([mutant], read('if (later) return;'))).toEqual([expect.stringContaining('0 times in src/a.ts')]);
    expect(await problemsOf([mutant], read('if (late) return;if (late) return;'))).toEqual([expect.stringContaining('2 times')]);
  });
  test('is refused where it changes nothing, and where its name is taken', async () => {
    const problems = await problemsOf([mutant, { ...mutant, replacement: mutant.line }], read(mutant.line));
    expect(problems).toEqual([expect.stringContaining('two mutants'), expect.stringContaining('has to change')]);
  });
});
