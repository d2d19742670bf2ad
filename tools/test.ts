import { spawn } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { canRunRealNodes, examine, lazyNodesObstacle } from '../test/cluster/doctor.js';
import { ensurePackages } from '../test/cluster/packages/index.js';
import { CONTROL_PLANE_TOOLS, ensureTools, LAZY_NODE_TOOLS, REAL_NODE_TOOLS } from '../test/cluster/tools.js';
import { CASE_SUITES } from './testing/cases.js';
import { checkCases } from './testing/check-cases.js';
import { REQUIRED_CASES } from './testing/required-cases.js';
import { revisionOf } from './testing/revision.js';
import type { Machine, Suite } from './testing/suites.js';
import { SUITES, obstacle } from './testing/suites.js';
import type { Sum, SuiteResult } from './testing/sum.js';
import { add, formatSum, sumOf } from './testing/sum.js';

const OUT = '.out/test';

const say = (text: string): void => console.log(`\n== ${text}`);
const minutes = (since: number): string => `${((Date.now() - since) / 60_000).toFixed(1)} min`;

const TOOLS = {
  'control-plane': CONTROL_PLANE_TOOLS,
  'real-nodes': REAL_NODE_TOOLS,
  'lazy-nodes': [...REAL_NODE_TOOLS, ...LAZY_NODE_TOOLS],
} as const;

/** Set by a signal: what has not run by then counts as failed, since nobody asked for it to be left out. */
let interrupted = false;

/** Looks at the machine as `make doctor` does. A suite that is asked for by name builds what it needs, however long that takes. */
function look(askedFor: boolean): Machine {
  const go = examine().find((f) => f.what === 'Go' && f.verdict === 'missing');
  const real = canRunRealNodes();
  return {
    clusters: go && `${go.what}: ${go.found} (${go.fix ?? ''})`,
    realNodes: real.ok ? undefined : real.why,
    lazyNodes: lazyNodesObstacle({ build: askedFor }),
  };
}

/** Builds and installs what a suite needs, once per machine; what is there already takes no time. */
async function prepare(suite: Suite): Promise<void> {
  if (suite.cluster === 'none') return;
  say(`${suite.name}: tools`);
  await ensureTools(TOOLS[suite.cluster]);
  if (suite.cluster === 'control-plane') return;
  const packages = await ensurePackages((line) => console.log(line), { converters: suite.cluster === 'lazy-nodes' });
  if (!packages.ok) throw new Error(packages.why);
}

/** Exit code of jest; undefined when it had to be stopped. The tests' own processes are in its group and end with it. */
function jest(suite: Suite, report: string): Promise<number | undefined> {
  const args = [
    'node_modules/jest/bin/jest.js',
    '--selectProjects',
    suite.name,
    '--json',
    `--outputFile=${report}`,
    ...(suite.inBand ? ['--runInBand'] : []),
  ];
  const env = {
    ...process.env,
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --experimental-vm-modules --no-warnings`.trim(),
  };
  // jest's own report goes to stderr; with --json its stdout would repeat the file.
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'], detached: true });
  const stop = (signal: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch (error) {
      // The group has ended by itself meanwhile; the suites after it must run all the same.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  };
  const interrupt = (): void => {
    interrupted = true;
    stop('SIGTERM');
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    console.error(`suite ${suite.name} is not done after ${suite.limitMinutes} minutes; stopping it`);
    stop('SIGTERM');
    setTimeout(() => stop('SIGKILL'), 20_000).unref();
  }, suite.limitMinutes * 60_000);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => {
      clearTimeout(timer);
      process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
      resolve(late ? undefined : (code ?? undefined));
    });
  });
}

async function run(suite: Suite, machine: Machine): Promise<SuiteResult> {
  const missing: SuiteResult = { ran: true, report: undefined, exitCode: undefined };
  if (interrupted) return missing;
  const why = obstacle(suite, machine);
  if (why !== undefined) {
    say(`${suite.name}: skipped: ${why}`);
    return { ran: false, why };
  }
  try {
    await prepare(suite);
  } catch (error) {
    console.error(`suite ${suite.name} cannot start: ${(error as Error).message}`);
    return missing;
  }
  say(`${suite.name}: running (at most ${suite.limitMinutes} min)`);
  const file = `${OUT}/${suite.name}.json`;
  // A report of an earlier run must not stand for this one.
  await rm(file, { force: true });
  // Of the start: what is edited while tests run may or may not be in them, and then the report is of neither.
  const revision = await revisionOf('.');
  const exitCode = await jest(suite, file);
  const report = await readFile(file, 'utf8').then(
    (text) => JSON.parse(text) as object,
    () => undefined,
  );
  if (report === undefined) console.error(`suite ${suite.name} left no report at ${file}; it counts as one failure`);
  else await writeFile(file, JSON.stringify({ ...report, revision }));
  return { ran: true, report, exitCode };
}

/** Runs all suites, or those that are named, and ends with one line that sums them. */
async function main(only: readonly string[]): Promise<number> {
  const unknown = only.filter((name) => !SUITES.some((s) => s.name === name));
  if (unknown.length > 0) throw new Error(`no suite ${unknown.join(', ')}; there are ${SUITES.map((s) => s.name).join(', ')}`);
  await mkdir(OUT, { recursive: true });
  const machine = look(only.length > 0);
  const start = Date.now();
  let total: Sum = { passed: 0, failed: 0, skipped: 0 };
  const left = new Map(SUITES.map(({ name }) => [name, `suite ${name} was not asked for`]));
  for (const suite of SUITES.filter((s) => (only.length === 0 ? s.onDemand !== true : only.includes(s.name)))) {
    const began = Date.now();
    const result = await run(suite, machine);
    if (result.ran) left.delete(suite.name);
    else left.set(suite.name, `suite ${suite.name} was skipped: ${result.why}`);
    const sum = sumOf(result);
    console.log(`   ${suite.name}: ${formatSum(sum)} in ${minutes(began)}`);
    total = add(total, sum);
  }
  say(`all suites in ${minutes(start)}`);
  const proven = await sayCases(CASE_SUITES.flatMap((name) => left.get(name) ?? []));
  console.log(formatSum(total));
  return total.failed === 0 && proven ? 0 : 1;
}

/**
 * Says how it stands with the required cases; false where one is not proven. They are spread over suites: before all of those have run (`left` says
 * why they did not), none can be called missing, and none proven.
 */
async function sayCases(left: readonly string[]): Promise<boolean> {
  if (left.length > 0) {
    console.log(`cases: not checked: ${left.join('; ')}`);
    return true;
  }
  const problems = await checkCases(OUT, await revisionOf('.'));
  for (const problem of problems) console.log(`cases: ${problem}`);
  if (problems.length === 0) console.log(`cases: all ${REQUIRED_CASES.length} are proven by a test that passed`);
  return problems.length === 0;
}

process.exitCode = await main(process.argv.slice(2));
