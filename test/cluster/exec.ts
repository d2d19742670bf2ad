import { spawn } from 'node:child_process';

/**
 * Runs a program to its end and returns its standard output. Throws with the end of its standard error when it fails;
 * `input` is written to its standard input, `env` is added to this process's own.
 */
export function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; input?: string } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      ...(options.cwd ? { cwd: options.cwd } : {}),
    });
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err = (err + text).slice(-8000)));
    child.stdin.on('error', () => undefined); // a program that does not read its input
    child.stdin.end(options.input ?? '');
    child.once('error', (error) => reject(new Error(`${command}: ${error.message}`, { cause: error })));
    child.once('close', (code, signal) => {
      if (code === 0) return resolve(out);
      reject(
        new Error(
          `${command} ${args.slice(0, 3).join(' ')} failed (${signal ?? code}): ${err.trim() || out.slice(-2000).trim()}`,
        ),
      );
    });
  });
}
