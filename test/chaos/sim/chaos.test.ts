import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { expect, test } from '@jest/globals';
import type { ChaosReport } from '../../../tools/chaos.js';

/** Less than half of it on two cores that have nothing else to do. */
const LIMIT_MS = 540_000;

/** A process of its own runs the seeds on all cores, as `make chaos` does; its report says what to look at. */
function chaos(): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['tools/run.mjs', 'tools/chaos.ts', '--seeds', '200'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.on('error', reject);
    child.on('exit', (code) => resolve({ code, output }));
  });
}

test(
  'two hundred seeds keep every promise, with every kind of fault and every cause of release among them',
  async () => {
    const { code, output } = await chaos();
    const report = JSON.parse(await readFile('.out/chaos/sim.json', 'utf8')) as ChaosReport;
    expect({ failed: report.failed, missing: report.coverage.missing, output: code === 0 ? '' : output.slice(-8_000) }).toEqual({
      failed: [],
      missing: [],
      output: '',
    });
    expect(report.seeds).toBe(200);
  },
  LIMIT_MS,
);
