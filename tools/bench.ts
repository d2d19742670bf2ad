import { mkdir, writeFile } from 'node:fs/promises';
import { controller } from './bench/controller.js';
import { footprint } from './bench/footprint.js';
import type { Measurement } from './bench/results.js';
import { webhook } from './bench/webhook.js';

const OUT = '.out/bench';

/** Each writes `.out/bench/NAME.json`. */
const BENCHES: Readonly<Record<string, (say: (line: string) => void) => Promise<Measurement[]>>> = {
  footprint,
  webhook,
  controller,
};

/** `make bench`: numbers with their spread. It judges nothing: a busy machine must not fail anybody's build. */
async function main(only: readonly string[]): Promise<void> {
  const unknown = only.filter((name) => !(name in BENCHES));
  if (unknown.length > 0) throw new Error(`no bench ${unknown.join(', ')}; there are ${Object.keys(BENCHES).join(', ')}`);
  await mkdir(OUT, { recursive: true });
  for (const [name, bench] of Object.entries(BENCHES)) {
    if (only.length > 0 && !only.includes(name)) continue;
    const results = await bench((line) => console.log(line));
    await writeFile(`${OUT}/${name}.json`, `${JSON.stringify({ schema: 1, node: process.version, results }, null, 2)}\n`);
    console.log(`\n${name}, Node ${process.version}: ${OUT}/${name}.json`);
    for (const r of results)
      console.log(`  ${r.name.padEnd(32)} ${r.value} ${r.unit}  (${r.min} to ${r.max}, ${r.repeats} repeats)`);
  }
}

await main(process.argv.slice(2));
