// `make docs`: copies what the last demo run showed into the pages: outputs between `<!-- output: COMMAND -->` and
// `<!-- /output -->`, and the picture. Nothing is typed by hand, so that pages cannot show what was never printed.
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fillOutputs } from './docs-outputs/fill.js';

const DEMO = '.out/demo';

const outputs = new Map<string, string>();
const dir = join(DEMO, 'outputs');
for (const file of existsSync(dir) ? readdirSync(dir) : []) {
  const text = readFileSync(join(dir, file), 'utf8');
  const command = /^\$ (.*)\n/.exec(text)?.[1];
  if (command !== undefined) outputs.set(command, text.slice(command.length + 3));
}
if (outputs.size === 0) throw new Error(`${dir} holds no outputs: run "make demo" first`);

const report = JSON.parse(readFileSync(join(DEMO, 'report.json'), 'utf8')) as { nodes: string };
if (report.nodes !== 'real')
  throw new Error('the last demo ran on fake nodes; the pages show real ones: run "make demo NODES=real" first');
copyFileSync(join(DEMO, 'timeline.svg'), 'docs/timeline.svg');

const pages = [
  'README.md',
  ...readdirSync('docs')
    .filter((f) => f.endsWith('.md'))
    .map((f) => join('docs', f)),
];
for (const page of pages) {
  const before = readFileSync(page, 'utf8');
  const { text, missing } = fillOutputs(before, outputs);
  for (const command of missing) console.error(`${page}: the last demo did not run "${command}"; its output is left as it was`);
  if (text !== before) {
    writeFileSync(page, text);
    console.log(`${page}: outputs renewed`);
  }
  if (missing.length > 0) process.exitCode = 1;
}
