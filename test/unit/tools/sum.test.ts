import { describe, expect, test } from '@jest/globals';
import type { SuiteResult } from '../../../tools/testing/sum.js';
import { add, formatSum, sumOf } from '../../../tools/testing/sum.js';
import type { Machine } from '../../../tools/testing/suites.js';
import { SUITES, obstacle } from '../../../tools/testing/suites.js';

const report = (over: object = {}): object => ({ numPassedTests: 3, numFailedTests: 0, numPendingTests: 0, ...over });
const ran = (value: unknown, exitCode = 0): SuiteResult => ({ ran: true, report: value, exitCode });

describe('sumOf', () => {
  test.each<[string, SuiteResult, string]>([
    ['a good run', ran(report()), '3 passed, 0 failed'],
    ['failed tests', ran(report({ numFailedTests: 2 }), 1), '3 passed, 2 failed'],
    ['a file that did not load', ran(report({ numRuntimeErrorTestSuites: 1 }), 1), '3 passed, 1 failed'],
    ['skipped and planned tests', ran(report({ numPendingTests: 1, numTodoTests: 1 })), '3 passed, 0 failed, 2 skipped'],
    ['no report', ran(undefined), '0 passed, 1 failed'],
    ['a report that is something else', ran({ hello: 1 }), '0 passed, 1 failed'],
    ['a report without tests', ran(report({ numPassedTests: 0 })), '0 passed, 1 failed'],
    ['a run that was stopped after its report', { ran: true, report: report(), exitCode: undefined }, '3 passed, 1 failed'],
    ['jest that ends badly although no test failed', ran(report(), 1), '3 passed, 1 failed'],
    ['a suite that this machine cannot run', { ran: false, why: 'no Go' }, '0 passed, 0 failed, 1 skipped'],
  ])('%s', (_name, result, want) => {
    expect(formatSum(sumOf(result))).toBe(want);
  });
});

test('sums add up', () => {
  expect(add({ passed: 1, failed: 2, skipped: 3 }, { passed: 10, failed: 20, skipped: 30 })).toEqual({
    passed: 11,
    failed: 22,
    skipped: 33,
  });
});

describe('suites', () => {
  test('are a fixed list', () => {
    expect(SUITES.map((s) => s.name)).toEqual(['unit', 'chaos-sim', 'integration', 'nodes', 'chaos-real', 'formats']);
  });

  test('are all run together but for those that have to be asked for', () => {
    expect(SUITES.filter((s) => s.onDemand === true).map((s) => s.name)).toEqual(['chaos-real']);
  });

  test.each<[string, Machine, string[]]>([
    ['a machine that lacks nothing runs all', {}, []],
    ['without root, real nodes are left out', { realNodes: 'root: uid 1000' }, ['nodes', 'formats']],
    [
      'without Go only unit tests and the simulation run',
      { clusters: 'Go: none' },
      ['integration', 'nodes', 'chaos-real', 'formats'],
    ],
    ['without the tools of lazy nodes, formats are left out', { lazyNodes: 'not built: nydusd' }, ['formats']],
  ])('%s', (_name, machine, want) => {
    expect(SUITES.filter((s) => obstacle(s, machine) !== undefined).map((s) => s.name)).toEqual(want);
  });
});
