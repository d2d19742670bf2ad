import { spawn } from 'node:child_process';
import type { RegistryConfig } from '../config/schema.js';

/** How a credential provider plugin of a registry is run. */
export type Plugin = NonNullable<NonNullable<RegistryConfig['credential']>['exec']>;

export type PluginResult = { ok: true; stdout: string } | { ok: false; problem: string };

/** Largest answer that is read; those of the clouds have 4 KiB. */
const MAX_OUTPUT_BYTES = 64 * 1024;

/**
 * Runs a plugin once with `input` on its standard input. Total: whatever happens ends within the plugin's time, with its whole process
 * group gone. Problems never quote what the plugin wrote: both of its outputs may hold secrets.
 */
export function runPlugin({ command, args, env, timeoutSeconds }: Plugin, input: string): Promise<PluginResult> {
  return new Promise((resolve) => {
    // A group of its own, so that what a shell script started ends with it.
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'ignore'], detached: true });
    const chunks: Buffer[] = [];
    let received = 0;
    const end = (result: PluginResult): void => {
      clearTimeout(timer);
      killGroup(child.pid);
      resolve(result);
    };
    const fail = (problem: string): void => end({ ok: false, problem });
    const timer = setTimeout(() => fail(`it did not end within ${timeoutSeconds} s and was killed`), timeoutSeconds * 1000);
    child.stdout.on('data', (chunk: Buffer) => {
      received += chunk.length;
      chunks.push(chunk);
      if (received > MAX_OUTPUT_BYTES) fail(`it wrote more than ${MAX_OUTPUT_BYTES / 1024} KiB and was killed`);
    });
    child.on('error', (error: NodeJS.ErrnoException) => fail(`it cannot be started (${error.code ?? error.message})`));
    child.on('close', (code, signal) => {
      if (code === 0) end({ ok: true, stdout: Buffer.concat(chunks).toString('utf8') });
      else fail(`it ended with ${code === null ? `signal ${signal}` : `exit code ${code}`}; run it by hand to see what it says`);
    });
    // A plugin may end without reading its input.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group is gone already.
  }
}
