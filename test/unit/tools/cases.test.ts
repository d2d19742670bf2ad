import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { TestResult } from '../../../tools/testing/cases.js';
import { caseProblems, idsIn, testsOf } from '../../../tools/testing/cases.js';
import { checkCases } from '../../../tools/testing/check-cases.js';
import { revisionOf } from '../../../tools/testing/revision.js';
import { REQUIRED_CASES } from '../../../tools/testing/required-cases.js';

const ran = (title: string, status = 'passed', file = '/x/test/unit/a.test.ts'): TestResult => ({ title, status, file });

describe('caseProblems', () => {
  test.each<[string, TestResult[], string[]]>([
    ['one test that passed proves a case', [ran('H-01 is so')], []],
    ['one test may prove two', [ran('H-01 and R-02 are so'), ran('another')], []],
    ['no test', [ran('other')], ['H-01 stands in no test title; write the test or give its title the id']],
    [
      'two tests',
      [ran('H-01 is so'), ran('H-01 is otherwise')],
      [
        'H-01 stands in 2 test titles, which has to be one: "H-01 is so" in test/unit/a.test.ts, "H-01 is otherwise" in test/unit/a.test.ts',
      ],
    ],
    ['a skipped test', [ran('H-01 is so', 'pending')], ['H-01 is not proven: "H-01 is so" in test/unit/a.test.ts is pending']],
    ['a failed test', [ran('H-01 is so', 'failed')], ['H-01 is not proven: "H-01 is so" in test/unit/a.test.ts is failed']],
    ['a planned test', [ran('H-01 is so', 'todo')], ['H-01 is not proven: "H-01 is so" in test/unit/a.test.ts is todo']],
    [
      'a longer number is another id',
      [ran('H-011 is so')],
      ['H-01 stands in no test title; write the test or give its title the id'],
    ],
  ])('%s', (_name, tests, want) => {
    expect(caseProblems(tests, ['H-01'])).toEqual(want);
  });

  test('ids are found wherever they stand in a title, once each', () => {
    expect(idsIn('A-15: a placeholder (as H-04, A-15), not SHA-25')).toEqual(['A-15', 'H-04']);
  });
});

describe('reports', () => {
  const report = (...titles: string[]): object => ({
    testResults: [
      { name: '/x/test/unit/a.test.ts', assertionResults: titles.map((title) => ({ title, status: 'passed', extra: 1 })) },
    ],
  });

  const write = (dir: string, suite: string, revision: string | undefined, ...titles: string[]): void =>
    writeFileSync(join(dir, `${suite}.json`), JSON.stringify({ ...report(...titles), revision }));

  test('tests of all files are read, with their own titles and not those around them', () => {
    const { testResults } = report('H-01 is so') as { testResults: object[] };
    expect(
      testsOf({
        testResults: [
          ...testResults,
          { name: 'b', assertionResults: [{ title: 'x', status: 'failed', ancestorTitles: ['H-02'] }] },
        ],
      }),
    ).toEqual([
      { title: 'H-01 is so', status: 'passed', file: '/x/test/unit/a.test.ts' },
      { title: 'x', status: 'failed', file: 'b' },
    ]);
    expect([testsOf(undefined), testsOf({ hello: 1 })]).toEqual([undefined, undefined]);
  });

  test('a case may stand in any of its suites, and a suite that left no report is named instead of its cases', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'cases-'));
    write(dir, 'unit', 'one', 'H-01 is so');
    write(dir, 'nodes', 'one', 'H-25 is so');
    expect(await checkCases(dir, 'one', ['H-01', 'A-01'])).toEqual([
      `${dir}/integration.json is no report of a run; run make integration`,
    ]);
    write(dir, 'integration', 'one', 'A-01 is so');
    expect(await checkCases(dir, 'one', ['H-01', 'A-01', 'H-25'])).toEqual([]);
    expect(await checkCases(dir, 'one', ['H-02'])).toHaveLength(1);
  });

  test('a report of another revision proves nothing, whatever passed in it', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'cases-'));
    write(dir, 'unit', 'two', 'H-01 is so');
    write(dir, 'nodes', 'two', 'H-25 is so');
    write(dir, 'integration', undefined, 'A-01 is so');
    expect(await checkCases(dir, 'two', ['H-01', 'A-01'])).toEqual([
      `${dir}/integration.json is of revision unknown, and this is two; run make integration again`,
    ]);
    write(dir, 'integration', 'two', 'A-01 is so');
    expect(await checkCases(dir, 'two', ['H-01', 'A-01'])).toEqual([]);
    expect(await checkCases(dir, 'three', ['H-01', 'A-01'])).toHaveLength(3);
  });

  test('a revision is the commit, and another one as soon as a file differs from it', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'revision-'));
    expect(await revisionOf(dir)).toBe('unknown');
    const git = (...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd: dir }).toString();
    writeFileSync(join(dir, 'file'), 'a');
    git('init', '-q');
    git('add', 'file');
    git('commit', '-q', '-m', 'first');
    const commit = git('rev-parse', 'HEAD').trim();
    expect(await revisionOf(dir)).toBe(commit);
    writeFileSync(join(dir, 'file'), 'b');
    const changed = await revisionOf(dir);
    expect(changed).toMatch(new RegExp(`^${commit}\\+[0-9a-f]{8}$`));
    writeFileSync(join(dir, 'file'), 'c');
    expect([commit, changed]).not.toContain(await revisionOf(dir));
  });
});

test('the required cases are a fixed list without duplicates', () => {
  expect(new Set(REQUIRED_CASES).size).toBe(REQUIRED_CASES.length);
  expect(['A', 'H', 'R'].map((l) => REQUIRED_CASES.filter((id) => id.startsWith(l)).length)).toEqual([51, 41, 24]);
});
