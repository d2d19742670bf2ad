// Bundles one TypeScript program of this repository with esbuild and runs it: `node tools/run.mjs tools/doctor.ts ARGS...`.
// Keeps the Makefile thin and needs nothing but the repository's own devDependencies.
import { spawn } from 'node:child_process';
import { basename, resolve } from 'node:path';
import { build } from 'esbuild';

const [entry, ...args] = process.argv.slice(2);
if (!entry) {
  console.error('usage: node tools/run.mjs ENTRY.ts [ARGS...]');
  process.exit(2);
}
const outfile = resolve('.out/tools', `${entry.replaceAll('/', '-').replace(/\.ts$/, '')}.mjs`);
await build({
  entryPoints: [entry],
  outfile,
  bundle: true,
  platform: 'node',
  target: 'node20',
  format: 'esm',
  sourcemap: 'inline',
  logLevel: 'warning',
  packages: 'external',
});
const child = spawn(process.execPath, ['--enable-source-maps', outfile, ...args], { stdio: 'inherit', env: { ...process.env, HARBINGER_TOOL: basename(entry) } });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('exit', (code, signal) => process.exit(signal ? 128 : (code ?? 1)));
