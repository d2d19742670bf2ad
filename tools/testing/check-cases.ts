import { readFile } from 'node:fs/promises';
import { CASE_SUITES, caseProblems, revisionIn, testsOf } from './cases.js';
import { REQUIRED_CASES } from './required-cases.js';

/**
 * Looks for every required case in the reports of the last runs, `DIR/SUITE.json`. Returns one line for each case that is not proven; none
 * where all are. A report of another revision than `revision` proves nothing: it is named instead, with the way out.
 */
export async function checkCases(dir: string, revision: string, required: readonly string[] = REQUIRED_CASES): Promise<string[]> {
  const reports = await Promise.all(
    CASE_SUITES.map(async (suite) => {
      const file = `${dir}/${suite}.json`;
      const report: unknown = await readFile(file, 'utf8').then(JSON.parse, () => undefined);
      const tests = testsOf(report);
      if (tests === undefined) return { tests: [], problem: [`${file} is no report of a run; run make ${suite}`] };
      const of = revisionIn(report);
      if (of !== revision)
        return { tests, problem: [`${file} is of revision ${of}, and this is ${revision}; run make ${suite} again`] };
      return { tests, problem: [] };
    }),
  );
  // Without a report nothing is known; a line for each case would bury the reason.
  const unread = reports.flatMap((r) => r.problem);
  return unread.length > 0
    ? unread
    : caseProblems(
        reports.flatMap((r) => r.tests),
        required,
      );
}
