import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { build } from 'esbuild';

const OUT = '.out/harbinger.mjs';

/** Some dependencies are CommonJS and call require() for Node's own modules, which an ES module does not have. */
const BANNER = [
  '#!/usr/bin/env node',
  "import { createRequire as __createRequire } from 'node:module';",
  'const require = __createRequire(import.meta.url);',
].join('\n');

/** Bundles everything into one executable; `dependencies` of an install could bring an undici that does not start on Node 20. */
async function bundle(): Promise<void> {
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
  await mkdir('.out', { recursive: true });
  const result = await build({
    entryPoints: ['src/main.ts'],
    outfile: OUT,
    bundle: true,
    // Names stay as they are: those of error classes stand in logs, and keepNames instead would set the name of each closure anew
    // whenever one is made, several times in each admission.
    minifyWhitespace: true,
    minifySyntax: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    mainFields: ['module', 'main'],
    sourcemap: 'external',
    metafile: true,
    legalComments: 'none',
    banner: { js: BANNER },
    define: { 'process.env.HARBINGER_VERSION': JSON.stringify(version) },
    logLevel: 'warning',
  });
  await writeFile('.out/bundle-meta.json', JSON.stringify(result.metafile));
  await chmod(OUT, 0o755);
  const size = result.metafile.outputs[OUT]?.bytes ?? 0;
  console.log(`${OUT} ${(size / 2 ** 20).toFixed(1)} MiB${largest(result.metafile.outputs[OUT]?.inputs ?? {})}`);
}

/** The packages that make up most of the bundle, for whoever wonders why it grew. */
function largest(inputs: Record<string, { bytesInOutput: number }>): string {
  const sizes = new Map<string, number>();
  for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
    const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(path)?.[1] ?? 'src';
    sizes.set(name, (sizes.get(name) ?? 0) + bytesInOutput);
  }
  const top = [...sizes].sort(([, a], [, b]) => b - a).slice(0, 4);
  return top.length === 0 ? '' : ` (${top.map(([name, bytes]) => `${name} ${Math.round(bytes / 1024)} KiB`).join(', ')}, ...)`;
}

await bundle();
