import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { build } from 'esbuild';

let directory = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'log-'));
  const contents = `
    import { createLog } from ${JSON.stringify(resolve('src/observe/log.ts'))};
    const log = createLog({ level: 'info', name: 'test' });
    const say = () => { log.info('one'); log.warn('two'); };
    const ends = {
      exit: () => { say(); process.exit(3); },
      throw: () => { say(); throw new Error('a defect'); },
      quiet: () => say(),
      many: () => { for (let i = 0; i < 20_000; i++) log.info({ i }, 'x'.repeat(100)); process.exit(0); },
    };
    ends[process.argv[2]]();
  `;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: process.cwd(), loader: 'ts' },
    bundle: true,
    write: false,
    platform: 'node',
    format: 'cjs',
  });
  await writeFile(join(directory, 'say.cjs'), outputFiles[0]?.text ?? '');
});

afterAll(() => rm(directory, { recursive: true, force: true }));

function linesOf(end: string): string[] {
  const { stdout } = spawnSync(process.execPath, [join(directory, 'say.cjs'), end], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return stdout.split('\n').filter((line) => line !== '');
}

describe('a process that ends in the turn in which it logged', () => {
  test.each([['exit'], ['throw'], ['quiet']])('has written its lines: %s', (end) => {
    expect(linesOf(end).map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(['one', 'two']);
  });

  test('has written all of many to a pipe that takes them slowly', () => {
    const lines = linesOf('many');
    expect([lines.length, (JSON.parse(lines.at(-1) ?? '{}') as { i?: number }).i]).toEqual([20_000, 19_999]);
  });
});
