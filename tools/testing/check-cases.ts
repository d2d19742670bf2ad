import { readFile } from 'node:fs/promises';
import { CASE_SUITES, caseProblems, testsOf } from './cases.js';
import { REQUIRED_CASES } from './required-cases.js';

/**
 * Looks for every required case in the reports of the last run, `DIR/SUITE.json`. Returns one line for each case that is not proven; none
 * where all are.
 */
export async function checkCases(dir: string, required: readonly string[] = REQUIRED_CASES): Promise<string[]> {
  const reports = await Promise.all(
    CASE_SUITES.map(async (suite) => {
      const file = `${dir}/${suite}.json`;
      const tests = testsOf(await readFile(file, 'utf8').then(JSON.parse, () => undefined));
      return { tests, problem: tests === undefined ? [`${file} is no report of a run; run make ${suite}`] : [] };
    }),
  );
  // Without a report nothing is known; a line for each case would bury the reason.
  const unread = reports.flatMap((r) => r.problem);
  return unread.length > 0
    ? unread
    : caseProblems(
        reports.flatMap((r) => r.tests ?? []),
        required,
      );
}
