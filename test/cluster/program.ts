import { execFile } from 'node:child_process';
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { repoRoot } from './paths.js';

/**
 * Bundles a TypeScript program of this repository into one file that plain Node runs; returns its path. A process of its
 * own does it, since esbuild's JavaScript does not work inside jest's realm. Same-named bundles replace each other atomically.
 */
export async function bundleProgram(entry: string): Promise<string> {
  const root = repoRoot();
  const dir = join(root, '.out/tools');
  mkdirSync(dir, { recursive: true });
  const outfile = join(dir, `${entry.replaceAll('/', '-').replace(/\.ts$/, '')}.mjs`);
  const temp = outfile.replace(/\.mjs$/, `.${process.pid}.tmp.mjs`);
  const options = [
    '--bundle',
    '--platform=node',
    '--target=node20',
    '--format=esm',
    '--packages=external',
    '--log-level=warning',
  ];
  await promisify(execFile)(join(root, 'node_modules/.bin/esbuild'), [entry, ...options, `--outfile=${temp}`], { cwd: root });
  renameSync(temp, outfile);
  return outfile;
}
