import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
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

/** Those of the repository; running them is for `make mutants`, that they can run is looked at here. */
describe('each committed mutant', () => {
  const directory = 'test/mutants';
  const committed = readdirSync(directory)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => JSON.parse(readFileSync(join(directory, file), 'utf8')) as Mutant[]);

  test('has its line exactly once where it says', async () => {
    expect(committed.length).toBeGreaterThan(0);
    expect(await problemsOf(committed, (file) => readFile(file, 'utf8'))).toEqual([]);
  });

  test.each(committed.map(({ name, test: { suite, file, name: title } }) => ({ name, suite, file, title })))(
    '$name names a test that is there',
    ({ suite, file, title }) => {
      expect(file.startsWith(suite === 'chaos-sim' ? 'test/chaos/sim/' : `test/${suite}/`)).toBe(true);
      expect(existsSync(file) && names(readFileSync(file, 'utf8'), title)).toBe(true);
    },
  );
});

/** Whether a title stands in a file, as a whole or as that of a table (`negative twin: %s`) and a name of one of its rows. */
function names(text: string, title: string): boolean {
  const ends = [...title].flatMap((_letter, i) => (text.includes(`'${title.slice(0, i + 1)}%s`) ? [title.slice(i + 1)] : []));
  return text.includes(title) || ends.some((row) => text.includes(`'${row}`));
}
