import { mkdir, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';
import type { Coverage } from '../test/chaos/sim/coverage.js';
import { coverageOf, tableOf } from '../test/chaos/sim/coverage.js';
import { lastLines } from '../test/chaos/sim/explain.js';
import type { Verdict } from '../test/chaos/sim/verdict.js';
import { verdictOf } from '../test/chaos/sim/verdict.js';

const OUT = '.out/chaos';
const SHOWN_LINES = 40;

export interface ChaosReport {
  seeds: number;
  failed: number[];
  coverage: Coverage;
  seconds: number;
}

/** Seeds from one row, given out one after the other: some take twice as long as others. */
function runAll(seeds: readonly number[]): Promise<Verdict[]> {
  const left = [...seeds];
  const verdicts: Verdict[] = [];
  const lane = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const worker = new Worker(new URL(import.meta.url));
      const next = (): void => {
        const seed = left.shift();
        if (seed !== undefined) return worker.postMessage(seed);
        void worker.terminate();
        resolve();
      };
      worker.on('message', (verdict: Verdict) => {
        verdicts.push(verdict);
        tell(verdict);
        next();
      });
      worker.on('error', reject);
      next();
    });
  const lanes = Math.max(1, Math.min(availableParallelism(), seeds.length));
  return Promise.all(Array.from({ length: lanes }, lane)).then(() => verdicts);
}

/** A seed that failed: what was broken, what happened last to whom, and how to see it again. */
function tell({ seed, violations, lines }: Verdict): void {
  if (violations.length === 0) return;
  console.log(`\nseed ${seed}: ${violations.length} promises broken`);
  for (const { promise, at, object, message } of violations.slice(0, 8))
    console.log(`  ${promise} ${at === 0 ? '' : new Date(at).toISOString()} ${object}: ${message}`);
  console.log(lastLines(lines, violations, SHOWN_LINES).join('\n'));
  console.log(`again: make chaos SEED=${seed}`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { seeds: { type: 'string' }, seed: { type: 'string' } } });
  const count = Number(values.seeds || 200);
  const seeds = values.seed ? values.seed.split(',').map(Number) : Array.from({ length: count }, (_none, i) => i + 1);
  if (seeds.some((s) => !Number.isInteger(s)) || seeds.length === 0)
    throw new Error('SEEDS and SEED are whole numbers; SEED may be a list');
  const began = performance.now();
  const verdicts = await runAll(seeds);
  const coverage = coverageOf(verdicts);
  const failed = verdicts.filter((v) => v.violations.length > 0).map((v) => v.seed);
  const seconds = Math.round((performance.now() - began) / 1000);
  console.log(tableOf(coverage, seeds.length));
  console.log(
    `${seeds.length} seeds in ${seconds} s, ${failed.length} failed${failed.length === 0 ? '' : `: ${failed.sort((a, b) => a - b).join(', ')}`}`,
  );
  await mkdir(OUT, { recursive: true });
  const report: ChaosReport = { seeds: seeds.length, failed, coverage, seconds };
  await writeFile(`${OUT}/sim.json`, JSON.stringify(report));
  // Of few seeds nobody expects that they hit everything.
  process.exitCode = failed.length > 0 || (seeds.length >= 200 && coverage.missing.length > 0) ? 1 : 0;
}

if (isMainThread) await main();
else parentPort?.on('message', (seed: number) => void verdictOf(seed).then((verdict) => parentPort?.postMessage(verdict)));
