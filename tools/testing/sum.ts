/** What of a jest report (`--json`) is counted. */
export interface JestReport {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests?: number;
  /** Files that failed before any test ran; their tests are in no other number. */
  numRuntimeErrorTestSuites?: number;
}

export interface Sum {
  passed: number;
  failed: number;
  skipped: number;
}

/** How one suite ended: it ran and left a report or not, or this machine cannot run it and `why` says what it lacks. */
export type SuiteResult = { ran: true; report: unknown; exitCode: number | undefined } | { ran: false; why: string };

function isReport(value: unknown): value is JestReport {
  const report = value as Partial<JestReport> | null | undefined;
  return [report?.numPassedTests, report?.numFailedTests, report?.numPendingTests].every((n) => Number.isInteger(n));
}

/**
 * Counts one suite. Doubt counts as failed: no report, a report without tests, or a jest that ended badly although no test
 * failed. A suite that could not run is one skipped, never passed.
 */
export function sumOf(result: SuiteResult): Sum {
  if (!result.ran) return { passed: 0, failed: 0, skipped: 1 };
  const { report, exitCode } = result;
  if (!isReport(report)) return { passed: 0, failed: 1, skipped: 0 };
  const failed = report.numFailedTests + (report.numRuntimeErrorTestSuites ?? 0);
  const sum = { passed: report.numPassedTests, failed, skipped: report.numPendingTests + (report.numTodoTests ?? 0) };
  const doubtful = failed === 0 && (exitCode !== 0 || sum.passed === 0);
  return doubtful ? { ...sum, failed: 1 } : sum;
}

export function add(a: Sum, b: Sum): Sum {
  return { passed: a.passed + b.passed, failed: a.failed + b.failed, skipped: a.skipped + b.skipped };
}

/** The line that ends a run: `12 passed, 0 failed`, with `, 1 skipped` where some were. */
export function formatSum({ passed, failed, skipped }: Sum): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}
