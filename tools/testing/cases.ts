import { z } from 'zod';

/** One test of a jest report (`--json`), as far as cases are concerned. */
export interface TestResult {
  title: string;
  /** `passed`, `failed`, `pending` (skipped), `todo`. */
  status: string;
  /** File of the test, for people. */
  file: string;
}

const jestReport = z.object({
  testResults: z.array(
    z.object({
      name: z.string().default('?'),
      assertionResults: z.array(z.object({ title: z.string(), status: z.string() })).default([]),
    }),
  ),
});

/** Suites whose tests carry ids of cases. All of them have to run before anything can be said to be missing. */
export const CASE_SUITES = ['unit', 'integration', 'nodes'] as const;

/** All tests of a report; undefined if it is none. */
export function testsOf(report: unknown): TestResult[] | undefined {
  const parsed = jestReport.safeParse(report);
  if (!parsed.success) return undefined;
  return parsed.data.testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.map((test) => ({ ...test, file: name })),
  );
}

/** Revision that `make test` noted in a report; `unknown` in one that jest alone wrote. */
export function revisionIn(report: unknown): string {
  return z.object({ revision: z.string() }).safeParse(report).data?.revision ?? 'unknown';
}

/** Ids in a title. Only the test's own title counts: one of a `describe` would stand for every test in it. */
export function idsIn(title: string): string[] {
  return [...new Set(title.match(/\b[AHR]-\d{2}\b/g) ?? [])];
}

/**
 * Why required cases are not proven, one line each; none where every id stands in exactly one title and that test passed. A second
 * test with the id would let the first one be deleted unseen.
 */
export function caseProblems(tests: readonly TestResult[], required: readonly string[]): string[] {
  const byId = new Map<string, TestResult[]>();
  for (const test of tests) for (const id of idsIn(test.title)) byId.set(id, [...(byId.get(id) ?? []), test]);
  return required.flatMap((id) => {
    const [first, ...more] = byId.get(id) ?? [];
    if (first === undefined) return [`${id} stands in no test title; write the test or give its title the id`];
    if (more.length > 0) {
      const titles = [first, ...more].map(describe).join(', ');
      return [`${id} stands in ${more.length + 1} test titles, which has to be one: ${titles}`];
    }
    if (first.status !== 'passed') return [`${id} is not proven: ${describe(first)} is ${first.status}`];
    return [];
  });
}

const describe = ({ title, file }: TestResult): string => `"${title}" in ${file.replace(/^.*\/test\//, 'test/')}`;
