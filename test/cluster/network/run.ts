import { execFile } from 'node:child_process';

/** Runs a program to its end; resolves with its standard output. Fails with its own words. */
export function run(command: string, args: readonly string[], options: { input?: string; timeoutMs?: number } = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, args, { timeout: options.timeoutMs ?? 60_000, maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
      if (!error) return resolve(stdout);
      reject(new Error(`${[command, ...args].join(' ')}: ${stderr.trim() || error.message}`, { cause: error }));
    });
    child.stdin?.end(options.input ?? '');
  });
}

/** Gives several `ip` command lines to one process. */
export async function ip(...lines: string[]): Promise<void> {
  await run('ip', ['-batch', '-'], { input: `${lines.join('\n')}\n` });
}
