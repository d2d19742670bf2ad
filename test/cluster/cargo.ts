import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { run } from './exec.js';

export interface Crate {
  crate: string;
  version: string;
  /** Folder that gets the programs. */
  bin: string;
  programs: readonly string[];
}

/**
 * Builds a published crate with the versions of its own lock file (newer ones of what it uses may not fit together) and puts the named
 * programs into `bin`. Throws with the way out when there is no cargo.
 */
export async function cargoInstall({ crate, version, bin, programs }: Crate): Promise<void> {
  const scratch = mkdtempSync(`${bin}.`);
  try {
    await run(
      cargo() ?? 'cargo',
      ['install', '--locked', '--version', version, '--root', join(scratch, 'root'), '--no-track', '--quiet', crate],
      { env: { CARGO_TARGET_DIR: join(scratch, 'target') } },
    );
    for (const program of programs) renameSync(join(scratch, 'root/bin', program), join(bin, program));
  } catch (error) {
    throw new Error(
      `crate ${crate} ${version} does not build: ${(error as Error).message}. It needs cargo (rustup.rs), a C compiler, cmake and 1 GB of disk`,
      { cause: error },
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Path of cargo: on PATH, or where rustup puts it without telling every shell. */
export function cargo(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const dirs = [...(env['PATH'] ?? '').split(':'), join(homedir(), '.cargo/bin')];
  return dirs.map((dir) => join(dir, 'cargo')).find((path) => existsSync(path));
}
