import { spawn } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { JestReport, Mutant } from './testing/mutants.js';
import { problemsOf, verdictOn } from './testing/mutants.js';

const DIRECTORY = 'test/mutants';
/** Two cores; a run of jest uses one. */
const LANES = 2;
const LIMIT_MS = 180_000;

async function readMutants(): Promise<Mutant[]> {
  const files = (await readdir(DIRECTORY)).filter((f) => f.endsWith('.json')).sort();
  const read = await Promise.all(files.map(async (f) => JSON.parse(await readFile(join(DIRECTORY, f), 'utf8')) as Mutant[]));
  return read.flat();
}

/** Runs the one test that has to fail, with the defect in place; undefined where jest left no report. */
async function runNamed(mutant: Mutant): Promise<JestReport | undefined> {
  const directory = await mkdtemp(join(tmpdir(), 'mutant-'));
  const report = join(directory, 'report.json');
  const args = [
    'node_modules/jest/bin/jest.js',
    `--config=${DIRECTORY}/jest.config.mjs`,
    '--selectProjects',
    mutant.test.suite,
    '--runTestsByPath',
    mutant.test.file,
    `--testNamePattern=${escape(mutant.test.name)}`,
    '--json',
    `--outputFile=${report}`,
  ];
  const env = {
    ...process.env,
    NODE_OPTIONS: `${process.env['NODE_OPTIONS'] ?? ''} --experimental-vm-modules --no-warnings`.trim(),
    MUTANT_FILE: mutant.file,
    MUTANT_LINE: mutant.line,
    MUTANT_REPLACEMENT: mutant.replacement,
  };
  await new Promise<void>((resolve) => {
    const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
    const timer = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
    child.on('exit', () => {
      clearTimeout(timer);
      resolve();
    });
  });
  const text = await readFile(report, 'utf8').catch(() => undefined);
  await rm(directory, { recursive: true, force: true });
  return text === undefined ? undefined : (JSON.parse(text) as JestReport);
}

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

async function main(only: readonly string[]): Promise<number> {
  const all = await readMutants();
  const problems = await problemsOf(all, (file) => readFile(file, 'utf8'));
  for (const problem of problems) console.error(problem);
  const left = all.filter((m) => only.length === 0 || only.includes(m.name));
  if (left.length === 0) throw new Error(`no mutant ${only.join(', ')}; there are ${all.map((m) => m.name).join(', ')}`);
  const count = left.length;
  let caught = 0;
  const lane = async (): Promise<void> => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const verdict = verdictOn(mutant, await runNamed(mutant));
      if (verdict === undefined) caught += 1;
      console.log(
        `${verdict === undefined ? 'caught  ' : 'SURVIVED'} ${mutant.name} (${mutant.guards})${verdict === undefined ? '' : `: ${verdict}`}`,
      );
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  console.log(`${caught} of ${count} defects are caught by the test that names them`);
  return caught === count && problems.length === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
