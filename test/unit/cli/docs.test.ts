import { readFileSync } from 'node:fs';
import { describe, expect, jest, test } from '@jest/globals';
import { Command } from 'commander';
import { registerCli } from '../../../src/processes/cli.js';

/** Time that steps took; the page leaves it out. */
const TIMES = / \[(< 1|\d+) ms\]$/gm;

/** Runs a command inside of this process; what it prints is all that is kept. */
async function run(args: readonly string[]): Promise<string> {
  const parts: string[] = [];
  const write = jest.spyOn(process.stdout, 'write').mockImplementation((text) => parts.push(String(text)) > 0);
  try {
    const program = new Command('harbinger').exitOverride();
    registerCli(program);
    await program.parseAsync(args, { from: 'user' });
    return parts.join('');
  } finally {
    write.mockRestore();
  }
}

/** The first command loads its modules, on machines that do other things as well. */
jest.setTimeout(60_000);

const blocks = [...readFileSync('docs/cli.md', 'utf8').matchAll(/^```console\n\$ harbinger (.*)\n([^]*?)^```$/gm)];

describe('docs/cli.md shows what the commands print', () => {
  test('and there is something to check', () => {
    expect(blocks.map(([, command = '']) => command.split(' ')[0])).toEqual(['explain', 'explain', 'explain', 'simulate']);
  });

  test.each(blocks.map(([, command = '', output = '']) => [command, output]))('harbinger %s', async (command, output) => {
    expect((await run(command.split(' '))).replaceAll(TIMES, '')).toBe(output);
  });
});
