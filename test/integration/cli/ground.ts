import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repoRoot } from '../../cluster/paths.js';

export interface Ran {
  code: number;
  out: string;
  err: string;
}

/** First arguments of Node that start the executable. */
export function executable(): readonly string[] {
  return [join(repoRoot(), '.out/harbinger.mjs')];
}

/** Runs the executable as a person would. A proxy of the machine that tests run on, and its kubeconfig, are none of its business. */
export function harbinger(args: readonly string[], env: Record<string, string> = {}, input = ''): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [...executable(), ...args],
      { env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env }, maxBuffer: 64 << 20 },
      (error, out, err) => resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, out, err }),
    );
    child.stdin?.end(input);
  });
}

/** What `-o json` printed; throws with standard error where there is none. */
export async function json<T>(args: readonly string[]): Promise<T> {
  const { code, out, err } = await harbinger([...args, '-o', 'json']);
  if (code !== 0) throw new Error(`harbinger ${args.join(' ')} ended with ${code}: ${err}`);
  return JSON.parse(out) as T;
}

export function file(directory: string, name: string, content: unknown): string {
  const path = join(directory, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}
