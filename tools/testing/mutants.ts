/** One defect that a test has to catch. */
export interface Mutant {
  name: string;
  /** The promise or the part that would be broken. */
  guards: string;
  file: string;
  /** Text that stands exactly once in the file, in one line. */
  line: string;
  replacement: string;
  /** Suite, file, and the title of the test with those of its groups. */
  test: { suite: string; file: string; name: string };
}

/** What is read of jest's report. */
export interface JestReport {
  testResults: { message?: string; assertionResults: { fullName: string; status: string }[] }[];
}

/** What keeps mutants from being run: a line that is not what it was, a name that is there twice. */
export async function problemsOf(mutants: readonly Mutant[], read: (file: string) => Promise<string>): Promise<string[]> {
  const names = mutants.map((m) => m.name);
  const twice = names.filter((name, i) => names.indexOf(name) !== i).map((name) => `two mutants are named ${name}`);
  const lines = await Promise.all(
    mutants.map(async ({ name, file, line, replacement }) => {
      if (line.includes('\n') || line === replacement) return [`mutant ${name}: it has to change one line`];
      const times = (await read(file).catch(() => '')).split(line).length - 1;
      return times === 1 ? [] : [`mutant ${name}: its line stands ${times} times in ${file}; write what the code says now`];
    }),
  );
  return [...twice, ...lines.flat()];
}

/** Why a mutant counts as not caught; undefined where the test that it names ran and failed. */
export function verdictOn({ test }: Mutant, report: JestReport | undefined): string | undefined {
  if (report === undefined) return 'jest left no report';
  const results = report.testResults.flatMap((r) => r.assertionResults);
  const named = results.filter((r) => r.fullName.includes(test.name) && r.status !== 'pending');
  // A file that cannot even be loaded fails whatever its tests say.
  if (named.length === 0)
    return report.testResults.map((r) => r.message?.slice(0, 300)).find(Boolean) ?? `no test is named "${test.name}"`;
  return named.some((r) => r.status === 'failed') ? undefined : `"${test.name}" passes`;
}
